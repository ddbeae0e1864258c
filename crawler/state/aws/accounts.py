"""Accounts: what each crawl has used of AWS, an item a crawl in the control table, and one of what nobody's crawl used.

A process adds what it used since last time, about once a minute and when it ends, shared out among the crawls it
worked for by the pages that it finished for each. So a worker that is killed takes at most a minute's counts with it,
and an account says what was used at least. The reverse is rare: a payment whose answer is lost is made again.

Numbers are added up by the table; an item has an attribute an operation and a unit, about thirty, and stays below 1 KB:
more would cost two units a payment.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from crawler.cost.usage import PROCESS, Unit, Usage
from crawler.errors import StateUnavailable
from crawler.state.aws.client import Aws, together
from crawler.state.aws.records import Item, micros, n, number, s

EVERY = 60.0
"""Seconds between two payments of one process."""

LAST = 1.0
"""Seconds for the last one: nobody waits longer for a state to close."""

PREFIX = "#cost#"

NOBODY = ""
"""The account of what no crawl used: idle workers."""

ONE_PAYMENT = Usage({"dynamodb.UpdateItem": 1}, {Unit.WRITES: 1})
"""What it takes to write into an account, which is in it."""


SHORT = {"sqs": "q", "dynamodb": "d", "s3": "s"}
LONG = {short: service for service, short in SHORT.items()}
"""How the services are called in an item."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What was used at least, and when that was written last (Unix seconds; 0: never)."""

    used: Usage = Usage()
    updated_at: float = 0.0


class Accounts:
    """Payments of one process: of all that its clients use, those of the archive among them."""

    def __init__(self, aws: Aws, table: str, lives: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._aws, self._table, self._lives, self._clock = aws, table, lives, clock
        self._pages: Counter[str] = Counter()
        self._paid_at = clock()
        self._works = False

    def worked(self, crawl: str, pages: int = 0) -> None:
        """Note that the process works for a crawl, and how many of its pages it has finished just now."""
        self._works = True
        self._pages[crawl] += pages

    async def beat(self, *, last: bool = False) -> None:
        """The process is at work, for a crawl or for none: pay if it is time to. `last`: in any case."""
        self._works = True
        if last or not 0 <= self._clock() - self._paid_at < EVERY:
            await self._pay()

    async def close(self) -> None:
        """Pay the rest, if that does not take long. A process that only reads does not pay: it may have no right to."""
        if self._works:
            with contextlib.suppress(StateUnavailable, TimeoutError):
                async with asyncio.timeout(LAST):
                    await self._pay()

    async def _pay(self) -> None:
        """Add what this process used since the last payment. What cannot be written is paid next time."""
        worked = Counter({crawl: pages for crawl, pages in self._pages.items() if self._lives(crawl)})
        shares = worked if worked.total() else dict.fromkeys(worked or (NOBODY,), 1)
        self._pages, self._paid_at = Counter(), self._clock()
        fee = Usage()
        for _ in shares:
            fee += ONE_PAYMENT
        used = PROCESS.take(fee)
        await together([self._add(crawl, part) for crawl, part in split(used, shares)])

    async def _add(self, crawl: str, used: Usage) -> None:
        counts = {**used.requests, **used.units}
        names = {f"#n{i}": _renamed(name, SHORT) for i, name in enumerate(counts)} | {"#at": "updated_at"}
        values = {f":n{i}": n(count) for i, count in enumerate(counts.values())} | {":at": n(micros(self._clock()))}
        adding = ", ".join(f"#n{i} :n{i}" for i in range(len(counts)))
        try:
            await self._aws.ask(
                self._aws.dynamodb.update_item(
                    TableName=self._table,
                    Key={"pk": s(PREFIX + crawl)},
                    UpdateExpression=f"SET #at = :at ADD {adding}",
                    ExpressionAttributeNames=names,
                    ExpressionAttributeValues=values,
                )
            )
        except BaseException:
            PROCESS.give_back(used)
            self._pages[crawl] += 0  # so that it does not become nobody's
            raise

    async def read(self, crawls: list[str]) -> list[Account]:
        """Accounts of crawls, or of NOBODY."""
        items = await self._aws.items([(self._table, PREFIX + crawl) for crawl in crawls])
        return [_account(items.get((self._table, PREFIX + crawl), {})) for crawl in crawls]

    async def drop(self, crawl: str) -> None:
        """Delete the account of a crawl that was purged."""
        await self._aws.delete(self._table, [PREFIX + crawl])


def split(used: Usage, shares: Mapping[str, int]) -> Iterator[tuple[str, Usage]]:
    """Share usage out in whole numbers that add up; parts of nothing are left out."""
    total, before = sum(shares.values()), 0
    for name, share in shares.items():
        after = before + share
        parts = [
            {key: count * after // total - count * before // total for key, count in counts.items()}
            for counts in (used.requests, used.units)
        ]
        part = Usage(*({key: count for key, count in counts.items() if count} for counts in parts))
        if part:
            yield name, part
        before = after


def _account(item: Item) -> Account:
    counts = {_renamed(name, LONG): number(item, name) for name in item if name not in ("pk", "updated_at")}
    requests = {name: count for name, count in counts.items() if "." in name}
    units = {name: count for name, count in counts.items() if "." not in name}
    return Account(used=Usage(requests, units), updated_at=number(item, "updated_at") / 1_000_000)


def _renamed(name: str, services: Mapping[str, str]) -> str:
    service, dot, operation = name.partition(".")
    return services.get(service, service) + dot + operation
