"""Replies that break the rules and that browsers read all the same."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure, fetched
from tests.servers import Peer, reply, serve

OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"

HEADS = [
    b"Content-Length: 2\r\n" + TWO,
    b"Content-Length: 2, 2\r\n",
    b"Content-Length: 02\r\n" + TWO,
    b"Content-Length: junk\r\n" + TWO,
    TWO + b"a line without a colon\r\n",
    TWO + b": no name\r\n",
    TWO + b"HTTP/1.1 200 OK\r\n",
    TWO + b"X: a\0b\r\n",
    TWO + b"X\0Y: a\r\n",
    TWO + b"X: a\rb\r\n",
    TWO + b"X: a\r\r\n",
    TWO + b"X: a\r\n  folded\r\n\tagain\r\n",
    b" X: folded before anything\r\n" + TWO,
    TWO + b"X : a\r\n",
    b"Content-Length : 2\r\n",
    TWO + b"X Y: a\r\n",
    TWO + b"X(Y)[Z]: a\r\n",
    TWO + b"X\xe9\xff: a\r\n",
    b"X: a\nContent-Length: 2\n",
    b"Transfer-Encoding: identity\r\n" + TWO,
    b"Transfer-Encoding: \r\n" + TWO,
    TWO + b"Content-Type: text/html\r\nContent-Type: text/plain\r\n",
]


@pytest.mark.case("C05")
@pytest.mark.parametrize("head", HEADS)
async def test_a_header_section_with_a_fault_costs_no_page(fetcher: Fetcher, head: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + head + b"\r\nok")
        await peer.gone()

    response = await fetched(fetcher, script)
    assert (response.status, response.body, response.truncated) == (200, b"ok", "")


@pytest.mark.parametrize("size", [1, 3, 17])
@pytest.mark.parametrize("head", HEADS[::5])
async def test_a_faulty_header_section_may_come_in_pieces(fetcher: Fetcher, head: bytes, size: int) -> None:
    wire = b"\r\n" + OK + head + b"\r\nok"

    async def script(peer: Peer) -> None:
        await peer.request()
        for at in range(0, len(wire), size):
            await peer.send(wire[at : at + size])
            await asyncio.sleep(0)

    response = await fetched(fetcher, script)
    assert (response.body, response.truncated) == (b"ok", "")


@pytest.mark.parametrize(
    "status_line",
    [
        b"HTTP/1.1  200  OK",
        b"HTTP/1.1\t200\tOK",
        b"http/1.1 200 OK",
        b"HTTP/1.2 200 OK",
        b"HTTP/2 200 OK",
        b"HTTP/1.1 200",
    ],
)
async def test_status_lines_of_many_spellings_are_read(fetcher: Fetcher, status_line: bytes) -> None:
    response = await fetched(fetcher, status_line + b"\r\n" + TWO + b"\r\nok")
    assert (response.status, response.body) == (200, b"ok")
    assert response.version in ("HTTP/1.1", "HTTP/1.0")


async def test_fields_are_told_as_received_where_the_parser_saw_less(fetcher: Fetcher) -> None:
    head = TWO + b"nothing\r\nX Y : a\0b \r\nLocation: /caf\xe9\r\n  /more\r\nCONTENT-encoding: none\r\n"
    response = await fetched(fetcher, OK + head + b"\r\nok")
    assert response.headers == (
        (b"Content-Length", b"2"),
        (b"X Y", b"a\0b"),
        (b"Location", b"/caf\xe9 /more"),
        (b"CONTENT-encoding", b"none"),
    )


@pytest.mark.parametrize("length", [b"2x", b"-2", b"+2", b"", b"0x2", b"9" * 30])
async def test_a_length_that_is_none_leaves_the_body_to_the_end_of_the_connection(
    fetcher: Fetcher, length: bytes
) -> None:
    response = await fetched(fetcher, OK + b"Content-Length: " + length + b"\r\n\r\nall of it")
    assert (response.body, response.truncated) == (b"all of it", "")


@pytest.mark.parametrize("order", [b"Content-Length: 3\r\n" + CHUNKED, CHUNKED + b"Content-Length: 99\r\n"])
async def test_a_transfer_coding_overrides_a_length_and_the_connection_is_not_used_again(
    fetcher: Fetcher, order: bytes
) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + order + b"\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled")
        await peer.gone()

    async with serve(script) as server:
        for _ in range(2):
            assert (await fetcher.get(server.url())).body == b"ok"
        assert server.connections == 2


@pytest.mark.parametrize(
    "body",
    [
        b"2\nok\n0\n\n",
        b"2\r\nok\r\n0\r\nno colon\r\n\r\n",
        b"2\r\nok\r\n0\r\n" + b"A: 1\r\n" * 5000 + b"\r\n",
        b"2\r\nok\r\n0\r\n",
        b' 2 ;a=b; c="d" \r\nok\r\n0;x\r\n\r\n',
        b"00000002;" + b"x" * 5000 + b"\r\nok\r\n000\r\n\r\n",
        b"1\r\no\r\n1\nk\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
async def test_chunks_with_a_fault_cost_no_page(fetcher: Fetcher, body: bytes, size: int) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        for at in range(0, len(body), size):
            await peer.send((OK + CHUNKED + b"\r\n" if not at else b"") + body[at : at + size])
        await peer.gone()

    response = await fetched(fetcher, script)
    assert (response.body, response.truncated) == (b"ok", "")


@pytest.mark.parametrize(
    "bad",
    [
        b"\r\n-2\r\n",
        b"\r\nfffffffffffffffff\r\n",
        b"\r\n<html>",
        b"\r\n0x2\r\n",
        b"\r\n\r\n",
        b"\r\n1_0\r\n",
        b"\r\n+2\r\n",
        b"\r\n2;" + b"x" * 20_000,
        b"x",
        b"xx0\r\n\r\n",
        b"\rx",
    ],
)
async def test_what_is_no_chunk_ends_the_body_at_once(fetcher: Fetcher, bad: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + CHUNKED + b"\r\n2\r\nok" + bad)
        await peer.gone()

    response = await fetched(fetcher, script)
    assert (response.body, response.truncated) == (b"ok", "disconnect")


async def test_a_body_compressed_for_the_transfer_is_stored_without_that(fetcher: Fetcher) -> None:
    page = b"<p>page</p>" * 100
    wire = gzip.compress(page)
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(wire), wire)
    for coding, body in ((b"gzip, chunked", chunks), (b"gzip", wire)):
        response = await fetched(fetcher, OK + b"Transfer-Encoding: " + coding + b"\r\n\r\n" + body)
        assert (response.stored, response.body, response.decoded, response.truncated) == (page, page, True, "")


@pytest.mark.parametrize("interim", [1, 5, 50])
async def test_interim_answers_are_passed_over_however_many(fetcher: Fetcher, interim: int) -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nbad line\r\n\r\n" * interim

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(hints)
            await peer.send(reply(b"ok") + b"behind the body")

    async with serve(script) as server:
        for _ in range(2):
            response = await fetcher.get(server.url())
            assert (response.status, response.body, response.truncated) == (200, b"ok", "")
            assert response.headers == ((b"Content-Length", b"2"),)


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_body_that_has_one_does_not_spoil_the_next(fetcher: Fetcher, status: str) -> None:
    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(b"hello", status=status if server.connections % 2 else "200 OK"))

    async with serve(script) as server:
        bodies = [(await fetcher.get(server.url())).body for _ in range(4)]
    assert b"" in bodies
    assert set(bodies) <= {b"", b"hello"}


@pytest.mark.parametrize("unasked", [reply(b"smuggled"), reply(b"timeout", status="408 Request Timeout"), b"junk"])
async def test_what_comes_unasked_is_not_taken_for_the_next_answer(fetcher: Fetcher, unasked: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(reply(b"asked"))
        await asyncio.sleep(0.02)
        await peer.send(unasked)
        await peer.gone()

    async with serve(script) as server:
        for _ in range(2):
            assert (await fetcher.get(server.url())).body == b"asked"
            await server.idle.wait()
        assert server.connections == 2


async def test_a_server_that_speaks_first_is_heard_before_it_is_asked(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"220 mail.example ESMTP\r\n")
        await peer.gone()

    async with serve(script) as server:
        failed = await failure(fetcher, server.url(), deadline=10.0)
    assert failed.kind == FailureKind.PROTOCOL
    assert "220 mail.example" in str(failed)
