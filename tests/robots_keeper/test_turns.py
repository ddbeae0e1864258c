"""The request's turn at the gate, and the Crawl-delay that rules set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robots_keeper.workers import CRAWL, GATE, RULES, Clock, asked, worker
from tests.servers import Peer, replies, reply, serve


async def test_the_request_waits_for_the_callers_turn(clock: Clock) -> None:
    arrived: list[float] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        arrived.append(clock())
        await peer.send(reply(RULES))

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        start_at = clock() + 0.3
        await keeper.rules(server.url("/"), GATE, start_at)
    assert arrived[0] >= start_at


async def test_a_turn_that_has_become_void_is_taken_anew(clock: Clock) -> None:
    arrived: list[float] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        arrived.append(clock())
        await peer.send(reply(RULES))

    async with worker(":memory:", clock, rate=2.0) as (keeper, state), serve(script) as server:
        opens = clock() + 0.3
        await state.hold(GATE, until=opens)
        await keeper.rules(server.url("/"), GATE, clock() - 5.0)
        assert await state.turn(CRAWL, GATE) >= opens + 0.5
    assert arrived[0] >= opens


async def test_a_crawl_delay_is_in_force_when_the_rules_are_there(clock: Clock) -> None:
    async with worker(":memory:", clock, rate=10.0) as (keeper, state):
        async with serve(replies(b"User-agent: *\nCrawl-delay: 20\n")) as server:
            await state.turn(CRAWL, GATE)
            await asked(keeper, server)
            first = await state.turn(CRAWL, GATE)
            assert await state.turn(CRAWL, GATE) == first + 20


async def test_of_the_hosts_at_one_gate_the_slowest_sets_the_pace(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.sqlite"
    slow, quick = b"User-agent: *\nCrawl-delay: 20\n", b"User-agent: *\nCrawl-delay: 2\n"
    async with serve(replies(slow)) as one, serve(replies(quick)) as two, serve(replies(RULES)) as three:
        for server, name in ((one, "a"), (two, "b"), (three, "c")):
            async with worker(path, clock, name) as (keeper, state):
                await asked(keeper, server)
                first = await state.turn(CRAWL, GATE)
                assert await state.turn(CRAWL, GATE) == first + 20


@pytest.mark.case("B10")
async def test_a_crawl_delay_beyond_reason_is_capped(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async with worker(":memory:", clock) as (keeper, state):
        async with serve(replies(b"User-agent: *\nCrawl-delay: 1e9\n")) as server:
            await asked(keeper, server)
            first = await state.turn(CRAWL, GATE)
            assert await state.turn(CRAWL, GATE) == first + 3600
    assert "Crawl-delay" in caplog.text
