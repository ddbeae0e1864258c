"""`CrawlState` on SQLite: every method is one transaction, and the work is in the modules beside this one."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

from crawler.config import CrawlSettings
from crawler.errors import StateUnavailable
from crawler.model import (
    Added,
    Beat,
    Counts,
    CrawlRecord,
    Health,
    HostState,
    Lease,
    Page,
    PageState,
    Phase,
    Settled,
    Verdict,
    Why,
    defer,
)
from crawler.state.refusals import exact_only
from crawler.state.sqlite import adding, claiming, fleet, gates, hosts, lanes, leasing, ledger, purging, records, repair
from crawler.state.sqlite.database import Database, snapshot

T = TypeVar("T")

_CHUNK = 2000


class SqliteState:
    """Frontier, visited set, gates and ledger in one file. Claims are exact; counts are exact; `claim` never waits."""

    def __init__(self, database: Database, worker: str, clock: Callable[[], float]) -> None:
        self._database = database
        self._worker = worker
        self._clock = clock
        self._seen = adding.Seen()

    @classmethod
    async def open(
        cls, path: str, *, worker: str, create: bool = False, clock: Callable[[], float] = time.time
    ) -> SqliteState:
        """Open the state file at `path` (":memory:": a state of this handle alone); `create` permits to make it.

        `worker` owns the leases it claims. Raises StateMissing, StateMismatch (nothing was changed), StateUnavailable.
        """
        return cls(await Database.open(path, create=create), worker, clock)

    @property
    def home(self) -> str:
        return self._database.folder

    async def create(self, crawl: CrawlRecord) -> CrawlRecord:
        exact_only(crawl.settings)
        return await self._database.write(lambda db: records.create(db, crawl), durable=True)

    async def crawls(self) -> list[CrawlRecord]:
        return await self._database.read(records.every)

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        exact_only(settings)

        def write(db: sqlite3.Connection) -> None:
            records.amend(db, self._clock(), crawl, settings)
            lanes.look_again(db, records.find(db, crawl).id)  # they may open or close under other limits

        await self._database.write(write, durable=True)

    async def pause(self, crawl: str) -> bool:
        return await self._database.write(lambda db: records.pause(db, self._clock(), crawl, True), durable=True)

    async def resume(self, crawl: str) -> bool:
        return await self._database.write(lambda db: records.pause(db, self._clock(), crawl, False), durable=True)

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added]:
        seeds = any(page.parent is None for page in pages)
        return await self._database.write(
            lambda db: adding.add(db, self._clock(), crawl, pages, self._seen), durable=seeds
        )

    async def claim(self, limit: int, crawl: str | None = None) -> list[Lease]:
        handed = self._database.submit(lambda db: claiming.claim(db, self._clock(), self._worker, limit, crawl))
        try:
            return await asyncio.wrap_future(handed)
        except asyncio.CancelledError:
            # Nobody will see these leases: give them back rather than let them block a stop until they expire.
            if not handed.cancelled():
                with contextlib.suppress(StateUnavailable):  # closed meanwhile
                    self._database.submit(
                        lambda db: leasing.settle(db, self._clock(), [(lease, defer(0)) for lease in handed.result()])
                    )
            raise

    async def settle(self, endings: Sequence[tuple[Lease, Verdict]]) -> list[Settled]:
        return await self._database.write(lambda db: leasing.settle(db, self._clock(), endings))

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        return await self._database.write(lambda db: leasing.extend(db, self._clock(), leases))

    async def turn(self, crawl: str, gate: str) -> float:
        return await self._database.write(
            lambda db: gates.turn(db, self._clock(), gate, records.find(db, crawl).settings.interval)
        )

    async def hold(
        self, gate: str, *, until: float = 0.0, why: Why = Why.BACKOFF, interval: float | None = None
    ) -> None:
        await self._database.write(lambda db: gates.hold(db, self._clock(), gate, until, why, interval))

    async def diagnose(self, gate: str, health: Health) -> None:
        await self._database.write(lambda db: gates.diagnose(db, self._clock(), gate, health))

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        await self._database.write(lambda db: gates.occupy(db, self._clock(), gate, flight, until))

    async def upheld(self, lease: Lease) -> float:
        return lease.start_at  # at most gates.HORIZON away

    async def hosts(self, crawl: str) -> AsyncIterator[HostState]:
        last = 0
        while True:
            last, found = await self._database.read(
                partial(hosts.page, now=self._clock(), name=crawl, after=last, limit=_CHUNK)
            )
            for host in found:
                yield host
            if len(found) < _CHUNK:
                return

    async def in_scope(self, crawl: str, sites: Sequence[str]) -> list[bool]:
        return await self._database.read(lambda db: fleet.in_scope(db, records.find(db, crawl).id, sites))

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        return await self._database.read(lambda db: fleet.recall(db, self._clock(), names))

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        return await self._database.write(lambda db: fleet.remember(db, self._clock(), name, value, seconds, if_absent))

    async def beat(self, beat: Beat) -> None:
        await self._database.write(lambda db: fleet.beat(db, self._clock(), beat))

    async def workers(self, within: float = 60.0) -> list[Beat]:
        return await self._database.read(lambda db: fleet.workers(db, self._clock(), within))

    async def release(self, worker: str) -> int:
        return await self._database.write(lambda db: leasing.release(db, self._clock(), worker))

    async def counts(self, crawl: str) -> Counts:
        def look(db: sqlite3.Connection) -> Counts:
            with snapshot(db):
                return records.counts(db, crawl)

        return await self._database.read(look)

    async def complete(self, crawl: str) -> bool:
        return await self._database.write(lambda db: records.complete(db, self._clock(), crawl))

    async def ledger(self, crawl: str, phase: Phase | None = None) -> AsyncIterator[PageState]:
        last = 0
        while True:
            last, pages = await self._database.read(
                partial(ledger.pages, name=crawl, phase=phase, after=last, limit=_CHUNK)
            )
            for page in pages:
                yield page
            if len(pages) < _CHUNK:
                return

    async def revive(self, crawl: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
        return await self._database.write(lambda db: repair.revive(db, self._clock(), crawl, pages), durable=True)

    async def sweep(self, crawl: str) -> int:
        def look(db: sqlite3.Connection) -> int:
            with snapshot(db):
                return repair.astray(db, crawl)

        # As a reader first: it is nearly always in order, and then nobody has waited for the lock.
        if not await self._database.read(look):
            return 0
        return await self._database.write(lambda db: repair.mend(db, self._clock(), crawl), durable=True)

    async def drain_dead_letters(self) -> int:
        return 0

    async def purge(self, crawl: str) -> None:
        row = await self._database.write(lambda db: purging.start(db, crawl), durable=True)
        if row is None:
            return
        last: int | None = 0
        while last is not None:
            last = await self._in_turns(partial(purging.pages, crawl=row, after=last))
        while not await self._in_turns(partial(purging.rest, crawl=row)):
            pass

    async def _in_turns(self, step: Callable[[sqlite3.Connection], T]) -> T:
        """One of many write transactions, and a pause as long, so that the other processes get the lock too."""
        began = time.monotonic()
        result = await self._database.write(step)
        await asyncio.sleep(time.monotonic() - began)
        return result

    async def close(self) -> None:
        await self._database.close()
