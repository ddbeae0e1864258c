"""A short crawl of a hostile site; the long one is `make hostile`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from crawler.loop import Exit, Worker
from tests.faults.crawls import counts, seeded, state_in
from tests.hostile.site import hostile_site
from tests.hostile.trial import crawl

BLOCKED = 0.25
"""Seconds for which nothing may keep the event loop to itself."""


@pytest.mark.e2e
def test_good_pages_among_hostile_ones_are_all_there(tmp_path: Path) -> None:
    with hostile_site(1, good=75, hostile=225) as site:
        trial = crawl(site, tmp_path / "out", "--max-attempts", "2")
    assert sum(trial.outcomes.values()) >= 300


async def test_nothing_that_comes_in_blocks_the_event_loop(tmp_path: Path) -> None:
    """Measured in processor time of the loop's thread, which other programs on the machine do not use up."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - before)

    with hostile_site(2, good=50, hostile=250) as site:
        await seeded(tmp_path, [site.seed], scope="any", max_attempts=1)
        async with state_in(tmp_path, "w") as state, asyncio.timeout(60):
            watching = asyncio.create_task(watch())
            assert await Worker(state, str(tmp_path), name="w", until_complete=True).run() is Exit.COMPLETE
            watching.cancel()
        ledger = await counts(tmp_path)
    assert ledger.done >= 200
    assert ledger.outstanding == 0
    assert 0 < longest < BLOCKED
