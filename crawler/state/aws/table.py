"""The visited table: an item a URL, inserted once when found and written once when finished.

pk is `<crawl>#<digest in hex>`: writes spread over partitions, and a long URL never breaks a key.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import msgspec

from crawler.model import Ending, Page, PageState, Phase, Verdict
from crawler.state.aws.client import Aws
from crawler.state.aws.records import LETTERS, PHASES, Item, clipped, micros, n, number, s, text

_ENDED = {Ending.DONE: Phase.DONE, Ending.SKIPPED: Phase.SKIPPED, Ending.DEAD: Phase.DEAD}

_COLUMNS = ("pk", "url", "gate", "depth", "priority", "parent", "found", "phase", "reason", "stamp")


class Record(msgspec.Struct, frozen=True, gc=False):
    """A visited item. `parent` is the digest of the page that added it in hex, "" for a seed.

    `stamp` names the call or the lease that wrote last: an insert or an ending whose answer was lost and that was
    therefore sent twice finds its own stamp, and knows that it was the writer.
    """

    pk: str
    url: str
    gate: str
    depth: int
    priority: int
    parent: str
    found: float
    phase: Phase
    reason: str
    stamp: str

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.pk[-32:])


class Visited:
    """Insert-if-absent, finish-if-pending, read and scan, in batches."""

    def __init__(self, aws: Aws, table: str) -> None:
        self._aws, self.table = aws, table
        columns = ", ".join(f"'{name}': ?" for name in _COLUMNS)
        self._insert = f'INSERT INTO "{table}" VALUE {{{columns}}}'
        self._finish = (  # values are parameters; the table's name comes from the state's own address
            f'UPDATE "{table}" SET "phase"=? SET "reason"=? SET "error"=? SET "ended"=? SET "stamp"=? '  # noqa: S608
            'WHERE "pk"=? AND "phase"=\'p\''
        )

    async def read(self, pks: Sequence[str]) -> dict[str, Record]:
        """Records by pk; absent ones are absent."""
        items = await self._aws.items([(self.table, pk) for pk in pks])
        return {pk: record(item) for (_, pk), item in items.items()}

    async def insert(self, records: Sequence[Record]) -> list[bool]:
        """Insert records of distinct pk; False for one that was there (perhaps by an earlier try of this same call)."""
        statements = [{"Statement": self._insert, "Parameters": _parameters(entry)} for entry in records]
        return [not error for error in await self._aws.statements(statements)]

    async def finish(self, endings: Sequence[tuple[str, Verdict, str]], now: float) -> list[bool]:
        """End pending pages given as (pk, verdict, stamp). False: it had ended before, by another stamp, or is gone."""
        statements = [
            {
                "Statement": self._finish,
                "Parameters": [
                    s(LETTERS[_ENDED[verdict.ending]]),
                    s(clipped(verdict.reason, 60)),
                    s(clipped(verdict.error, 300)),
                    n(micros(now)),
                    s(stamp),
                    s(pk),
                ],
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
            for pk, verdict, stamp in endings
        ]
        errors = await self._aws.statements(statements)
        return [
            not error or text(error.get("Item", {}), "stamp") == stamp
            for error, (_, _, stamp) in zip(errors, endings, strict=True)
        ]

    async def scan(self, crawl: str) -> AsyncGenerator[Record, None]:
        """Every record of a crawl, strongly consistent by page. Reads the whole table: two cents a million URLs."""
        start: dict[str, Any] = {}
        while True:
            answer = await self._aws.ask(
                self._aws.dynamodb.scan(
                    TableName=self.table,
                    ConsistentRead=True,
                    FilterExpression="begins_with(pk, :crawl)",
                    ExpressionAttributeValues={":crawl": s(f"{crawl}#")},
                    **start,
                ),
                "Items",
            )
            for item in answer["Items"]:
                yield record(item)
            if not answer.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def pk(crawl: str, digest: bytes) -> str:
    return f"{crawl}#{digest.hex()}"


def new(crawl: str, page: Page, found: float, stamp: str) -> Record:
    """The record of a page that is to be inserted."""
    return Record(
        pk=pk(crawl, page.digest),
        url=page.url,
        gate=page.gate,
        depth=page.depth,
        priority=int(page.priority),
        parent=page.parent.digest.hex() if page.parent else "",
        found=found,
        phase=Phase.SKIPPED if page.skip else Phase.PENDING,
        reason=clipped(page.skip, 60),
        stamp=stamp,
    )


def record(item: Item) -> Record:
    return Record(
        pk=text(item, "pk"),
        url=text(item, "url"),
        gate=text(item, "gate"),
        depth=number(item, "depth"),
        priority=number(item, "priority"),
        parent=text(item, "parent"),
        found=number(item, "found") / 1_000_000,
        phase=PHASES[text(item, "phase")],
        reason=text(item, "reason"),
        stamp=text(item, "stamp"),
    )


def state(entry: Record) -> PageState:
    """A line of the ledger. Which pages are leased only the queues know: they count as pending."""
    return PageState(entry.digest, entry.url, entry.phase, entry.reason)


def _parameters(entry: Record) -> list[Item]:
    return [
        s(entry.pk),
        s(entry.url),
        s(entry.gate),
        n(entry.depth),
        n(entry.priority),
        s(entry.parent),
        n(micros(entry.found)),
        s(LETTERS[entry.phase]),
        s(entry.reason),
        s(entry.stamp),
    ]
