"""`crawler verify`: what a person sees of it, and what it costs where reading costs."""

from __future__ import annotations

import math
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from crawler.archive.stores import open_store
from crawler.archive.verify import verify as check
from crawler.entrypoints.commands import json_line, named, opened, warn
from crawler.entrypoints.places import store_address
from crawler.entrypoints.show import out, verdict
from crawler.model import Counts
from crawler.state.port import CrawlState

READ_UNIT = 0.125 / 1_000_000
"""Dollars a DynamoDB read unit (4 KiB read consistently): on demand, us-east-1, list price of November 2026."""

ITEM = 450
"""Bytes of a usual page in the table."""


class ScanCost(NamedTuple):
    """What reading a table once costs: read units, and dollars for them."""

    units: int
    dollars: float


def scan_cost(pages: int) -> ScanCost:
    """An estimate for a table of so many pages, consistently read from end to end."""
    units = math.ceil(pages * ITEM / 4096)
    return ScanCost(units, units * READ_UNIT)


async def verify(address: str, store: str | None, crawl: str | None, *, as_json: bool, quiet: bool) -> bool:
    """Check ledger and archive; True when sound."""
    async with opened(address) as state:
        record = await named(state, crawl)
        archive = open_store(store_address(store, record, state))
        if address.startswith("aws:") and not quiet:
            warn(cost_line(scan_cost(await _pages(state))))
        with VerifyProgress(await state.counts(record.id), quiet=quiet) as progress:
            report = await check(state, archive, record, progress=progress)
    if as_json:
        out(json_line({"crawl": record.id, "ok": report.ok} | msgspec.structs.asdict(report)))
    else:
        out(verdict(report))
    return report.ok


async def _pages(state: CrawlState) -> int:
    """Pages of all crawls: they lie in one table, and a scan reads all of it."""
    return sum([(await state.counts(record.id)).discovered for record in await state.crawls()])


def cost_line(cost: ScanCost) -> str:
    """The cost for people."""
    return (
        f"reads the whole table: about {cost.units:,} read units, {cost.dollars:.4f} dollars "
        "(on demand, us-east-1, list price of November 2026); twice that if something looks odd"
    )


class VerifyProgress:
    """A bar a step on standard error; nothing where that is no terminal. Called from any thread."""

    def __init__(self, counts: Counts, *, quiet: bool) -> None:
        ended = counts.done + counts.skipped + counts.dead
        self._expected = {"records": counts.done, "rows": ended, "merged": ended}
        self._pages = counts.discovered
        console = Console(stderr=True)
        columns = (TextColumn("{task.description:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self._step, self._bar = "", TaskID(0)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, step: str, count: int) -> None:
        """So many of a step are read."""
        total = max(self._expected.get(step, self._pages), count)
        if step != self._step:
            if self._step:
                self._bars.update(self._bar, completed=self._bars.tasks[-1].total)
            self._step, self._bar = step, self._bars.add_task(step)
        self._bars.update(self._bar, completed=count, total=total)
