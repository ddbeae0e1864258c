"""Bodies that end early, late or encoded."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from crawler.fetch import Fetcher
from tests.fetch.getting import fetched
from tests.servers import Peer, reply, serve

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4b0\r\n" + b"x" * 1200 + b"\r\n"


@pytest.mark.case("C01")
@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 1200,
        CHUNKED,
        CHUNKED + b"400\r\n",
        CHUNKED + b"zzz\r\n",
    ],
    ids=["length", "no last chunk", "within a chunk", "bad chunk"],
)
async def test_a_body_that_ends_early_is_kept_and_marked(fetcher: Fetcher, head: bytes, with_reset: bool) -> None:
    arrived = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(head[:-500])
        await peer.send(head[-500:])
        # A reset overtakes what the client has not read yet.
        await arrived.wait()
        if with_reset:
            peer.reset()

    async with serve(script) as server:
        asyncio.get_running_loop().call_later(0.2, arrived.set)
        response = await fetcher.get(server.url())
        await server.idle.wait()
    assert response.status == 200
    assert response.body == response.stored == b"x" * 1200
    assert response.truncated == "disconnect"


async def test_a_body_until_the_end_that_is_reset_is_marked(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await asyncio.sleep(0.1)
        peer.reset()

    response = await fetched(fetcher, script)
    assert (response.body, response.truncated) == (b"half of it", "disconnect")


@pytest.mark.case("C01")
@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("pause", [False, True])
async def test_bytes_behind_the_body_cost_nothing(fetcher: Fetcher, connection: str, pause: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        whole = reply(b"x" * 500, f"Connection: {connection}") + b"<!-- more than declared -->\r\n\r\n"
        await peer.send(whole[:300])
        if pause:
            await asyncio.sleep(0.05)
        await peer.send(whole[300:])
        await peer.gone()

    async with serve(script) as server:
        response = await fetcher.get(server.url())
        await server.idle.wait()
    assert (response.status, response.body, response.truncated) == (200, b"x" * 500, "")


async def test_a_second_reply_to_one_request_is_not_taken_for_the_next(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"first") + reply(b"smuggled"))

    async with serve(script) as server:
        bodies = [(await fetcher.get(server.url(f"/{n}"))).body for n in range(3)]
    assert bodies == [b"first"] * 3


@pytest.mark.case("C02")
async def test_a_compressed_body_cut_short_is_kept_and_marked(fetcher: Fetcher) -> None:
    page = b"".join(b"<p>%d</p>" % n for n in range(5000))
    wire = gzip.compress(page)[:-12]
    response = await fetched(fetcher, reply(wire, "Content-Encoding: gzip"))
    assert response.stored == wire
    assert page.startswith(response.body)
    assert len(response.body) > 10_000
    assert (response.truncated, response.decoded) == ("disconnect", True)


@pytest.mark.case("C02", "C03")
async def test_codings_are_undone_and_the_stored_body_keeps_them(fetcher: Fetcher) -> None:
    page = b"<p>page</p>" * 100
    twice = gzip.compress(zlib.compress(page))
    response = await fetched(fetcher, reply(twice, "Content-Encoding: deflate", "Content-Encoding: x-gzip"))
    assert (response.stored, response.body, response.decoded) == (twice, page, True)
    response = await fetched(fetcher, reply(b"\x01\x02", "Content-Encoding: compress"))
    assert (response.stored, response.body, response.decoded) == (b"\x01\x02", b"\x01\x02", False)
    response = await fetched(fetcher, reply(b"not found", "Content-Encoding: gzip", status="404 Not Found"))
    assert (response.status, response.body, response.decoded) == (404, b"not found", True)
