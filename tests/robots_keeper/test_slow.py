"""Hosts that accept and never answer, or take their time: nobody else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from crawler import robots_keeper
from crawler.robots import Robots
from crawler.robots_fact import Unreachable
from crawler.state.port import CrawlState
from tests.robots_keeper.workers import CRAWL, GATE, RULES, Clock, until, worker
from tests.servers import Peer, replies, reply, serve

HOLES = 20


async def black_hole(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def until_turn(state: CrawlState, right: Callable[[float], bool]) -> float:
    """Ask the gate for turns until one is as it should be; when that is."""
    at = await state.turn(CRAWL, GATE)
    if right(at):
        return at
    await asyncio.sleep(0.01)
    return await until_turn(state, right)


def named(url: str, name: str) -> str:
    return url.replace("127.0.0.1", f"{name}.localhost")


async def test_black_holes_leave_every_slot_to_the_others(clock: Clock) -> None:
    """Twenty of them and two request slots: all other hosts get their rules while the holes are still open."""
    async with (
        worker(":memory:", clock, concurrency=2) as (keeper, _),
        serve(black_hole) as holes,
        serve(replies(RULES)) as well,
    ):
        urls = [named(holes.url("/"), f"hole{n}") for n in range(HOLES)]
        stuck = [asyncio.create_task(keeper.rules(url, f"hole{n}.localhost", 0.0)) for n, url in enumerate(urls)]
        await until(lambda: len(holes.requests) == HOLES)
        others = [named(well.url("/"), f"well{n}") for n in range(HOLES)]
        answers = await asyncio.gather(*(keeper.rules(url, f"well{n}.localhost", 0.0) for n, url in enumerate(others)))
        assert all(isinstance(answer, Robots) for answer, _ in answers)
        assert len(well.requests) == HOLES
        assert (holes.open, len(holes.requests)) == (HOLES, HOLES)
        assert not any(task.done() for task in stuck)
        await keeper.close()
        await asyncio.gather(*stuck, return_exceptions=True)


async def test_pages_of_a_slow_host_go_back_while_its_file_is_awaited(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_keeper, "SLOW", 0.05)
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await release.wait()
        await peer.send(reply(RULES))

    async with worker(":memory:", clock) as (keeper, state), serve(script) as server:
        for path in ("/1", "/2", "/3"):
            answer, used = await keeper.rules(server.url(path), GATE, 0.0)
            assert isinstance(answer, Unreachable)
            assert (answer.kind, answer.streak, used) == ("awaited", 0, False)
            assert answer.until > clock()
        # Nothing of the host may be fetched, so nothing is handed out.
        closed = await until_turn(state, lambda at: at > clock())
        release.set()
        await until(lambda: keeper.disallowed(server.url("/private")))
        answer, used = await keeper.rules(server.url("/1"), GATE, 0.0)
        assert isinstance(answer, Robots)
        assert not used
        assert await until_turn(state, lambda at: at <= clock()) >= closed
    assert len(server.requests) == 1


async def test_a_gate_that_others_share_stays_open(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "SLOW", 0.02)
    async with worker(":memory:", clock) as (keeper, state), serve(black_hole) as server:
        for _ in range(5):
            answer, _ = await keeper.rules(server.url("/"), "shared.example", 0.0)
            assert isinstance(answer, Unreachable)
            assert await state.turn(CRAWL, "shared.example") <= clock()
        assert (server.open, len(server.requests)) == (1, 1)


async def test_a_page_waits_for_its_own_turn_before_it_goes_back(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "SLOW", 0.01)
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        # The first one's turn comes at once, the others' long after the file has.
        turns = [clock(), clock() + 30, clock() + 60]
        waiting = [asyncio.create_task(keeper.rules(server.url("/"), GATE, turn)) for turn in turns]
        answers = await asyncio.gather(*waiting)
        assert all(isinstance(answer, Robots) for answer, _ in answers[1:])
    assert len(server.requests) == 1
