"""Which answers mean no rules, and which that the host is closed for now."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from crawler import robots_keeper
from crawler.errors import FailureKind
from crawler.robots import ALLOW_ALL, Robots
from crawler.robots_fact import Unreachable
from tests.robots_keeper.workers import CRAWL, GATE, RULES, Clock, asked, sequence, worker
from tests.servers import Peer, replies, reply, serve


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "401 Who", "410 Gone", "400 Bad", "300 Choose"])
async def test_a_file_that_is_not_to_be_had_means_no_rules(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES, status=status)) as server:
        assert await asked(keeper, server) is ALLOW_ALL


@pytest.mark.case("B02")
@pytest.mark.parametrize("status", ["500 Oops", "503 Busy", "429 Slow down"])
async def test_a_server_that_fails_is_closed_for_the_whole_fleet(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(b"", status=status)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Unreachable)
        assert (answer.kind, answer.streak, answer.error) == ("status", 1, f"HTTP {status}")
        assert 15 <= answer.until - clock() <= 40
        assert await asked(keeper, server) == answer
        assert await state.turn(CRAWL, GATE) == answer.until
    assert len(server.requests) == 1


@pytest.mark.case("B02")
async def test_a_server_that_recovers_is_asked_again_and_opened(clock: Clock) -> None:
    steps = [reply(b"", status="503 Busy")] * 3 + [reply(RULES)]
    async with worker(":memory:", clock) as (keeper, _), serve(sequence(*steps)) as server:
        waits = []
        for streak in (1, 2, 3):
            answer = await asked(keeper, server)
            assert isinstance(answer, Unreachable)
            assert answer.streak == streak
            waits.append(answer.until - clock())
            clock.ahead += waits[-1] + 1
        assert isinstance(await asked(keeper, server), Robots)
        assert waits == sorted(waits)
        assert sum(waits) > 60
    assert len(server.requests) == 4


async def test_the_streak_is_the_fleets(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.sqlite"
    async with serve(replies(b"", status="503 Busy")) as server:
        for name in ("one", "two", "three"):
            async with worker(path, clock, name) as (keeper, _):
                answer = await asked(keeper, server)
                assert isinstance(answer, Unreachable)
                assert answer.streak == len(server.requests)
                clock.ahead += answer.until - clock() + 1
    assert len(server.requests) == 3


async def test_a_host_given_up_is_not_held_any_longer(clock: Clock) -> None:
    async with worker(":memory:", clock, max_attempts=1) as (keeper, state):
        async with serve(replies(b"", status="503 Busy")) as server:
            assert isinstance(await asked(keeper, server), Unreachable)
            assert await state.turn(CRAWL, GATE) <= clock()


async def test_retry_after_is_obeyed(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _):
        async with serve(replies(b"", "Retry-After: 300", status="503 Busy")) as server:
            answer = await asked(keeper, server)
            assert isinstance(answer, Unreachable)
            assert answer.until > clock() + 290


async def test_a_host_that_cannot_be_reached_is_tried_again_soon(clock: Clock) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with worker(":memory:", clock) as (keeper, _):
            answer, used = await keeper.rules(f"http://127.0.0.1:{free.getsockname()[1]}/", GATE, 0.0)
            assert isinstance(answer, Unreachable)
            assert used
            assert answer.kind == FailureKind.CONNECT
            assert 2 <= answer.until - clock() + 1 <= 5


@pytest.mark.case("B02", "B09")
async def test_a_server_that_never_answers_does_not_hold_up_the_crawl(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(robots_keeper, "DEADLINE", 0.2)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server, serve(replies(RULES)) as other:
        black_hole = asyncio.create_task(keeper.rules(server.url("/"), GATE, 0.0))
        assert isinstance((await keeper.rules(other.url("/"), "other.example", 0.0))[0], Robots)
        assert not black_hole.done()
        answer, _ = await black_hole
        assert isinstance(answer, Unreachable)
        assert answer.kind == FailureKind.TIMEOUT


async def test_a_file_that_ends_early_is_asked_for_once_more_and_then_used(clock: Clock) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + RULES)

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Unreachable)
        assert answer.kind == FailureKind.RESET
        clock.ahead += answer.until - clock() + 1
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))


async def test_a_private_address_is_a_refusal_of_this_crawl_only(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "state.sqlite"
    async with serve(replies(RULES)) as server:
        async with worker(path, clock, "one", allow_private=False) as (keeper, state):
            answer = await asked(keeper, server)
            assert isinstance(answer, Unreachable)
            assert answer.kind == FailureKind.PRIVATE
            assert await state.turn(CRAWL, GATE) <= clock()
        assert server.connections == 0
        async with worker(path, clock, "two", allow_private=True) as (keeper, _):
            assert isinstance(await asked(keeper, server), Robots)
