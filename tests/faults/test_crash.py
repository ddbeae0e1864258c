"""A fault at each point of a crawl, one after the other."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.faults.crawls import assert_sound, released, seeded
from tests.faults.site import Site, small_site
from tests.faults.victim import points, strike

SHARES = 2
"""Parts of a sweep, so that two processes can run it."""

AT_ONCE = 6
"""Crawls at a time: they mostly wait."""


async def sweep(folder: Path, share: int, case: Callable[[Path, Site, int], Awaitable[int]]) -> None:
    """Run a case for every point of a crawl, of which this share's, a few at a time, until one is beyond the last."""
    numbers = itertools.count(share, SHARES)
    beyond = asyncio.Event()

    async def lane() -> None:
        while not beyond.is_set():
            number = next(numbers)
            async with small_site() as site:
                out = folder / str(number)
                await seeded(out, site.seeds)
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
