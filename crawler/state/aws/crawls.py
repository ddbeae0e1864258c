"""Crawls and their counters: one item a crawl in the control table, and an index of their names.

Counters are kept in memory until a write took them, so that an ending is counted once although its settlement may be
repeated. They can drift when a process dies between a record and its counter: `completion` puts them right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch, UsageError
from crawler.model import CrawlRecord
from crawler.state.aws.client import Aws, Refused
from crawler.state.aws.records import Item, micros, n, number, s, text

FRESH = 15.0
"""Seconds for which a crawl's settings and counters are used as last seen."""

INDEX = "#index#crawls"

COUNTERS = ("discovered", "done", "skipped", "dead", "bytes")


class Crawl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A crawl's item as last seen at `seen_at`."""

    record: CrawlRecord
    discovered: int
    done: int
    skipped: int
    dead: int
    bytes: int
    hosts: int
    seen_at: float

    @property
    def outstanding(self) -> int:
        return self.discovered - self.done - self.skipped - self.dead


class Crawls:
    """Read, create, amend, count."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self.table, self._clock = aws, table, clock
        self._seen: dict[str, Crawl] = {}
        self._owed: dict[str, Counter[str]] = {}

    async def create(self, wanted: CrawlRecord) -> CrawlRecord:
        """Write the record unless there is one."""
        # The name first: a name without a record is passed over, a record without its name would never be found.
        await self._aws.ask(
            self._aws.dynamodb.update_item(
                TableName=self.table,
                Key={"pk": s(INDEX)},
                UpdateExpression="ADD crawls :id",
                ExpressionAttributeValues={":id": {"SS": [wanted.id]}},
            )
        )
        item = {
            "pk": s(key(wanted.id)),
            "id": s(wanted.id),
            "settings": s(msgspec.json.encode(wanted.settings).decode()),
            "store": s(wanted.store),
            "started_at": n(micros(wanted.started_at)),
            "updated_at": n(micros(wanted.updated_at or wanted.started_at)),
        } | {name: n(0) for name in COUNTERS}
        try:
            await self._aws.ask(
                self._aws.dynamodb.put_item(
                    TableName=self.table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(pk)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            )
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            item = error.item
        return self.note(item).record

    async def all(self) -> list[CrawlRecord]:
        """Every crawl on the state, oldest first."""
        index = (await self._aws.items([(self.table, INDEX)])).get((self.table, INDEX), {})
        names = index.get("crawls", {}).get("SS", [])
        items = await self._aws.items([(self.table, key(name)) for name in names])
        return sorted(
            (self.note(item).record for item in items.values()), key=lambda crawl: (crawl.started_at, crawl.id)
        )

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        values = {":s": s(msgspec.json.encode(settings).decode())}
        await self._update(crawl, "SET settings = :s", values)

    async def read(self, crawl: str) -> Crawl:
        """A crawl as it is now. Raises UsageError."""
        items = await self._aws.items([(self.table, key(crawl))])
        if not items:
            self.forget(crawl)
            raise UsageError(f"there is no crawl {crawl!r} on this state")
        return self.note(items[self.table, key(crawl)])

    async def known(self, crawl: str) -> Crawl:
        """A crawl as it was at most FRESH seconds ago. Raises UsageError."""
        return self._seen[crawl] if not self.stale(crawl) else await self.read(crawl)

    def seen(self, crawl: str) -> Crawl | None:
        """A crawl as last seen, however long ago."""
        return self._seen.get(crawl)

    def forget(self, crawl: str) -> None:
        """There is no such crawl any more."""
        self._seen.pop(crawl, None)

    def stale(self, crawl: str) -> bool:
        """Whether the crawl should be read before its settings and counters are used."""
        seen = self._seen.get(crawl)
        return seen is None or not 0 <= self._clock() - seen.seen_at < FRESH

    def note(self, item: Item) -> Crawl:
        """Remember a crawl's item as read."""
        crawl = _crawl(item, self._clock())
        self._seen[crawl.record.id] = crawl
        return crawl

    def owe(self, crawl: str, **counts: int) -> None:
        """Note what is to be added to a crawl's counters; `pay` writes it."""
        self._owed.setdefault(crawl, Counter()).update(counts)

    async def pay(self, crawl: str) -> None:
        """Add what is owed. Pages added to a complete crawl open it again, in the same write.

        If the process dies here the counters are short by this batch until the completion's scan corrects them.
        """
        owed = self._owed.pop(crawl, Counter())
        changed = {name: count for name, count in owed.items() if count}
        if not changed:
            return
        adding = ", ".join(f"#{name} :{name}" for name in changed)
        reopening = " REMOVE completed_at" if changed.get("discovered") else ""
        try:
            await self._update(
                crawl,
                f"SET updated_at = :now ADD {adding}{reopening}",
                {":now": n(micros(self._clock()))} | {f":{name}": n(count) for name, count in changed.items()},
                names={f"#{name}": name for name in changed},
            )
        except UsageError:
            pass  # the crawl was purged: there is nothing left to count for
        except BaseException:
            self.owe(crawl, **owed)
            raise

    async def complete(self, was: Crawl, exact: dict[str, int]) -> bool:
        """Mark a crawl complete with exact counters, if its counters are still as `was` saw them."""
        values = {":now": n(micros(self._clock()))}
        values |= {f":{name}": n(count) for name, count in exact.items()}
        values |= {f":was_{name}": n(getattr(was, name)) for name in COUNTERS}
        setting = ", ".join(f"#{name} = :{name}" for name in exact)
        unchanged = " AND ".join(f"#{name} = :was_{name}" for name in COUNTERS)
        try:
            await self._update(
                was.record.id,
                f"SET completed_at = :now, updated_at = :now, {setting}",
                values,
                names={f"#{name}": name for name in {*exact, *COUNTERS}},
                condition=unchanged,
            )
        except Refused as error:
            if error.code == "ConditionalCheckFailedException":
                return False
            raise
        return True

    async def _update(
        self,
        crawl: str,
        change: str,
        values: dict[str, Item],
        *,
        names: dict[str, str] | None = None,
        condition: str = "",
    ) -> None:
        """Change a crawl's item. Raises UsageError where there is none, Refused where `condition` fails."""
        more: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        try:
            answer = await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self.table,
                    Key={"pk": s(key(crawl))},
                    UpdateExpression=change,
                    ConditionExpression=f"attribute_exists(pk){f' AND {condition}' if condition else ''}",
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **more,
                ),
                "Attributes",
            )
        except Refused as error:
            if error.code == "ConditionalCheckFailedException" and not error.item:
                self.forget(crawl)
                raise UsageError(f"there is no crawl {crawl!r} on this state") from None
            raise
        self.note(answer["Attributes"])


def key(crawl: str) -> str:
    return f"#crawl#{crawl}"


def _crawl(item: Item, now: float) -> Crawl:
    try:
        settings = msgspec.json.decode(text(item, "settings"), type=CrawlSettings)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"the record of crawl {text(item, 'id')!r} is of another version: {error}") from None
    record = CrawlRecord(
        id=text(item, "id"),
        started_at=number(item, "started_at") / 1_000_000,
        settings=settings,
        store=text(item, "store"),
        completed_at=number(item, "completed_at") / 1_000_000 if "completed_at" in item else None,
        updated_at=number(item, "updated_at") / 1_000_000,
    )
    counters = {name: number(item, name) for name in (*COUNTERS, "hosts")}
    return Crawl(record=record, seen_at=now, **counters)
