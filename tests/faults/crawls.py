"""A crawl on a SQLite file: begun, and looked at when it is over."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from crawler.archive.merge import merge
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.model import Counts, CrawlRecord
from crawler.state.sqlite import SqliteState
from tests.faults.site import Site

CRAWL = "c"
STATE = "state.sqlite"


@asynccontextmanager
async def state_in(folder: Path, worker: str) -> AsyncIterator[SqliteState]:
    """The state of the crawl in a folder."""
    state = await SqliteState.open(str(folder / STATE), worker=worker, create=True)
    try:
        yield state
    finally:
        await state.close()


async def seeded(folder: Path, seeds: Sequence[str], **settings: Any) -> None:
    """Begin a crawl, as fast as it can, with leases as short as they can be."""
    given = CrawlSettings(**{"rate": 0.0, "allow_private": True, "lease": 5.0, **settings})
    folder.mkdir(exist_ok=True)
    async with state_in(folder, "seeder") as state:
        await state.create(CrawlRecord(id=CRAWL, started_at=time.time(), settings=given, store=str(folder)))
        await state.add(CRAWL, [page for seed in seeds if (page := seed_page(seed, given)) is not None])


async def released(folder: Path, worker: str) -> None:
    """Say that a worker is gone, as its supervisor would."""
    async with state_in(folder, "supervisor") as state:
        await state.release(worker)


async def counts(folder: Path) -> Counts:
    async with state_in(folder, "reader") as state:
        return await state.counts(CRAWL)


async def finished_rows(folder: Path, what: str = "") -> list[dict[str, Any]]:
    """The merged rows of a crawl that must be complete and sound: ledger and archive agree, nothing is doubled."""
    async with state_in(folder, "reader") as state:
        (record,) = await state.crawls()
        store = open_store(str(folder))
        merged = await merge(store, record)
        report = await verify(state, store, record)
        ledger = await state.counts(CRAWL)
    assert report.faults == [], what
    assert ledger.outstanding == ledger.dead == 0, what
    assert ledger.discovered == ledger.done + ledger.skipped, what
    rows: list[dict[str, Any]] = pq.read_table(folder / merged.path).to_pylist()
    assert len(rows) == ledger.discovered, what
    return rows


async def assert_sound(folder: Path, site: Site, what: str) -> None:
    """The crawl of the small site is complete, and made of each URL what it had to."""
    rows = await finished_rows(folder, what)
    assert not list(folder.rglob("*.open")), what
    assert {row["url"] for row in rows if row["outcome"] == "done"} == site.done, what
    assert {row["url"] for row in rows if row["outcome"] == "skipped"} == site.skipped, what
    # Each page but the seeds and the redirect's target was found by exactly one page's link.
    assert sum(row["links_new"] or 0 for row in rows) == len(rows) - len(site.seeds) - 1, what
