"""A janitor on a state of its own, whose clock the test moves; what it said and to whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from crawler.archive.archive import Archive
from crawler.archive.stores import Store, open_store
from crawler.config import CrawlSettings
from crawler.janitor.look import Found, Janitor
from crawler.model import CrawlRecord, Page, Verdict, done
from crawler.state.port import CrawlState
from crawler.state.sqlite import SqliteState
from tests.archive.making import START, response, row
from tests.contract.words import page

MINUTES = 60.0
"""Seconds."""


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Watched:
    """A janitor at work: `events` it emitted, `lines` of metrics, how often it `stopped` the workers."""

    def __init__(self, state: CrawlState, clock: Clock, address: str = "aws://Stack") -> None:
        self.state, self.clock = state, clock
        self.events: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.stopped = 0
        self._address = address

    async def announce(self, detail: str) -> None:
        self.events.append(msgspec.json.decode(detail))

    async def stop(self) -> None:
        self.stopped += 1

    def emit(self, line: bytes) -> None:
        self.lines.append(msgspec.json.decode(line))

    async def look(self, after: float = 5.0, seconds: float = 900.0) -> Found:
        """One look, `after` so many minutes, by a process that remembers nothing itself."""
        self.clock.now += after * MINUTES
        janitor = Janitor(
            self.state,
            self._address,
            announce=self.announce,
            stop_workers=self.stop,
            emit=self.emit,
            clock=self.clock,
        )
        return await janitor.look(self.clock.now + seconds)

    def last(self, crawl: str = "") -> dict[str, Any]:
        """The metrics of the stack, or of a crawl, of the last look."""
        of_it = [line for line in self.lines if line.get("Crawl", "") == crawl]
        return [line for line in of_it if "PagesPending" in line][-1]


class Fleet:
    """Begins crawls, and works on them as told."""

    def __init__(self, state: CrawlState, clock: Clock, store: Path) -> None:
        self.state, self.clock = state, clock
        self.store: Store = open_store(str(store))

    async def begin(self, crawl: str = "c1", pages: list[Page] | None = None, **settings: Any) -> CrawlRecord:
        record = CrawlRecord(
            id=crawl,
            started_at=self.clock(),
            settings=CrawlSettings(**{"rate": 0.0, **settings}),
            store=self.store.address,
        )
        await self.state.create(record)
        await self.state.add(crawl, pages if pages is not None else [page()])
        return record

    async def finish(self, record: CrawlRecord, verdict: Verdict | None = None, limit: int = 100) -> int:
        """End what may be claimed now: stored, then settled. How many."""
        leases = await self.state.claim(limit, record.id)
        archive = await Archive.open(self.store, record, f"w{int(self.clock())}")
        for number, lease in enumerate(leases):
            location = archive.record(response(number, url=lease.url))
            archive.row(row(number, location, url=lease.url, url_key=lease.url, crawl_id=record.id))
        await archive.close()
        await self.state.settle([(lease, verdict or done(100)) for lease in leases])
        return len(leases)


async def opened(folder: Path, clock: Callable[[], float]) -> SqliteState:
    return await SqliteState.open(str(folder / "state.sqlite"), worker="janitor", create=True, clock=clock)
