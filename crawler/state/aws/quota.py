"""Pages done behind one gate: an item a crawl's run and gate in the control table, for crawls that limit them alone.

Counted as a crawl's own counters are: kept in memory until a write took them, short by a batch where a process dies
between a record and its counter.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from crawler.state.aws.client import Aws, Refused, chunks, together
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.held import Held
from crawler.state.aws.records import Item, Message, n, number, s

PREFIX = "#done#"

FRESH = 1.0
"""Seconds for which a count is used as last seen; what other workers have ended since is not in it."""

AT_ONCE = 100
"""Counts written side by side."""

REMEMBERED = 50_000
"""Counts in memory."""


class Count(msgspec.Struct, frozen=True, gc=False):
    """Pages done behind a gate as seen at `seen_at`."""

    done: int
    seen_at: float


class Quotas:
    """Counts of one process."""

    def __init__(self, aws: Aws, table: str, crawls: Crawls, held: Held, clock: Callable[[], float]) -> None:
        self._aws, self._table, self._crawls, self._held, self._clock = aws, table, crawls, held, clock
        self._seen: OrderedDict[str, Count] = OrderedDict()
        self._owed: Counter[tuple[str, str]] = Counter()

    def stale(self, pages: Iterable[Message]) -> list[str]:
        """Keys of the counts that should be read before these pages are judged."""
        now = self._clock()
        keys = {_key(_run(page), page.gate) for page in pages if self._limit(page.crawl) is not None}
        return [key for key in keys if key not in self._seen or not 0 <= now - self._seen[key].seen_at < FRESH]

    def note(self, keys: Sequence[str], items: dict[tuple[str, str], Item]) -> None:
        """Remember counts as read: by table and pk, absent ones are 0."""
        for key in keys:
            self._remember(key, number(items.get((self._table, key), {}), "done"))

    async def read(self, keys: Sequence[str]) -> None:
        self.note(keys, await self._aws.items([(self._table, key) for key in keys]))

    def used_up(self, page: Message) -> bool:
        """Whether the page's gate has had as many pages as its crawl wants."""
        limit = self._limit(page.crawl)
        return limit is not None and self._done(page) >= limit

    def room(self, page: Message) -> float:
        """How many more pages behind the page's gate may be handed out besides those that this process holds."""
        limit = self._limit(page.crawl)
        if limit is None:
            return float("inf")
        return limit - self._done(page) - self._held.count_behind(_run(page), page.gate)

    def owe(self, crawl: str, run: str, gate: str) -> None:
        """Note that one more page of a crawl's run (`<crawl>#<run>`) behind a gate was done; `pay` writes it."""
        if self._limit(crawl) is not None:
            self._owed[run, gate] += 1

    async def pay(self) -> None:
        """Write what is owed: a request a gate. What fails is still owed."""
        await together([self._pay(run, gate) for run, gate in list(self._owed)])

    async def _pay(self, run: str, gate: str) -> None:
        owed, key = self._owed.pop((run, gate)), _key(run, gate)
        try:
            answer = await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self._table,
                    Key={"pk": s(key)},
                    UpdateExpression="ADD done :more",
                    ExpressionAttributeValues={":more": n(owed)},
                    ReturnValues="ALL_NEW",
                ),
                "Attributes",
            )
        except BaseException:
            self._owed[run, gate] += owed
            raise
        self._remember(key, number(answer["Attributes"], "done"))

    async def recount(self, run: str, done: Mapping[str, int]) -> None:
        """Write what the records say, by gate, where the counts say less: of a run that had no limit till now."""
        for gates in chunks(list(done), AT_ONCE):
            await together([self._raise(_key(run, gate), done[gate]) for gate in gates])

    async def _raise(self, key: str, done: int) -> None:
        try:
            await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self._table,
                    Key={"pk": s(key)},
                    UpdateExpression="SET done = :done",
                    ConditionExpression="attribute_not_exists(done) OR done < :done",
                    ExpressionAttributeValues={":done": n(done)},
                )
            )
        except Refused as error:
            if error.code != "ConditionalCheckFailedException":
                raise

    async def drop(self, crawl: str, run: str) -> None:
        """Delete the counts of a crawl's run, and of those before it. Reads the whole control table."""
        await self._aws.delete_between(self._table, f"{PREFIX}{crawl}#", f"{PREFIX}{crawl}#{run}$")

    def _limit(self, crawl: str) -> int | None:
        seen = self._crawls.seen(crawl)
        return seen.record.settings.max_pages_per_host if seen is not None else None

    def _done(self, page: Message) -> int:
        seen = self._seen.get(_key(_run(page), page.gate))
        return seen.done if seen is not None else 0

    def _remember(self, key: str, done: int) -> None:
        self._seen[key] = Count(done, self._clock())
        self._seen.move_to_end(key)
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)


def _run(page: Message) -> str:
    return f"{page.crawl}#{page.run}"


def _key(run: str, gate: str) -> str:
    return f"{PREFIX}{run}#{gate}"
