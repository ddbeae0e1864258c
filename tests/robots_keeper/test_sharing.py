"""One request for all who ask, in a process and in the fleet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler.robots import ALLOW_ALL, Robots
from tests.robots_keeper.workers import GATE, RULES, Clock, asked, worker
from tests.servers import Peer, replies, reply, serve


async def test_a_file_is_fetched_once_and_its_rules_are_obeyed(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        assert not keeper.disallowed(server.url("/private/x"))
        answer, used = await keeper.rules(server.url("/private/x"), GATE, 0.0)
        assert used
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private/x"))
        assert answer.allowed(server.url("/x"))
        again, used = await keeper.rules(server.url("/x"), GATE, 0.0)
        assert (again, used) == (answer, False)
        assert keeper.disallowed(server.url("/private/y"))
        assert not keeper.disallowed(server.url("/y"))
    assert server.targets == ["/robots.txt"]


@pytest.mark.case("B09")
async def test_all_who_wait_in_one_process_share_one_request_and_one_of_them_pays_its_turn(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        answers = await asyncio.gather(*(keeper.rules(server.url(f"/{n}"), GATE, 0.0) for n in range(16)))
    assert [used for _, used in answers] == [True] + [False] * 15
    assert len({id(answer) for answer, _ in answers}) == 1
    assert len(server.requests) == 1


@pytest.mark.case("B09")
async def test_workers_of_a_fleet_share_one_request(tmp_path: Path, clock: Clock) -> None:
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await release.wait()
        await peer.send(reply(RULES))

    path = tmp_path / "state.sqlite"
    async with (
        worker(path, clock, "one") as (one, _),
        worker(path, clock, "two") as (two, _),
        serve(script) as server,
    ):
        waiting = [asyncio.create_task(keeper.rules(server.url("/"), GATE, 0.0)) for keeper in (one, two)]
        await server.asked.wait()
        asyncio.get_running_loop().call_later(0.1, release.set)
        answers = await asyncio.gather(*waiting)
    assert sorted(used for _, used in answers) == [False, True]
    for answer, _ in answers:
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
    assert len(server.requests) == 1


async def test_another_worker_takes_over_from_one_that_died(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(RULES)) as server:
        await state.remember(f"robots-fetch:{server.address}:0", b"dead", 30.0)
        waiting = asyncio.create_task(keeper.rules(server.url("/"), GATE, 0.0))
        await asyncio.sleep(0.1)
        assert not server.requests
        clock.ahead += 31
        answer, used = await waiting
        assert isinstance(answer, Robots)
        assert used
    assert len(server.requests) == 1


async def test_cancelling_the_first_who_asked_harms_nobody_else(clock: Clock) -> None:
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await release.wait()
        await peer.send(reply(RULES))

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        first = asyncio.create_task(keeper.rules(server.url("/1"), GATE, 0.0))
        second = asyncio.create_task(keeper.rules(server.url("/2"), GATE, 0.0))
        await server.asked.wait()
        first.cancel()
        release.set()
        answer, used = await second
        assert isinstance(answer, Robots)
        assert not used
        assert first.cancelled()


async def test_nothing_is_asked_when_robots_are_ignored(clock: Clock) -> None:
    async with worker(":memory:", clock, ignore_robots=True) as (keeper, _), serve(replies(RULES)) as server:
        assert await keeper.rules(server.url("/private"), GATE, 0.0) == (ALLOW_ALL, False)
        assert not keeper.disallowed(server.url("/private"))
    assert server.connections == 0


async def test_what_the_fleet_knows_is_recalled_without_a_request(tmp_path: Path, clock: Clock) -> None:
    async with (
        serve(replies(RULES + b"Crawl-delay: 3\n")) as server,
        worker(tmp_path / "s.sqlite", clock) as (first, _),
        worker(tmp_path / "s.sqlite", clock, "worker-2") as (second, _),
    ):
        await second.recall([server.url("/private")])
        assert server.targets == []
        await asked(first, server)
        assert not second.disallowed(server.url("/private"))
        await second.recall([server.url("/private"), server.url("/private/x")])
        assert second.disallowed(server.url("/private"))
        assert server.targets == ["/robots.txt"]
