"""Limits on a body's size and on the requests in flight."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib

import pytest

from crawler.fetch import Fetcher
from tests.fetch.getting import fetched
from tests.servers import Peer, reply, serve


async def test_a_body_of_the_limit_is_whole_and_one_byte_more_is_cut(fetcher: Fetcher) -> None:
    response = await fetched(fetcher, reply(b"x" * 1000), max_body=1000)
    assert (len(response.body), response.truncated) == (1000, "")
    response = await fetched(fetcher, reply(b"x" * 1001), max_body=1000)
    assert (len(response.body), len(response.stored), response.truncated) == (1000, 1000, "length")
    response = await fetched(fetcher, reply(b"x" * 100_001))
    assert (len(response.body), response.truncated) == (100_000, "length")


@pytest.mark.case("C04")
@pytest.mark.parametrize("coding", ["", "Content-Encoding: gzip\r\n", "Content-Encoding: sdch\r\n"])
async def test_a_body_without_end_stops_at_the_limit(fetcher: Fetcher, coding: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(f"HTTP/1.1 200 OK\r\n{coding}\r\n".encode())
        stream = zlib.compressobj(wbits=31, level=0)
        while True:
            noise = os.urandom(20_000)
            await peer.send(stream.compress(noise) + stream.flush(zlib.Z_SYNC_FLUSH) if "gzip" in coding else noise)

    async with serve(script) as server:
        response = await fetcher.get(server.url())
        await server.idle.wait()
    assert len(response.body) == 100_000
    assert len(response.stored) < 200_000
    assert response.truncated == "length"


async def test_empty_members_without_end_stop_at_the_limit_of_the_wire(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        while True:
            await peer.send(gzip.compress(b"") * 500)

    response = await fetched(fetcher, script)
    assert (response.body, response.truncated) == (b"", "length")


@pytest.mark.case("C04")
async def test_a_bomb_stops_at_the_limit(fetcher: Fetcher) -> None:
    response = await fetched(fetcher, reply(gzip.compress(bytes(50_000_000)), "Content-Encoding: gzip"))
    assert response.body == bytes(100_000)
    assert response.truncated == "length"


@pytest.mark.case("C12")
async def test_only_so_many_requests_are_in_flight_and_waiting_is_not_held_against_a_server() -> None:
    now, most = 0, 0

    async def script(peer: Peer) -> None:
        nonlocal now, most
        while await peer.request():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.1)
            now -= 1
            await peer.send(reply(b"ok"))

    async with Fetcher("tester/1.0", allow_private=True, concurrency=3) as fetcher, serve(script) as server:
        answers = await asyncio.gather(*(fetcher.get(server.url(f"/{n}"), deadline=0.6) for n in range(30)))
    assert [answer.status for answer in answers] == [200] * 30
    assert most == 3
