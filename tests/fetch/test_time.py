"""Servers that are slow or never answer, and a fetch that is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from crawler import fetch
from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure, fetched
from tests.servers import Peer, serve


@pytest.mark.case("C12")
async def test_a_server_that_never_answers_is_a_timeout(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serve(script) as server:
        failed = await failure(fetcher, server.url(), deadline=0.2)
        await server.idle.wait()
    assert failed.kind == FailureKind.TIMEOUT
    assert len(server.requests) == 1


@pytest.mark.case("C12")
async def test_headers_that_drip_are_a_timeout(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.drip(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000, 0.01)

    async with serve(script) as server:
        assert (await failure(fetcher, server.url(), deadline=0.3)).kind == FailureKind.TIMEOUT
        await server.idle.wait()


async def test_headers_have_a_time_of_their_own(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "HEADERS_TIMEOUT", 0.2)
    monkeypatch.setattr(fetch, "GRACE", 0.1)
    monkeypatch.setattr(fetch, "LOOK_EVERY", 0.1)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serve(script) as server:
        assert (await failure(fetcher, server.url())).kind == FailureKind.TIMEOUT
        await server.idle.wait()


@pytest.mark.case("C12")
async def test_a_body_that_drips_is_kept_as_far_as_it_came(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        await peer.drip(b"z" * 100_000, 0.02)

    async with serve(script) as server:
        by_deadline = await fetcher.get(server.url(), deadline=0.3)
        monkeypatch.setattr(fetch, "GRACE", 0.3)
        by_rate = await fetcher.get(server.url())
        await server.idle.wait()
    for response in (by_deadline, by_rate):
        assert response.status == 200
        assert 0 < len(response.body) < 100
        assert set(response.body) == {ord("z")}
        assert response.truncated == "time"


async def test_a_slow_body_that_keeps_its_rate_is_read_to_the_end(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "GRACE", 0.1)
    monkeypatch.setattr(fetch, "LOOK_EVERY", 0.05)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        for _ in range(10):
            await peer.send(b"z" * 1000)
            await asyncio.sleep(0.05)

    response = await fetched(fetcher, script)
    assert (len(response.body), response.truncated) == (10_000, "")


async def test_headers_without_a_byte_of_the_body_in_time_are_a_failure(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        await peer.gone()

    async with serve(script) as server:
        assert (await failure(fetcher, server.url(), deadline=0.2)).kind == FailureKind.TIMEOUT
        await server.idle.wait()


async def test_cancelling_closes_the_connection(fetcher: Fetcher) -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.gone()

    async with serve(script) as server:
        task = asyncio.create_task(fetcher.get(server.url()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.idle.wait()
