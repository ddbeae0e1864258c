"""The janitor is killed at every point at which a call leaves it; the next looks do what is missing."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq

from crawler.archive.folder import parquet_name, summary_text_name
from crawler.archive.stores import open_store
from crawler.archive.summary import read_summary
from tests.contract.words import pages
from tests.janitor.looking import Clock, Fleet, Watched, opened
from tests.janitor.victim import announce, events, points, strike


async def prepared(folder: Path, clock: Clock) -> None:
    """A crawl of three pages that the next look completes."""
    folder.mkdir()
    state = await opened(folder, clock)
    fleet, janitor = Fleet(state, clock, folder / "out"), Watched(state, clock)
    await fleet.finish(await fleet.begin(pages=pages(3)))
    await janitor.look()
    await state.close()


async def recovered(folder: Path, clock: Clock, what: str) -> None:
    """Two looks a quarter of an hour later end it: merged, summed up, announced."""
    state = await opened(folder, clock)
    janitor = Watched(state, clock)
    janitor.announce = lambda detail: announce(folder, detail)  # type: ignore[method-assign]
    store = open_store(str(folder / "out"))
    for _ in range(3):
        assert (await janitor.look(16)).faults == [], what
    (record,) = await state.crawls()
    await state.close()
    summary = await read_summary(store, record)
    assert summary is not None, what
    assert summary.announced_at, what
    assert summary.totals is not None, what
    assert summary.totals.rows == 3, what
    told = events(folder)
    assert told, what
    assert len(told) <= 2, what
    assert all(event == told[0] for event in told), what
    assert told[0]["completed_at"] == summary.completed_at, what
    assert len(pq.read_table(folder / "out" / parquet_name(record))) == 3, what
    assert (folder / "out" / summary_text_name(record)).exists(), what


async def test_killed_at_any_point_the_next_looks_do_what_is_missing(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    await prepared(whole, clock := Clock())
    assert await strike(whole, clock() + 600, None) == 0
    passed = points(whole)
    order = ["written parquet", "written summary.txt", "written summary.json", "after event", "written summary.json"]
    assert [point for point in passed if point in order] == [*order[:4], "written summary.txt", order[4]]
    for at, point in enumerate(passed):
        folder = tmp_path / str(at)
        await prepared(folder, clock := Clock())
        assert await strike(folder, clock() + 600, at) == -signal.SIGKILL
        assert points(folder) == passed[: at + 1]
        clock.now += 600
        await recovered(folder, clock, f"killed {point}")
