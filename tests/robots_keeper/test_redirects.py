"""A robots.txt behind redirects (RFC 9309, section 2.3.1.2)."""

from __future__ import annotations

import pytest

from crawler.errors import FailureKind
from crawler.robots import ALLOW_ALL, Robots
from crawler.robots_fact import Unreachable
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


@pytest.mark.case("B07")
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


@pytest.mark.case("B07")
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


@pytest.mark.case("B07")
async def test_a_file_from_the_robots_txt_of_another_host_is_that_hosts_too(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as target:
        async with serve(replies(b"", f"Location: {target.url('/robots.txt')}", status="301 Moved")) as server:
            await asked(keeper, server)
        answer = await asked(keeper, target)
        assert isinstance(answer, Robots)
        assert not answer.allowed(target.url("/private"))
    assert target.targets == ["/robots.txt"]


async def test_a_file_that_the_fleet_has_is_not_asked_for_through_a_redirect(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as target:
        async with serve(replies(b"", f"Location: {target.url('/robots.txt')}", status="301 Moved")) as server:
            await asked(keeper, target)
            answer = await asked(keeper, server)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
    assert len(target.requests) == 1


@pytest.mark.parametrize("path", ["/robots.txt?x", "/Robots.txt", "//robots.txt", "/a/robots.txt", "/robots.txt/"])
async def test_a_file_from_any_other_path_is_not_that_hosts(clock: Clock, path: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as target:
        async with serve(replies(b"", f"Location: {target.url(path)}", status="302 Found")) as server:
            answer = await asked(keeper, server)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
        await asked(keeper, target)
    assert target.targets == [path, "/robots.txt"]


async def test_a_host_without_a_file_behind_a_redirect_is_known_to_have_none(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(b"", status="404 Gone")) as target:
        async with serve(replies(b"", f"Location: {target.url('/robots.txt')}", status="308 Moved")) as server:
            assert await asked(keeper, server) is ALLOW_ALL
        assert await asked(keeper, target) is ALLOW_ALL
    assert len(target.requests) == 1


async def test_a_target_that_fails_closes_the_host_that_was_asked(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(b"", status="503 Busy")) as target:
        async with serve(replies(b"", f"Location: {target.url('/robots.txt')}", status="307 Moved")) as server:
            assert isinstance(await asked(keeper, server), Unreachable)


async def test_a_redirect_into_a_network_that_is_not_crawled_is_a_failure_and_no_refusal_of_the_host(
    clock: Clock,
) -> None:
    async with worker(":memory:", clock) as (keeper, _):
        async with serve(replies(b"", "Location: http://169.254.1.1/robots.txt", status="301 Moved")) as server:
            answer = await asked(keeper, server)
    assert isinstance(answer, Unreachable)
    assert answer.kind == FailureKind.CONNECT


@pytest.mark.case("B07")
@pytest.mark.parametrize("location", ["r2", "./r2", "../r2", "/r2", "?r2", "//{host}/r2", "{site}/r2"])
async def test_locations_are_resolved_against_the_redirect_that_names_them(clock: Clock, location: str) -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if head.startswith(b"GET /robots.txt "):
                await peer.send(reply(b"", "Location: /dir/r1", status="302 Found"))
            elif head.startswith(b"GET /dir/r1 "):
                host = server.address.removeprefix("http://")
                to = location.format(host=host, site=server.address)
                await peer.send(reply(b"", f"Location: {to}", status="302 Found"))
            else:
                await peer.send(reply(RULES))

    targets = {"r2": "/dir/r2", "./r2": "/dir/r2", "?r2": "/dir/r1?r2"}
    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
    assert server.targets == ["/robots.txt", "/dir/r1", targets.get(location, "/r2")]


@pytest.mark.case("B07")
async def test_a_loop_over_two_hosts_means_no_rules(clock: Clock) -> None:
    async def there(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"", f"Location: {one.url('/robots.txt')}", status="302 Found"))

    async def back(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"", f"Location: {two.url('/robots.txt')}", status="302 Found"))

    async with worker(":memory:", clock) as (keeper, _), serve(back) as one, serve(there) as two:
        assert await asked(keeper, one) is ALLOW_ALL
    assert len(one.requests) + len(two.requests) == 6
