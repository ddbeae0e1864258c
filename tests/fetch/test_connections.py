"""Connections: used again, closed by the server, or never made."""

from __future__ import annotations

import socket

import pytest

from crawler import connection
from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure
from tests.servers import Peer, replies, reply, serve


async def test_connections_are_used_again(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        for n in range(10):
            assert (await fetcher.get(server.url(f"/{n}"))).ip == "127.0.0.1"
        assert server.connections == 1
        assert len(server.requests) == 10


@pytest.mark.case("H04")
async def test_idle_connections_are_kept_to_so_many_hosts_only(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_HOSTS", 2)
    async with serve(replies(b"ok"), host="127.0.0.1") as server:
        for name in ("a", "b", "c", "d", "a", "b", "c", "d"):
            await fetcher.get(server.url().replace("127.0.0.1", f"{name}.localhost"))
        assert server.connections == 2 + 2 * 2


@pytest.mark.case("C12")
@pytest.mark.parametrize("with_reset", [False, True])
async def test_a_connection_closed_while_idle_costs_no_page(fetcher: Fetcher, with_reset: bool) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"ok"))
        if server.connections == 1:
            await peer.request()
            if with_reset:
                peer.reset()

    async with serve(script) as server:
        assert (await fetcher.get(server.url("/1"))).body == b"ok"
        assert (await fetcher.get(server.url("/2"))).body == b"ok"
    assert server.targets == ["/1", "/2", "/2"]
    assert server.connections == 2


@pytest.mark.parametrize("with_reset", [False, True])
@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\nContent-"])
async def test_a_new_connection_closed_without_an_answer_is_asked_only_once(
    fetcher: Fetcher, with_reset: bool, beginning: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if beginning:
            await peer.send(beginning)
        if with_reset:
            peer.reset()

    async with serve(script) as server:
        assert (await failure(fetcher, server.url())).kind == FailureKind.RESET
        assert len(server.requests) == 1


async def test_a_used_connection_that_began_to_answer_is_not_asked_again(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"ok"))
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nX: ")

    async with serve(script) as server:
        await fetcher.get(server.url())
        assert (await failure(fetcher, server.url())).kind == FailureKind.RESET
    assert len(server.requests) == 2


async def test_a_closed_port_is_a_connect_failure(fetcher: Fetcher) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        failed = await failure(fetcher, f"http://127.0.0.1:{free.getsockname()[1]}/")
    assert failed.kind == FailureKind.CONNECT


async def test_a_name_without_address_is_a_dns_failure(fetcher: Fetcher) -> None:
    failed = await failure(fetcher, "http://no-such-name.invalid/")
    assert failed.kind == FailureKind.DNS
    assert "no-such-name.invalid" in str(failed)


async def test_localhost_needs_no_name_server(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        for name in ("localhost", "anything.localhost", "localhost."):
            response = await fetcher.get(server.url("/").replace("127.0.0.1", name))
            assert (response.body, response.ip) == (b"ok", "127.0.0.1")
