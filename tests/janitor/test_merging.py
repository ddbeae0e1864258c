"""Merges that do not end in the janitor: what is tried again, and what is left to the command."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from crawler.archive.folder import parquet_name
from crawler.archive.rowless import merge_whole
from crawler.entrypoints.commands import merge as merge_command
from crawler.errors import StoreUnavailable
from crawler.janitor import closing
from crawler.state.sqlite import SqliteState
from tests.janitor.looking import Fleet, Watched
from tests.janitor.test_closing import completed, summary_of


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "there is no room here to merge it"),
        (MemoryError(), "there is no room here to merge it"),
        (TimeoutError(), "merging it takes longer than a look may last"),
    ],
)
async def test_a_crawl_too_large_to_merge_here_is_announced_with_the_command_that_merges_it(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    record = await completed(fleet, janitor)

    async def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(closing, "merge_whole", failing)
    assert (await janitor.look()).closed == ["c1"]
    (event,) = janitor.events
    assert event["parquet"] is None
    assert event["note"] == f"not merged: {why}; run crawler merge --state aws://Stack --crawl c1"
    summary = await summary_of(fleet, record)
    assert (summary.note, summary.totals, summary.files.warc) == (event["note"], None, 1)
    await janitor.look()
    assert len(janitor.events) == 1


async def test_the_command_that_the_note_names_finishes_what_was_too_large(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = await completed(fleet, janitor)
    with monkeypatch.context() as small:

        async def failing(*_: object) -> None:
            raise MemoryError

        small.setattr(closing, "merge_whole", failing)
        assert (await janitor.look()).closed == ["c1"]
    before = await summary_of(fleet, record)
    await merge_command(str(tmp_path / "state.sqlite"), None, "c1", as_json=True)
    after = await summary_of(fleet, record)
    assert (after.note, after.files.parquet, after.faults) == ("", parquet_name(record), ())
    assert after.totals is not None
    assert after.totals.rows == 3
    assert (after.completed_at, after.announced_at) == (before.completed_at, before.announced_at)
    await janitor.look()
    assert len(janitor.events) == 1


async def test_a_full_disk_behind_the_store_is_no_room_either(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)

    async def failing(*_: object) -> None:
        raise StoreUnavailable("did not do it") from OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(closing, "merge_whole", failing)
    assert (await janitor.look()).closed == ["c1"]
    assert janitor.events[0]["parquet"] is None


async def test_a_store_that_is_away_is_waited_for(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)
    away = True

    async def sometimes(*given: Any) -> Any:
        if away:
            raise StoreUnavailable("the store is away")
        return await merge_whole(*given)

    monkeypatch.setattr(closing, "merge_whole", sometimes)
    for _ in range(4):
        assert (await janitor.look()).faults == ["crawl c1: the store is away"]
    away = False
    assert (await janitor.look()).closed == ["c1"]
    assert janitor.events[0]["parquet"]


async def test_a_merge_that_kills_the_janitor_is_given_up_after_the_third_time(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await completed(fleet, janitor)
    tried = []

    class Killed(BaseException):
        pass

    async def failing(*_: object) -> None:
        tried.append(janitor.clock.now)
        raise Killed

    remember = SqliteState.remember

    async def kept(state: SqliteState, name: str, value: bytes, seconds: float, **more: Any) -> bool:
        if tried and seconds == 0 and tried[-1] == janitor.clock.now:
            raise Killed  # who is dead gives nothing back
        return await remember(state, name, value, seconds, **more)

    monkeypatch.setattr(closing, "merge_whole", failing)
    monkeypatch.setattr(SqliteState, "remember", kept)
    with pytest.raises(Killed):
        await janitor.look()
    assert (await janitor.look()).closed == []  # its time is not over yet, as far as anybody knows
    for _ in range(2):
        with pytest.raises(Killed):
            await janitor.look(15)
    assert (await janitor.look(16)).closed == ["c1"]
    assert len(tried) == 3
    assert "3 merges of it did not end here" in (await summary_of(fleet, record)).note


async def too_late(*_: object) -> None:
    raise TimeoutError


async def test_a_merge_that_had_little_of_a_look_has_more_of_the_next(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)
    with monkeypatch.context() as short:
        short.setattr(closing, "merge_whole", too_late)
        assert (await janitor.look(seconds=closing.PLENTY - 1)).closed == []
        assert janitor.events == []
    assert (await janitor.look()).closed == ["c1"]
    assert janitor.events[0]["parquet"]


async def test_one_that_never_has_more_is_given_up(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)

    monkeypatch.setattr(closing, "merge_whole", too_late)
    for _ in range(closing.TRIES):
        assert (await janitor.look(seconds=closing.PLENTY - 1)).closed == []
    assert (await janitor.look(seconds=closing.PLENTY - 1)).closed == ["c1"]
    assert "crawler merge" in janitor.events[0]["note"]


async def test_merges_whose_summary_could_not_be_written_are_not_taken_for_killers(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)
    with monkeypatch.context() as away:

        async def fail(*_: object) -> None:
            raise StoreUnavailable("the store is away")

        away.setattr(closing, "write_summary", fail)
        for _ in range(closing.TRIES + 1):
            assert (await janitor.look()).faults == ["crawl c1: the store is away"]
    assert (await janitor.look()).closed == ["c1"]
    assert janitor.events[0]["parquet"]


async def test_of_two_looks_at_once_one_merges(fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    await completed(fleet, janitor)
    other = Watched(janitor.state, janitor.clock)

    async def meanwhile(*given: Any) -> Any:
        found = await other.look(0)
        assert (found.completed, found.closed, found.faults) == ([], [], [])
        return await merge_whole(*given)

    monkeypatch.setattr(closing, "merge_whole", meanwhile)
    assert (await janitor.look()).closed == ["c1"]
    assert (len(janitor.events), other.events) == (1, [])
