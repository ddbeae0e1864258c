"""What the fleet knows: facts with an end, sites in a crawl's scope, and which workers are alive.

The end of an item is checked whenever it is read; the table's `ttl` only cleans up, late by up to days.
"""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from crawler.errors import UsageError
from crawler.model import Beat
from crawler.state.aws.client import Aws, Refused, together
from crawler.state.aws.records import Item, micros, n, number, s

LARGEST = 300_000
"""Bytes of a fact (DynamoDB takes items of 400 kB)."""

BEAT_EVERY = 10.0
"""Seconds between two writes of one worker's sign of life."""

ALIVE = 60.0
"""Seconds after its latest sign of life for which a worker counts as alive."""

LISTED = 3600.0
"""Seconds after which a silent worker leaves the list; a living one enters itself again more often than that."""

WORKERS = "#index#workers"


class Facts:
    """Named values with an end, compressed."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self._table, self._clock = aws, table, clock

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        items = await self._aws.items([(self._table, _fact(name)) for name in names])
        now = micros(self._clock())
        found = [items.get((self._table, _fact(name))) for name in names]
        return [
            zlib.decompress(item["value"]["B"]) if item is not None and number(item, "expires") > now else None
            for item in found
        ]

    async def remember(self, name: str, value: bytes, seconds: float, if_absent: bool) -> bool:
        if len(value) > LARGEST:
            raise UsageError(f"the fact {name!r} has {len(value):,} bytes: at most {LARGEST:,} can be kept")
        now = self._clock()
        stamp = uuid.uuid4().hex
        item: dict[str, Any] = {
            "pk": s(_fact(name)),
            "value": {"B": zlib.compress(value, 1)},
            "expires": n(micros(now + seconds)),
            "ttl": n(int(now + seconds) + 60),
            "stamp": s(stamp),
        }
        more: dict[str, Any] = {}
        if if_absent:
            more = {
                "ConditionExpression": "attribute_not_exists(pk) OR expires <= :now",
                "ExpressionAttributeValues": {":now": n(micros(now))},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        try:
            await self._aws.ask(self._aws.dynamodb.put_item(TableName=self._table, Item=item, **more))
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            # A write whose answer was lost is sent again by the client, and then meets itself.
            return error.item.get("stamp") == s(stamp)
        return True


class Scope:
    """Sites that seeds brought into a crawl's run (`<crawl>#<run>`): an item a site. What came in stays in."""

    def __init__(self, aws: Aws, table: str) -> None:
        self._aws, self._table = aws, table

    async def bring(self, run: str, sites: Iterable[str]) -> None:
        """Bring sites in; those that are stay."""
        puts = [self._put({"pk": s(_site(run, site))}) for site in dict.fromkeys(sites) if site]
        await together(puts)

    async def has(self, run: str, sites: Sequence[str]) -> list[bool]:
        """For each site whether it is in scope."""
        items = await self._aws.items([(self._table, _site(run, site)) for site in sites])
        return [(self._table, _site(run, site)) in items for site in sites]

    async def drop(self, crawl: str, run: str) -> None:
        """Delete the scope of a run, and of those before it. Reads the whole control table, gates and facts too."""
        await self._aws.delete_between(self._table, _site(crawl, ""), f"#scope#{crawl}#{run}$")

    async def _put(self, item: Item) -> None:
        await self._aws.ask(self._aws.dynamodb.put_item(TableName=self._table, Item=item))


class Fleet:
    """Signs of life: an item a worker, and the list of their names."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self._table, self._clock = aws, table, clock
        self._latest: dict[str, Beat] = {}
        self._written: dict[str, float] = {}
        self._listed: dict[str, float] = {}
        self.size = 1
        self._counted_at = 0.0

    async def beat(self, beat: Beat) -> None:
        """Write a sign of life, unless there was one a moment ago; now and then count the workers alive."""
        now = self._clock()
        self._latest[beat.worker] = beat
        if beat.at and now - self._written.get(beat.worker, 0.0) < BEAT_EVERY:
            return
        item = {"pk": s(_worker(beat.worker)), "beat": s(msgspec.json.encode(beat).decode())}
        item |= {"ttl": n(int(now + LISTED))}
        calls = [self._ask(self._aws.dynamodb.put_item(TableName=self._table, Item=item))]
        entering = now - self._listed.get(beat.worker, 0.0) > LISTED / 4
        if entering:
            calls.append(self._list("ADD", [beat.worker]))
        await together(calls)
        self._written[beat.worker] = now
        if not beat.at:
            self._listed.pop(beat.worker, None)  # whoever asks next takes the name off the list
        elif entering:
            self._listed[beat.worker] = now
        if now - self._counted_at > ALIVE:
            self._counted_at = now
            self.size = max(1, len(await self.workers()))

    async def workers(self, within: float = ALIVE) -> list[Beat]:
        """Latest signs of life of so many seconds, LISTED at most, this process's own to the moment."""
        index = (await self._aws.items([(self._table, WORKERS)])).get((self._table, WORKERS), {})
        names: list[str] = index.get("workers", {}).get("SS", [])
        items = await self._aws.items([(self._table, _worker(name)) for name in names])
        beats = {beat.worker: beat for beat in (_beat(item) for item in items.values())}
        now = self._clock()
        silent = [name for name in names if name not in beats or beats[name].at < now - LISTED]
        if silent:
            await self._list("DELETE", silent)
        beats |= {name: beat for name, beat in self._latest.items() if beat.at >= beats.get(name, beat).at}
        return sorted((beat for beat in beats.values() if beat.at > now - within), key=lambda beat: beat.worker)

    async def _list(self, change: str, names: list[str]) -> None:
        await self._ask(
            self._aws.dynamodb.update_item(
                TableName=self._table,
                Key={"pk": s(WORKERS)},
                UpdateExpression=f"{change} workers :names",
                ExpressionAttributeValues={":names": {"SS": names}},
            )
        )

    async def _ask(self, call: Any) -> None:
        await self._aws.ask(call)


def _beat(item: dict[str, Any]) -> Beat:
    return msgspec.json.decode(item["beat"]["S"], type=Beat)


def _fact(name: str) -> str:
    """A key DynamoDB takes whatever the name: at most 2,048 bytes."""
    encoded = name.encode("utf-8", "surrogatepass")
    fits = len(encoded) <= 1_000 and encoded.decode("utf-8", "replace") == name
    return f"#fact#{name if fits else hashlib.sha256(encoded).hexdigest()}"


def _site(run: str, site: str) -> str:
    return f"#scope#{run}#{site}"


def _worker(name: str) -> str:
    return f"#worker#{name}"
