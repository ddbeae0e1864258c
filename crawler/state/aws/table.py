"""The visited table: an item a URL, inserted once when found and written once when finished.

pk is `<crawl>#<run>#<digest in hex>`: a crawl that was purged and one begun anew under its name share no item.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from crawler.errors import StateMismatch
from crawler.model import Ending, Failure, Page, PageState, Phase, Verdict
from crawler.state.aws.client import Aws
from crawler.state.aws.records import (
    LETTERS,
    PHASES,
    REASON_LENGTH,
    Item,
    clipped,
    micros,
    n,
    number,
    page_key,
    s,
    text,
)

_ENDED = {Ending.DONE: Phase.DONE, Ending.SKIPPED: Phase.SKIPPED, Ending.DEAD: Phase.DEAD}

_COLUMNS = ("pk", "url", "gate", "depth", "priority", "parent", "found", "phase", "reason", "stamp")

QUEUED: dict[str, Item] = {"revived": n(0), "reason": s(""), "error": s("")}
"""Changes to a page that was dead once its message has been sent."""

_failures = msgspec.json.Decoder(tuple[Failure, ...])


class Record(msgspec.Struct, frozen=True, gc=False):
    """A visited item. `parent` is the digest of the page that added it in hex, "" for a seed. `attempts` are those that
    failed, `history` tells of the latest of them. `ended` (Unix seconds) is when the page ended or was revived.

    `stamp` names the call or the lease that wrote last: an insert or an ending whose answer was lost and that was
    therefore sent twice finds its own stamp, and knows that it was the writer. `revived`, when not 0, is the time
    (microseconds) from which on a page that was dead may be claimed again, until its message has been sent.
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
    error: str = ""
    attempts: int = 0
    history: tuple[Failure, ...] = ()
    revived: int = 0
    ended: float = 0.0

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.pk[-32:])


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a page ends, or an attempt at it. `failed`, for a failed attempt: how many have, and the latest of them."""

    pk: str
    verdict: Verdict
    stamp: str
    failed: tuple[int, tuple[Failure, ...]] | None = None


class Visited:
    """Insert-if-absent, change-if-pending, read and scan, in batches."""

    def __init__(self, aws: Aws, table: str) -> None:
        self._aws, self.table = aws, table
        columns = ", ".join(f"'{name}': ?" for name in _COLUMNS)
        self._insert = f'INSERT INTO "{table}" VALUE {{{columns}}}'

    async def read(self, pks: Sequence[str], *, consistent: bool = True) -> dict[str, Record]:
        """Records by pk; absent ones are absent, and unless `consistent` perhaps those of the last second."""
        items = await self._aws.items([(self.table, pk) for pk in pks], consistent=consistent)
        return {pk: record(item) for (_, pk), item in items.items()}

    async def insert(self, records: Sequence[Record]) -> list[bool]:
        """Insert records of distinct pk; False for one that was there (perhaps by an earlier try of this same call)."""
        statements = [{"Statement": self._insert, "Parameters": _parameters(entry)} for entry in records]
        return [not error for error in await self._aws.statements(statements)]

    async def finish(self, outcomes: Sequence[Outcome], now: float) -> list[bool]:
        """End pending pages. False: it had ended before, by another stamp, or is gone."""
        statements = []
        for outcome in outcomes:
            verdict = outcome.verdict
            changes = {
                "phase": s(LETTERS[_ENDED[verdict.ending]]),
                "reason": s(clipped(verdict.reason, REASON_LENGTH)),
                "error": s(clipped(verdict.error, 300)),
                "ended": n(micros(now)),
                "stamp": s(outcome.stamp),
            }
            statements.append(self._update({**changes, **_failed(outcome)}, outcome.pk, "p"))
        errors = await self._aws.statements(statements)
        return [
            not error or text(error.get("Item", {}), "stamp") == outcome.stamp
            for error, outcome in zip(errors, outcomes, strict=True)
        ]

    async def fail(self, outcomes: Sequence[Outcome]) -> None:
        """Write failed attempts of pages that are to be tried again; pages that have ended stay as they are."""
        await self._aws.statements(
            [
                self._update({**_failed(outcome), **QUEUED, "stamp": s(outcome.stamp)}, outcome.pk, "p")
                for outcome in outcomes
            ]
        )

    async def revive(self, times: dict[str, float], stamp: str, now: float) -> None:
        """Make dead pages, given by pk, pending again from a time on, with all their attempts. Others stay."""
        again: dict[str, Item] = {"phase": s("p"), "attempts": n(0), "ended": n(micros(now)), "stamp": s(stamp)}
        await self._aws.statements(
            [self._update({**again, "revived": n(max(1, micros(at)))}, pk, "x") for pk, at in times.items()]
        )

    async def take_over(self, records: Sequence[Record], stamp: str, now: float) -> None:
        """Make another's revivals one's own, where they are still as read."""
        mine: dict[str, Item] = {"ended": n(micros(now)), "stamp": s(stamp)}
        await self._aws.statements([self._update(mine, entry.pk, "p", entry.stamp) for entry in records])

    async def queued(self, records: Sequence[Record]) -> None:
        """Note that revived pages have their message; those that somebody has written since stay as they are."""
        await self._aws.statements([self._update(QUEUED, entry.pk, "p", entry.stamp) for entry in records])

    def _update(self, changes: dict[str, Item], pk: str, phase: str, stamp: str = "") -> dict[str, Any]:
        """A statement that changes an item in this phase, and with this stamp if one is given."""
        # Values are parameters; the table's name comes from the state's own address.
        setting = " ".join(f'SET "{name}"=?' for name in changes)
        where = ' AND "stamp"=?' if stamp else ""
        return {
            "Statement": f'UPDATE "{self.table}" {setting} WHERE "pk"=? AND "phase"=?{where}',
            "Parameters": [*changes.values(), s(pk), s(phase), *([s(stamp)] if stamp else [])],
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    async def drop(self, crawl: str, run: str) -> None:
        """Delete the records of a crawl's run, and of those before it. Reads the whole table."""
        # A run's name is the time it began: what has begun since stays. "$" comes right behind "#".
        await self._aws.delete_between(self.table, f"{crawl}#", f"{crawl}#{run}$")

    async def scan(self, run: str, phase: Phase | None = None) -> AsyncGenerator[Record, None]:
        """Every record of a crawl's run (`<crawl>#<run>`), strongly consistent by page. Reads the whole table: two
        cents a million URLs, whatever the phase; those of other phases are only not sent."""
        condition, values = "begins_with(pk, :run)", {":run": s(f"{run}#")}
        more: dict[str, Any] = {}
        if phase is not None:
            condition += " AND (#phase = :phase OR revived > :never)"
            values |= {":phase": s(LETTERS[phase]), ":never": n(0)}
            more = {"ExpressionAttributeNames": {"#phase": "phase"}}
        async with aclosing(
            self._aws.scan(self.table, FilterExpression=condition, ExpressionAttributeValues=values, **more)
        ) as pages:
            async for items in pages:
                for item in items:
                    yield record(item)


