"""robots.txt of a host, fetched once for the whole fleet."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler import robots_keeper
from crawler.config import CrawlSettings
from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from crawler.model import CrawlRecord
from crawler.robots import ALLOW_ALL, Robots
from crawler.robots_keeper import RobotsKeeper, Unreachable
from crawler.state.port import CrawlState
from crawler.state.sqlite import SqliteState
from tests.servers import Peer, Script, Server, replies, reply, serve

CRAWL = "crawl-1"
GATE = "site.example"
RULES = b"User-agent: *\nDisallow: /private\n"


class Clock:
    """Unix time that a test can move forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "POLL", 0.01)


@asynccontextmanager
async def worker(
    path: Path | str, clock: Callable[[], float], name: str = "worker-1", **given: Any
) -> AsyncIterator[tuple[RobotsKeeper, CrawlState]]:
    """One worker on the state at `path`, as its process would have it."""
    settings = CrawlSettings(**{"rate": 0.0, "allow_private": True, "user_agent": "ExampleBot/1.0", **given})
    state = await SqliteState.open(str(path), worker=name, create=True, clock=clock)
    await state.create(CrawlRecord(id=CRAWL, started_at=clock(), settings=settings))
    try:
        async with Fetcher(settings.user_agent, allow_private=settings.allow_private) as fetcher:
            keeper = RobotsKeeper(state, fetcher, CRAWL, settings, name, clock)
            yield keeper, state
            await keeper.close()
    finally:
        await state.close()


async def asked(keeper: RobotsKeeper, server: Server, path: str = "/page") -> Robots | Unreachable:
    answer, _ = await keeper.rules(server.url(path), GATE, 0.0)
    return answer


