"""A robots.txt behind redirects (RFC 9309, section 2.3.1.2)."""

from __future__ import annotations

import pytest

from crawler.errors import FailureKind
from crawler.robots import ALLOW_ALL, Robots
from crawler.robots_keeper import Unreachable
from tests.robots_keeper.workers import RULES, Clock, asked, worker
from tests.servers import Peer, Script, replies, reply, serve


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

    async with worker(":memory:", clock) as (keeper, state), serve(script, host="127.0.0.2") as target:
        async with serve(replies(b"", f"Location: {target.url('/r')}", status="301 Moved")) as server:
            opens = clock() + 0.3
            await state.hold("127.0.0.2", until=opens)
            await asked(keeper, server)
    assert arrived[0] >= opens


async def test_a_redirect_to_a_host_that_is_busy_for_long_is_given_up_for_now(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(RULES), host="127.0.0.2") as target:
        async with serve(replies(b"", f"Location: {target.url('/r')}", status="301 Moved")) as server:
            await state.hold("127.0.0.2", until=clock() + 600)
            answer = await asked(keeper, server)
    assert isinstance(answer, Unreachable)
    assert answer.kind == FailureKind.TIMEOUT
    assert target.connections == 0