def new(crawl: str, run: str, page: Page, found: float, stamp: str) -> Record:
    """The record of a page that is to be inserted."""
    return Record(
        pk=page_key(crawl, run, page.digest),
        url=page.url,
        gate=page.gate,
        depth=page.depth,
        priority=int(page.priority),
        parent=page.parent.digest.hex() if page.parent else "",
        found=found,
        phase=Phase.SKIPPED if page.skip else Phase.PENDING,
        reason=clipped(page.skip, REASON_LENGTH),
        stamp=stamp,
    )


def _failed(outcome: Outcome) -> dict[str, Item]:
    if outcome.failed is None:
        return {}
    attempts, history = outcome.failed
    return {"attempts": n(attempts), "history": s(msgspec.json.encode(history).decode())}


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
        error=text(item, "error"),
        attempts=number(item, "attempts"),
        history=_history(text(item, "history")),
        revived=number(item, "revived"),
        ended=number(item, "ended") / 1_000_000,
    )


def state(entry: Record) -> PageState:
    """A line of the ledger. Which pages are leased only the queues know: they count as pending.

    A page whose revival was interrupted still counts as dead: whoever revives the dead ones finds it again.
    """
    return PageState(
        digest=entry.digest,
        url=entry.url,
        phase=Phase.DEAD if entry.phase is Phase.PENDING and entry.revived else entry.phase,
        reason=entry.reason,
        error=entry.error,
        gate=entry.gate,
        depth=entry.depth,
        attempts=entry.attempts,
        discovered_at=entry.found,
        parent=bytes.fromhex(entry.parent) if entry.parent else None,
        failures=entry.history,
    )


def _history(encoded: str) -> tuple[Failure, ...]:
    if not encoded:
        return ()
    try:
        return _failures.decode(encoded)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"a page's history was written by another version of the crawler: {error}") from None


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