def sequence(*steps: bytes) -> Script:
    """Answers the first request with the first of `steps` and so on; the last one for ever."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(steps[min(len(peer.server.requests), len(steps)) - 1])

    return script


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


async def test_all_who_wait_in_one_process_share_one_request_and_one_of_them_pays_its_turn(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        answers = await asyncio.gather(*(keeper.rules(server.url(f"/{n}"), GATE, 0.0) for n in range(16)))
    assert [used for _, used in answers] == [True] + [False] * 15
    assert len({id(answer) for answer, _ in answers}) == 1
    assert len(server.requests) == 1


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


# ---------------------------------------------------------------- what counts as what


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "401 Who", "410 Gone", "400 Bad", "300 Choose"])
async def test_a_file_that_is_not_to_be_had_means_no_rules(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES, status=status)) as server:
        assert await asked(keeper, server) is ALLOW_ALL


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


# ---------------------------------------------------------------- copies


async def test_a_copy_is_asked_for_again_after_a_day(clock: Clock) -> None:
    steps = [reply(RULES), reply(b"User-agent: *\nDisallow: /new\n")]
    async with worker(":memory:", clock) as (keeper, _), serve(sequence(*steps)) as server:
        await asked(keeper, server)
        clock.ahead += 23 * 3600
        answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
        assert not used
        clock.ahead += 2 * 3600
        answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
        assert used
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/new"))
        assert answer.allowed(server.url("/private"))


async def test_the_last_good_copy_stands_in_for_a_month(clock: Clock) -> None:
    steps = [reply(RULES), reply(b"", status="503 Busy")]
    async with worker(":memory:", clock) as (keeper, state), serve(sequence(*steps)) as server:
        await asked(keeper, server)
        for _ in range(3):
            clock.ahead += 5 * 24 * 3600
            answer = await asked(keeper, server)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
            assert await state.turn(CRAWL, GATE) <= clock()
        clock.ahead += 20 * 24 * 3600
        assert isinstance(await asked(keeper, server), Unreachable)
    assert len(server.requests) == 5


async def test_a_huge_file_that_does_not_compress_fits_into_a_fact(tmp_path: Path, clock: Clock) -> None:
    noise = b"".join(b"# %s\n" % os.urandom(40).hex().encode() for _ in range(8000))
    path = tmp_path / "state.sqlite"
    async with serve(replies(RULES + noise)) as server:
        async with worker(path, clock, "one") as (keeper, state):
            await asked(keeper, server)
            fact = (await state.recall([f"robots:{server.address}"]))[0]
            assert fact is not None
            assert len(fact) <= 300_000
        async with worker(path, clock, "two") as (keeper, _):
            answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
            assert not used
    assert len(server.requests) == 1


async def test_a_fact_of_another_version_counts_as_none(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(RULES)) as server:
        await state.remember(f"robots:{server.address}", b"\xc1 something else", 1000.0)
        assert isinstance(await asked(keeper, server), Robots)


async def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "MOST_ORIGINS", 2)
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        urls = [server.url("/private").replace("127.0.0.1", f"{name}.localhost") for name in "abc"]
        for url in urls:
            await keeper.rules(url, GATE, 0.0)
        assert [keeper.disallowed(url) for url in urls] == [False, True, True]
        assert not (await keeper.rules(urls[0], GATE, 0.0))[1]
    assert len(server.requests) == 3


async def test_a_file_with_very_many_rules_is_not_asked_about_links(clock: Clock) -> None:
    many = b"User-agent: *\nDisallow: /private\n" + b"".join(b"Disallow: /*%d\n" % n for n in range(2000))
    async with worker(":memory:", clock) as (keeper, _), serve(replies(many)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
        assert not keeper.disallowed(server.url("/private"))


# ---------------------------------------------------------------- redirects


def chain(length: int) -> Script:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            target = head.split(b" ")[1].decode()
            hop = 0 if target == "/robots.txt" else int(target.removeprefix("/hop"))
            if hop < length:
                await peer.send(reply(b"", f"Location: hop{hop + 1}", status="302 Found"))
            else:
                await peer.send(reply(RULES))

    return script


@pytest.mark.parametrize(("hops", "obeyed"), [(1, True), (5, True), (6, False), (1000, False)])
async def test_five_redirects_are_followed_and_more_mean_no_rules(clock: Clock, hops: int, obeyed: bool) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(chain(hops)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert answer.allowed(server.url("/private")) is not obeyed
    assert len(server.requests) == min(hops, 5) + 1


@pytest.mark.parametrize("location", ["Location: exampleapp://x", "Location:", "X-Nothing: 1", "Location: http://"])
async def test_a_redirect_to_nowhere_means_no_rules(clock: Clock, location: str) -> None:
    async with worker(":memory:", clock) as (keeper, _):
        async with serve(replies(b"", location, status="301 Moved")) as server:
            assert await asked(keeper, server) is ALLOW_ALL


async def test_rules_behind_a_redirect_belong_to_the_host_that_was_asked(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as target:
        async with serve(replies(b"", f"Location: {target.url('/a/robots.txt')}", status="301 Moved")) as server:
            answer = await asked(keeper, server)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
            assert not keeper.disallowed(target.url("/private"))
            await asked(keeper, target)
    assert target.targets == ["/a/robots.txt", "/robots.txt"]


async def test_every_hop_takes_a_turn_at_its_own_gate(clock: Clock) -> None:
    arrived: list[float] = []

    async def script(peer: Peer) -> None:
        while await peer.request():
            arrived.append(clock())
            await peer.send(reply(RULES))

    async with worker(":memory:", clock) as (keeper, state), serve(script) as target:
        async with serve(replies(b"", f"Location: {target.url('/r')}", status="301 Moved")) as server:
            opens = clock() + 0.3
            await state.hold("127.0.0.1", until=opens)
            await asked(keeper, server)
    assert arrived[0] >= opens


async def test_a_redirect_to_a_host_that_is_busy_for_long_is_given_up_for_now(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(RULES)) as target:
        async with serve(replies(b"", f"Location: {target.url('/r')}", status="301 Moved")) as server:
            await state.hold("127.0.0.1", until=clock() + 600)
            answer = await asked(keeper, server)
    assert isinstance(answer, Unreachable)
    assert answer.kind == FailureKind.TIMEOUT
    assert target.connections == 0


# ---------------------------------------------------------------- turns and delays


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


async def test_a_crawl_delay_beyond_reason_is_capped(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async with worker(":memory:", clock) as (keeper, state):
        async with serve(replies(b"User-agent: *\nCrawl-delay: 1e9\n")) as server:
            await asked(keeper, server)
            first = await state.turn(CRAWL, GATE)
            assert await state.turn(CRAWL, GATE) == first + 3600
    assert "Crawl-delay" in caplog.text


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
