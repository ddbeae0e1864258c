"""A fault at each point of a crawl, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crawler.archive.merge import merge
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.model import CrawlRecord
from crawler.state.sqlite import SqliteState
from tests.faults.site import Site, small_site
from tests.faults.victim import STATE, points, strike

SETTINGS = CrawlSettings(rate=0.0, allow_private=True, lease=5.0)
SHARES = 2
"""Parts of a sweep, so that two processes can run it."""

AT_ONCE = 6
"""Crawls at a time: they mostly wait."""


async def seeded(folder: Path, site: Site) -> None:
    folder.mkdir()
    state = await SqliteState.open(str(folder / STATE), worker="seeder", create=True)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=SETTINGS, store=str(folder)))
    pages = [page for url in site.seeds if (page := seed_page(url, SETTINGS))]
    await state.add("c", pages)
    await state.close()


async def released(folder: Path, worker: str) -> None:
    state = await SqliteState.open(str(folder / STATE), worker="supervisor")
    await state.release(worker)
    await state.close()


async def assert_sound(folder: Path, site: Site, what: str) -> None:
    """Ledger, archive and merged rows agree with each other and with the site."""
    state = await SqliteState.open(str(folder / STATE), worker="reader")
    (record,) = await state.crawls()
    store = open_store(str(folder))
    merged = await merge(store, record)
    report = await verify(state, store, record)
    counts = await state.counts("c")
    await state.close()
    assert report.faults == [], what
    assert counts.outstanding == counts.dead == 0, what
    assert counts.discovered == counts.done + counts.skipped, what
    rows = pq.read_table(folder / merged.path).to_pylist()
    assert {row["url"] for row in rows if row["outcome"] == "done"} == site.done, what
    assert {row["url"] for row in rows if row["outcome"] == "skipped"} == site.skipped, what
    assert len(rows) == counts.discovered, what
    # Each page but the seeds and the redirect's target was found by exactly one page's link.
    assert sum(row["links_new"] or 0 for row in rows) == counts.discovered - len(site.seeds) - 1, what
    assert not list(folder.rglob("*.open")), what


async def sweep(folder: Path, share: int, case: Callable[[Path, Site, int], Awaitable[int]]) -> None:
    """Run a case for every point of a crawl, of which this share's, a few at a time, until one is beyond the last."""
    numbers = itertools.count(share, SHARES)
    beyond = asyncio.Event()

    async def lane() -> None:
        while not beyond.is_set():
            number = next(numbers)
            async with small_site() as site:
                out = folder / str(number)
                await seeded(out, site)
                if await case(out, site, number) <= number:
                    beyond.set()
            shutil.rmtree(out)

    async with asyncio.TaskGroup() as lanes:
        for _ in range(AT_ONCE):
            lanes.create_task(lane())


@pytest.mark.parametrize("share", range(SHARES))
async def test_a_worker_killed_at_any_point_loses_nothing_and_doubles_nothing(tmp_path: Path, share: int) -> None:
    async def killed(out: Path, site: Site, number: int) -> int:
        code = await strike(out, "killed", "kill", number)
        passed = points(out)
        assert code == (0 if len(passed) <= number else -signal.SIGKILL)
        what = f"killed {passed[-1]} (point {number})"
        await released(out, "killed")
        assert await strike(out, "heir") == 0, what
        await assert_sound(out, site, what)
        assert max(site.fetched().values()) <= 2, what
        return len(passed)

    await sweep(tmp_path, share, killed)


@pytest.mark.parametrize("share", range(SHARES))
async def test_a_lost_reply_at_any_point_costs_no_page_and_no_request(tmp_path: Path, share: int) -> None:
    async def unanswered(out: Path, site: Site, number: int) -> int:
        code = await strike(out, "w", "unavailable", number)
        passed = points(out)
        what = f"no answer {passed[min(number, len(passed) - 1)]} (point {number})"
        assert code == 0, what
        await assert_sound(out, site, what)
        assert set(site.fetched().values()) == {1}, what
        return len(passed)

    await sweep(tmp_path, share, unanswered)
