"""A request is made once, whatever the connection it goes out on."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure
from tests.servers import Peer, reply, serve


@pytest.mark.parametrize("with_reset", [False, True])
async def test_what_a_server_refuses_on_a_used_connection_is_asked_once_more_and_no_oftener(
    fetcher: Fetcher, with_reset: bool
) -> None:
    async def script(peer: Peer) -> None:
        if server.connections == 1:
            await peer.request()
            await peer.send(reply(b"ok"))
        await peer.request()
        if with_reset:
            peer.reset()

    async with serve(script) as server:
        await fetcher.get(server.url("/1"))
        assert (await failure(fetcher, server.url("/2"))).kind == FailureKind.RESET
    assert server.targets == ["/1", "/2", "/2"]


async def test_an_interim_answer_is_an_answer_begun(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"ok"))
        await peer.request()
        await peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")

    async with serve(script) as server:
        await fetcher.get(server.url("/1"))
        assert (await failure(fetcher, server.url("/2"))).kind == FailureKind.RESET
    assert server.targets == ["/1", "/2"]


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
@pytest.mark.parametrize(
    ("header", "used_again"), [("Connection: keep-alive", True), ("Connection: close", False), ("X: y", None)]
)
async def test_connections_are_used_again_as_their_version_says(
    fetcher: Fetcher, version: str, header: str, used_again: bool | None
) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"ok", header, version=version))

    async with serve(script) as server:
        for _ in range(2):
            assert (await fetcher.get(server.url())).body == b"ok"
        again = version == "HTTP/1.1" if used_again is None else used_again
        assert server.connections == (1 if again else 2)


async def test_no_more_than_so_many_requests_are_under_way_at_a_time() -> None:
    most = under_way = 0
    all_in = asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal most, under_way
        while await peer.request():
            under_way += 1
            most = max(most, under_way)
            if under_way == 4:
                all_in.set()
            await all_in.wait()
            under_way -= 1
            await peer.send(reply(b"ok"))

    async with Fetcher("tester/1.0", allow_private=True, concurrency=4) as fetcher, serve(script) as server:
        await asyncio.gather(*(fetcher.get(server.url(f"/{n}")) for n in range(20)))
    assert (most, server.connections) == (4, 4)
