"""Answers as received, of many shapes, and what is no answer at all."""

from __future__ import annotations

import pytest

from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure, fetched
from tests.servers import Peer, replies, reply, serve


async def test_an_answer_is_told_as_received(fetcher: Fetcher) -> None:
    head = b"HTTP/1.1 404 Nope \xe9\r\nX-One:  1 \r\nx-two: caf\xe9\r\nX-One: 2\r\nContent-Length: 4\r\n\r\n"
    response = await fetched(fetcher, head + b"gone")
    assert (response.status, response.reason, response.version) == (404, "Nope \xe9", "HTTP/1.1")
    assert response.headers == ((b"X-One", b"1"), (b"x-two", b"caf\xe9"), (b"X-One", b"2"), (b"Content-Length", b"4"))
    assert response.stored == response.body == b"gone"
    assert (response.truncated, response.decoded, response.ip) == ("", True, "127.0.0.1")
    assert 0 < response.elapsed < response.fetched_at


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "300 Choose"])
async def test_redirects_are_answers(fetcher: Fetcher, status: str) -> None:
    async with serve(replies(b"", "Location: /elsewhere", status=status)) as server:
        response = await fetcher.get(server.url("/"))
    assert response.status == int(status[:3])
    assert response.header(b"location") == "/elsewhere"
    assert server.targets == ["/"]


@pytest.mark.parametrize(
    ("wire", "status", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nok", 999, b"ok"),
        (b"HTTP/1.1 204 No\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 999\r\n\r\n", 304, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (b"HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\n!!!\r\n0\r\nT: 1\r\n\r\n",
            200,
            b"ok!!!",
        ),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, b"ok"),
    ],
)
async def test_replies_of_many_shapes_are_read(fetcher: Fetcher, wire: bytes, status: int, body: bytes) -> None:
    response = await fetched(fetcher, wire)
    assert (response.status, response.body, response.truncated) == (status, body, "")


@pytest.mark.case("C05")
@pytest.mark.parametrize(
    "extra",
    [
        ["Content-Security-Policy: " + "x" * 9000],
        [f"X-{n}: {n}" for n in range(200)],
        ["X: " + "y" * 200_000],
        [f"X-{n}: {n}" for n in range(5000)],
    ],
    ids=["9 kB", "200 fields", "200 kB", "5,000 fields"],
)
async def test_large_header_sections_are_read(fetcher: Fetcher, extra: list[str]) -> None:
    response = await fetched(fetcher, reply(b"ok", *extra))
    assert (response.status, response.body) == (200, b"ok")
    assert len(response.headers) == len(extra) + 1


@pytest.mark.case("C05")
@pytest.mark.parametrize(
    "wire",
    [
        b"<html>no status line</html>",
        b"ICY 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 300_000 + b"\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyy\r\n" * 20_000 + b"\r\nok",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 10_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nsomething",
        b"\x16\x03\x01\x02\x00",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    ],
)
async def test_what_is_no_http_is_a_failure_and_never_a_status(fetcher: Fetcher, wire: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(wire)
        await peer.gone()

    async with serve(script) as server:
        failed = await failure(fetcher, server.url(), deadline=20.0)
        await server.idle.wait()
    assert failed.kind == FailureKind.PROTOCOL
    assert len(server.requests) == 1
