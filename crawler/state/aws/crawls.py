"""Crawls and their counters: one item a crawl in the control table, and an index of their names.

A crawl's id together with its `run` is its key wherever it must not be taken for another of that id: its pages, its
scope, what is owed to its counters. A purge leaves the item as a mark, so that what workers still hold and queues still
carry is recognised; a crawl begun anew replaces the mark, with a run of its own.

Counters are kept in memory until a write took them, so that an ending is counted once although its settlement may be
repeated. They can drift when a process dies between a record and its counter: `completion` puts them right.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch, UsageError
from crawler.model import CrawlRecord, Phase
from crawler.state.aws.client import Aws, Refused
from crawler.state.aws.records import BY_REASON, OTHER, Item, counter, micros, n, number, s, text

FRESH = 15.0
"""Seconds for which a crawl's settings and counters are used as last seen."""

INDEX = "#index#crawls"

PURGED_FOR = 15 * 24 * 3600
"""Seconds for which a purged crawl's mark is kept: no message lives longer on a queue (SQS: 14 days at most)."""

COUNTERS = ("discovered", "done", "skipped", "dead", "bytes")


class Crawl(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A crawl's item as last seen at `seen_at`."""

    record: CrawlRecord
    run: str
    discovered: int
    done: int
    skipped: int
    dead: int
    bytes: int
    hosts: int
    seen_at: float
    skips: dict[str, int] = {}
    deaths: dict[str, int] = {}

    @property
    def key(self) -> str:
        """Id and run."""
        return f"{self.record.id}#{self.run}"

    @property
    def counters(self) -> tuple[int, ...]:
        """What tells that pages were found or ended."""
        return self.discovered, self.done, self.skipped, self.dead

    @property
    def outstanding(self) -> int:
        return self.discovered - self.done - self.skipped - self.dead


class Crawls:
    """Read, create, amend, count."""

    def __init__(self, aws: Aws, table: str, clock: Callable[[], float]) -> None:
        self._aws, self.table, self._clock = aws, table, clock
        self._seen: dict[str, Crawl] = {}
        self._purged: set[str] = set()
        self._owed: dict[str, Counter[str]] = {}

    async def create(self, wanted: CrawlRecord) -> CrawlRecord:
        """Write the record unless there is one; a purged crawl is none."""
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
            "run": s(f"{micros(self._clock()):016x}"),
            "settings": s(msgspec.json.encode(wanted.settings).decode()),
            "store": s(wanted.store),
            "started_at": n(micros(wanted.started_at)),
            "updated_at": n(micros(wanted.updated_at or wanted.started_at)),
        } | {name: n(0) for name in COUNTERS}
        if wanted.paused:
            item["paused"] = {"BOOL": True}
        try:
            await self._aws.ask(
                self._aws.dynamodb.put_item(
                    TableName=self.table,
                    Item=item,
                    ConditionExpression="attribute_not_exists(pk) OR attribute_exists(purged_at)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
            )
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            item = error.item
        return self._live(wanted.id, item).record

    async def all(self) -> list[CrawlRecord]:
        """Every crawl on the state, oldest first."""
        index = (await self._aws.items([(self.table, INDEX)])).get((self.table, INDEX), {})
        names = index.get("crawls", {}).get("SS", [])
        items = await self._aws.items([(self.table, key(name)) for name in names])
        seen = [crawl.record for item in items.values() if (crawl := self.note(item))]
        return sorted(seen, key=lambda crawl: (crawl.started_at, crawl.id))

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        values = {":s": s(msgspec.json.encode(settings).decode()), ":now": n(micros(self._clock()))}
        await self._update(crawl, "SET settings = :s, amended_at = :now", values)

    async def pause(self, crawl: str, paused: bool) -> bool:
        """Pause a crawl that is not complete, or end its pause; whether that changed anything. Raises UsageError."""
        change, condition = "REMOVE paused", "attribute_exists(paused)"
        values = {":now": n(micros(self._clock()))}
        if paused:
            change, condition = ", paused = :yes", "attribute_not_exists(paused) AND attribute_not_exists(completed_at)"
            values[":yes"] = {"BOOL": True}
        try:
            await self._update(crawl, f"SET updated_at = :now {change}", values, condition=condition)
        except Refused as error:
            if error.code == "ConditionalCheckFailedException":
                return False
            raise
        return True

    async def purge(self, crawl: str) -> str:
        """Mark a crawl as purged, or its mark as younger; answers its run, "" for an unknown crawl.

        Its name stays in the index: taking it off could meet a crawl that begins anew.
        """
        now = self._clock()
        try:
            answer = await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self.table,
                    Key={"pk": s(key(crawl))},
                    UpdateExpression="SET purged_at = :now, #ttl = :ttl",
                    ConditionExpression="attribute_exists(pk)",
                    ExpressionAttributeNames={"#ttl": "ttl"},
                    ExpressionAttributeValues={":now": n(micros(now)), ":ttl": n(int(now) + PURGED_FOR)},
                    ReturnValues="ALL_NEW",
                ),
                "Attributes",
            )
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise
            self.forget(crawl)
            return ""
        self.note(answer["Attributes"])
        return text(answer["Attributes"], "run")

    async def read(self, crawl: str) -> Crawl:
        """A crawl as it is now. Raises UsageError."""
        items = await self._aws.items([(self.table, key(crawl))])
        return self._live(crawl, items.get((self.table, key(crawl))))

    async def refresh(self, crawls: Iterable[str]) -> None:
        """Read crawls as they are now, in one request."""
        wanted = {(self.table, key(crawl)): crawl for crawl in crawls}
        self.renew(wanted.values(), await self._aws.items(list(wanted)))

    def renew(self, crawls: Iterable[str], items: dict[tuple[str, str], Item]) -> None:
        """Remember crawls as read: by table and pk, absent ones are absent."""
        for crawl in crawls:
            self.forget(crawl)
            if (self.table, key(crawl)) in items:
                self.note(items[self.table, key(crawl)])

    async def paid(self, crawl: str) -> Crawl:
        """A crawl as it is once all that this process owes it is paid. Raises UsageError."""
        for key in [key for key in self._owed if key.rpartition("#")[0] == crawl]:
            await self.pay(key)
        return await self.read(crawl)

    async def known(self, crawl: str) -> Crawl:
        """A crawl as it was at most FRESH seconds ago. Raises UsageError."""
        return self._seen[crawl] if not self.stale(crawl) else await self.read(crawl)

    def seen(self, crawl: str) -> Crawl | None:
        """A crawl as last seen, however long ago."""
        return self._seen.get(crawl)

    def forget(self, crawl: str) -> None:
        """There is no such crawl any more."""
        self._seen.pop(crawl, None)

    def purged(self, crawl: str) -> bool:
        """Whether the crawl, as last seen, was purged and not begun anew."""
        return crawl in self._purged

    def lease(self, crawl: str, otherwise: int) -> int:
        """Seconds of the crawl's lease, as last seen; what the queues do by themselves for one never seen."""
        seen = self._seen.get(crawl)
        return math.ceil(seen.record.settings.lease or otherwise) if seen is not None else otherwise

    def runs(self, crawl: str, run: str) -> bool:
        """Whether this run of the crawl, as last seen, is the one that lives."""
        seen = self._seen.get(crawl)
        return seen is not None and seen.run == run

    def paused(self, crawl: str) -> bool:
        """Whether the crawl was paused when it was last seen."""
        seen = self._seen.get(crawl)
        return seen is not None and seen.record.paused

    def stale(self, crawl: str, fresh: float = FRESH) -> bool:
        """Whether the crawl should be read before its settings and counters are used."""
        seen = self._seen.get(crawl)
        return seen is None or not 0 <= self._clock() - seen.seen_at < fresh

    def note(self, item: Item) -> Crawl | None:
        """Remember a crawl's item as read; None for one that was purged."""
        name = text(item, "id")
        if "purged_at" in item:
            self.forget(name)
            self._purged.add(name)
            return None
        self._purged.discard(name)
        self._seen[name] = _crawl(item, self._clock())
        return self._seen[name]

    def owe(self, key: str, counts: Mapping[str, int]) -> None:
        """Note what is to be added to the counters of a crawl's run; `pay` writes it."""
        self._owed.setdefault(key, Counter()).update(counts)

    async def pay(self, key: str, *, reopen: bool = False) -> bool:
        """Add what is owed; False when the run is over: there is nothing left to count for.

        Pages added to a complete crawl open it again in the same write, as `reopen` does in any case. If the process
        dies here the counters are short by this batch until the completion's scan corrects them.
        """
        owed = self._owed.pop(key, Counter())
        changed = {name: count for name, count in owed.items() if count}
        if not changed and not reopen:
            return True
        adding = " ADD " + ", ".join(f"#n{i} :n{i}" for i, _ in enumerate(changed)) if changed else ""
        reopening = " REMOVE completed_at" if reopen or changed.get("discovered") else ""
        crawl, _, run = key.rpartition("#")
        try:
            await self._update(
                crawl,
                f"SET updated_at = :now{adding}{reopening}",
                {":now": n(micros(self._clock()))} | {f":n{i}": n(count) for i, count in enumerate(changed.values())},
                names={f"#n{i}": name for i, name in enumerate(changed)},
                run=run,
            )
        except UsageError:
            return False
        except BaseException:
            self.owe(key, owed)
            raise
        return True

    async def complete(self, was: Crawl, exact: Mapping[str, int]) -> bool:
        """Mark a crawl complete with exact counters, if its counters are still as `was` saw them."""
        gone = [counter(Phase.SKIPPED, reason) for reason in was.skips]
        gone += [counter(Phase.DEAD, reason) for reason in was.deaths]
        exact = {**dict.fromkeys(gone, 0), **exact}
        values = {":now": n(micros(self._clock()))}
        values |= {f":n{i}": n(count) for i, count in enumerate(exact.values())}
        values |= {f":was_{name}": n(getattr(was, name)) for name in COUNTERS}
        setting = ", ".join(f"#n{i} = :n{i}" for i, _ in enumerate(exact))
        unchanged = " AND ".join(f"#{name} = :was_{name}" for name in COUNTERS)
        try:
            await self._update(
                was.record.id,
                f"SET completed_at = :now, updated_at = :now, {setting} REMOVE paused",
                values,
                names={f"#n{i}": name for i, name in enumerate(exact)} | {f"#{name}": name for name in COUNTERS},
                condition=unchanged,
                run=was.run,
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
        run: str = "",
    ) -> None:
        """Change a crawl's item. Raises UsageError where there is none (or not of this run), Refused where `condition`
        fails."""
        conditions = ["attribute_exists(pk)", "attribute_not_exists(purged_at)"]
        if run:
            conditions.append("#run = :run")
            names, values = {**(names or {}), "#run": "run"}, {**values, ":run": s(run)}
        more: dict[str, Any] = {"ExpressionAttributeNames": names} if names else {}
        try:
            answer = await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self.table,
                    Key={"pk": s(key(crawl))},
                    UpdateExpression=change,
                    ConditionExpression=" AND ".join([*conditions, *([condition] if condition else [])]),
                    ExpressionAttributeValues=values,
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **more,
                ),
                "Attributes",
            )
        except Refused as error:
            if error.code == "ConditionalCheckFailedException":
                seen = self._live(crawl, error.item)
                if run not in ("", seen.run):
                    raise UsageError(f"the crawl {crawl!r} was purged and begun anew") from None
            raise
        self.note(answer["Attributes"])

    def _live(self, crawl: str, item: Item | None) -> Crawl:
        """A crawl from its item. Raises UsageError where there is none, or the mark of one that was purged."""
        seen = self.note(item) if item else None
        if seen is None:
            self.forget(crawl)
            raise UsageError(f"there is no crawl {crawl!r} on this state")
        return seen


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
        amended_at=number(item, "amended_at") / 1_000_000,
        paused="paused" in item,
    )
    counters = {name: number(item, name) for name in (*COUNTERS, "hosts")}
    skips, deaths = (_by_reason(item, ended) for ended in BY_REASON)
    return Crawl(record=record, run=text(item, "run"), seen_at=now, **counters, skips=skips, deaths=deaths)


def _by_reason(item: Item, ended: Phase) -> dict[str, int]:
    """Pages that ended so, by reason. None are left where they were revived; fewer than none, where that was counted
    twice."""
    prefix = counter(ended, OTHER).removesuffix(OTHER)
    counts = {name.removeprefix(prefix): number(item, name) for name in item if name.startswith(prefix)}
    return {reason: count for reason, count in counts.items() if count > 0}
