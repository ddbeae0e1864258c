"""Answers that are no files, and files that come in odd ways."""

from __future__ import annotations

import gzip
import zlib

import pytest

from crawler.errors import FailureKind
from crawler.robots import ALLOW_ALL, MAX_FILE, Robots
from crawler.robots_fact import Unreachable
from tests.robots_keeper.workers import GATE, RULES, Clock, asked, worker
from tests.servers import Peer, replies, reply, serve

PACKED = gzip.compress(RULES, mtime=0)
DAMAGED = PACKED[:10] + b"\xff" * 60


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"nonsense\r\n\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 abc\r\n\r\n", FailureKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n" + RULES, FailureKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" + RULES, FailureKind.PROTOCOL),
        (b"\x15\x03\x01\x00\x02\x02\x46", FailureKind.PROTOCOL),
        (b"", FailureKind.RESET),
        (b"HTTP/1.1 200 OK\r\nContent-Le", FailureKind.RESET),
    ],
)
async def test_an_answer_that_is_no_http_closes_the_host(clock: Clock, answer: bytes, kind: FailureKind) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(answer) as server:
        told = await asked(keeper, server)
        assert isinstance(told, Unreachable)
        assert told.kind == kind
        assert told.until <= clock() + 5


async def test_a_connection_that_is_reset_closes_the_host(clock: Clock) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.reset()

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        told = await asked(keeper, server)
        assert isinstance(told, Unreachable)
        assert told.kind == FailureKind.RESET


async def test_tls_that_fails_closes_the_host(clock: Clock) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        told, _ = await keeper.rules(server.url("/").replace("http:", "https:"), GATE, 0.0)
        assert isinstance(told, Unreachable)
        assert told.kind == FailureKind.TLS


async def test_a_name_without_an_address_closes_the_host(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, _):
        told, _ = await keeper.rules("http://nothing.invalid/", GATE, 0.0)
        assert isinstance(told, Unreachable)
        assert told.kind == FailureKind.DNS


@pytest.mark.case("B11")
async def test_reading_stops_at_the_limit(clock: Clock) -> None:
    """The server would send 64 MiB; what it gets rid of is the limit and what the sockets' buffers hold."""
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n" + RULES)
        for _ in range(1024):
            await peer.send(b"#" * 65535 + b"\n")
            sent += 65536

    async with worker(":memory:", clock) as (keeper, _), serve(script) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
        await server.idle.wait()
    assert MAX_FILE - 65536 < sent < 12 * MAX_FILE


@pytest.mark.parametrize(
    ("body", "coding"),
    [(PACKED, "gzip"), (zlib.compress(RULES), "deflate"), (RULES, "utf-8"), (RULES, "identity")],
    ids=["gzip", "deflate", "no coding", "identity"],
)
async def test_a_coding_that_is_there_or_only_said_to_be_is_read(clock: Clock, body: bytes, coding: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(body, f"Content-Encoding: {coding}")) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))


@pytest.mark.parametrize(("body", "coding"), [(DAMAGED, "gzip"), (PACKED, "new")], ids=["damaged", "unknown"])
async def test_bytes_that_cannot_be_decoded_are_no_permission(clock: Clock, body: bytes, coding: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(body, f"Content-Encoding: {coding}")) as server:
        told = await asked(keeper, server)
        assert isinstance(told, Unreachable)
        assert told.kind == FailureKind.PROTOCOL


@pytest.mark.case("B01")
@pytest.mark.parametrize("content_type", ["text/plain", "text/plain; charset=iso-8859-1", "text/html", "image/png", ""])
async def test_the_media_type_does_not_matter(clock: Clock, content_type: str) -> None:
    body = b"\xef\xbb\xbf" + RULES
    async with (
        worker(":memory:", clock) as (keeper, _),
        serve(replies(body, f"Content-Type: {content_type}")) as server,
    ):
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))


@pytest.mark.parametrize("cached", ["max-age=31536000, immutable", "no-store", "max-age=0"])
async def test_a_copy_lives_for_a_day_whatever_its_cache_control(clock: Clock, cached: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES, f"Cache-Control: {cached}")) as server:
        await asked(keeper, server)
        clock.ahead += 23.9 * 3600
        await asked(keeper, server)
        assert len(server.requests) == 1
        clock.ahead += 0.2 * 3600
        await asked(keeper, server)
        assert len(server.requests) == 2


@pytest.mark.parametrize("status", ["402 Pay", "405 No", "406 No", "418 Teapot", "451 Censored", "499 Odd", "304 Same"])
async def test_other_refusals_mean_no_rules(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(reply(RULES, status=status)) as server:
        assert await asked(keeper, server) is ALLOW_ALL


@pytest.mark.parametrize("status", ["501 No", "502 Bad", "504 Late", "507 Full", "520 Odd", "599 Odd"])
async def test_other_failures_close_the_host(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, _), serve(reply(b"", status=status)) as server:
        assert isinstance(await asked(keeper, server), Unreachable)
