"""Crawls that are not complete: their end, standing still, and what is a reason to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawler.janitor import memory
from crawler.model import HostState, Why
from crawler.state.sqlite import SqliteState
from tests.contract.words import page, pages
from tests.janitor.looking import Clock, Fleet, Watched


async def test_only_the_second_look_in_a_row_that_finds_nothing_left_completes(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin()
    assert (await janitor.look()).running == ["c1"]
    await fleet.finish(record)
    assert (await janitor.look()).completed == []
    found = await janitor.look()
    assert (found.completed, found.running, found.stalled) == (["c1"], [], [])
    (now,) = await janitor.state.crawls()
    assert now.completed_at == janitor.clock.now


async def test_a_look_that_finds_work_in_between_begins_anew(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin()
    await fleet.finish(record)
    await janitor.look()
    await fleet.state.add("c1", [page("/more")])
    await fleet.finish(record)
    assert (await janitor.look()).completed == []  # nothing left again, but not the same nothing
    assert (await janitor.look()).completed == ["c1"]


async def test_the_first_look_claims_nothing_and_so_does_one_that_lost_its_memory(
    fleet: Fleet, janitor: Watched
) -> None:
    await fleet.begin(pages=pages(3))
    assert (await janitor.look()).stalled == []
    assert (await janitor.look()).stalled == ["c1"]
    await janitor.state.remember(memory.FACT, b'{"another": "version"', 60)
    assert (await janitor.look()).stalled == []
    assert (await janitor.look()).stalled == ["c1"]


async def test_pages_left_and_none_finished_is_stalled_until_one_is(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin(pages=pages(3))
    await janitor.look()
    assert (await janitor.look()).stalled == ["c1"]
    assert janitor.last()["Stalled"] == 1
    await fleet.finish(record, limit=1)
    assert (await janitor.look()).stalled == []
    assert (janitor.last()["Stalled"], janitor.last()["Progress"], janitor.last("c1")["Progress"]) == (0, 1, 1)


@pytest.mark.parametrize("minutes", [1, 5, 60])
async def test_a_crawl_whose_hosts_are_all_closed_is_not_stalled(fleet: Fleet, janitor: Watched, minutes: int) -> None:
    await fleet.begin(pages=[page(host="a.example"), page(host="b.example")])
    for gate in ("a.example", "b.example"):
        await fleet.state.hold(gate, until=fleet.clock() + 3_600, why=Why.RETRY_AFTER)
    for _ in range(55 // minutes):
        assert (await janitor.look(minutes)).stalled == []


async def test_one_open_host_is_enough_to_be_stalled(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin(pages=[page(host="a.example"), page(host="b.example")])
    await fleet.state.hold("a.example", until=fleet.clock() + 3_600)
    await janitor.look()
    assert (await janitor.look()).stalled == ["c1"]


async def test_hosts_that_opened_and_nobody_came_are_stalled(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin()
    await fleet.state.hold("a.example", until=fleet.clock() + 3_000)
    await janitor.look()
    assert (await janitor.look()).stalled == []
    assert (await janitor.look(61)).stalled == ["c1"]


@pytest.mark.parametrize("delay", [630, 3_000])
async def test_a_crawl_delay_longer_than_a_look_is_waited_for(fleet: Fleet, janitor: Watched, delay: int) -> None:
    record = await fleet.begin(pages=pages(3))
    await fleet.state.hold("a.example", interval=delay)
    await janitor.look()
    assert await fleet.finish(record, limit=1) == 1
    assert (await janitor.look()).stalled == []
    assert (await janitor.look()).stalled == []  # of the shorter one half a minute is left


async def test_a_paused_crawl_is_neither_running_nor_stalled(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin(pages=pages(3))
    await fleet.state.pause("c1")
    for _ in range(3):
        found = await janitor.look()
        assert (found.running, found.stalled, found.completed, found.closed) == ([], [], [], [])
    assert (janitor.last()["CrawlsRunning"], janitor.last("c1")["PagesPending"]) == (0, 3)
    await fleet.state.resume("c1")
    assert (await janitor.look()).running == ["c1"]


async def test_all_hosts_are_read_at_most_once_an_hour(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings, hosts = [], SqliteState.hosts

    def counted(state: SqliteState, crawl: str) -> AsyncIterator[HostState]:
        readings.append(fleet.clock())
        return hosts(state, crawl)

    monkeypatch.setattr(SqliteState, "hosts", counted)
    await fleet.begin(pages=pages(3))
    await fleet.state.hold("a.example", until=fleet.clock() + 100_000)
    for _ in range(36):
        await janitor.look()
    assert [round((at - readings[0]) / 60) for at in readings] == [0, 60, 120]


async def test_what_made_hosts_open_once_is_looked_at_anew_once_the_crawl_moves(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin(pages=pages(3))
    await janitor.look()
    assert (await janitor.look()).stalled == ["c1"]
    await fleet.finish(record, limit=1)
    await janitor.look()
    await fleet.state.hold("a.example", until=fleet.clock() + 3_000)
    assert (await janitor.look()).stalled == []


async def test_records_that_cannot_be_read_in_time_are_not_read_again_within_the_hour(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, complete = [], SqliteState.complete

    async def slow(state: SqliteState, crawl: str) -> bool:
        asked.append(crawl)
        if len(asked) == 1:
            await asyncio.sleep(60)
        return await complete(state, crawl)

    monkeypatch.setattr(SqliteState, "complete", slow)
    await fleet.finish(await fleet.begin())
    await janitor.look()
    found = await janitor.look(seconds=30.1)
    assert (found.completed, found.stalled) == ([], ["c1"])
    (fault,) = found.faults
    assert fault.startswith("crawl c1: its records cannot be read within one look")
    assert fault.endswith("run crawler work --until-complete --crawl c1")
    assert janitor.last()["Stalled"] == 1
    for _ in range(11):
        assert (await janitor.look()).stalled == ["c1"]
    assert asked == ["c1"]
    assert (await janitor.look()).completed == ["c1"]


async def test_a_look_whose_time_is_over_only_counts(fleet: Fleet, janitor: Watched) -> None:
    await fleet.finish(await fleet.begin())
    await janitor.look()
    found = await janitor.look(seconds=0)
    assert (found.running, found.completed, found.faults) == (["c1"], [], [])
    assert (await janitor.look()).completed == ["c1"]


async def test_a_crawl_without_a_page_is_completed_too(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin(pages=[])
    await janitor.look()
    assert (await janitor.look()).completed == ["c1"]
    assert janitor.events[0]["counts"]["discovered"] == 0


async def test_a_crawl_that_was_purged_between_two_looks_is_forgotten(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin()
    await janitor.look()
    await fleet.state.purge("c1")
    found = await janitor.look()
    assert (found.running, found.faults) == ([], [])


async def test_looks_tell_how_all_crawls_stand(fleet: Fleet, janitor: Watched, clock: Clock) -> None:
    first = await fleet.begin("c1", pages=pages(3))
    await fleet.begin("c2", pages=pages(4, "b.example"))
    await janitor.look()
    await fleet.finish(first, limit=2)
    await janitor.look()
    stack = janitor.last()
    numbers = ("PagesPending", "PagesDone", "PagesSkipped", "PagesDead", "Progress", "CrawlsRunning")
    assert [stack[name] for name in numbers] == [5, 2, 0, 0, 2, 2]
    assert [janitor.last("c1")[name] for name in numbers[:5]] == [1, 2, 0, 0, 2]
    assert [janitor.last("c2")[name] for name in numbers[:5]] == [4, 0, 0, 0, 0]
    assert "CrawlsRunning" not in janitor.last("c1")
    assert stack["_aws"]["Timestamp"] == int(clock() * 1000)


async def test_where_nothing_runs_no_metric_is_written_and_billed(fleet: Fleet, janitor: Watched) -> None:
    await janitor.look()
    await janitor.look()
    assert janitor.lines == []
    await fleet.begin("c1", pages=pages(1))
    await janitor.look()
    assert janitor.last()["CrawlsRunning"] == 1
