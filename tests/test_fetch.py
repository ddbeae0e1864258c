"""One bounded GET against servers that behave and servers that do not."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crawler import connection, fetch
from crawler.errors import FailureKind, FetchFailure
from crawler.fetch import Fetcher
from crawler.fetched import Response
from tests.servers import Peer, Script, replies, reply, serve


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    async with Fetcher("tester/1.0", contact="me@example.com", allow_private=True, max_body=100_000) as fetcher:
        yield fetcher


async def failure(fetcher: Fetcher, url: str, **options: float) -> FetchFailure:
    with pytest.raises(FetchFailure) as caught:
        await fetcher.get(url, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return caught.value


async def fetched(fetcher: Fetcher, script: Script | bytes, **options: float) -> Response:
    """Fetch once; in the end the server must see the connection closed, or idle in the pool."""
    async with serve(script) as server:
        return await fetcher.get(server.url("/page"), **options)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the request


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a%28b%29/c%2Fd?q=%2F",
        "/?",
        "/p?",
        "/p??",
        "/p?a?",
        "//p?",
        "/p?a=1&a=2&&=&b",
        "/it's/(x)/!$&'()*+,;=:@",
        "/%7Euser/~user",
        "/a//b///c",
        "/a%2e%2e/b",
        "/%zz%/p%",
        "/q?u=http://x.example/?y=1&p=%2f%2F+%20'",
        '/{}|^`"<>[]\\',
    ],
)
async def test_the_target_goes_on_the_wire_byte_for_byte(fetcher: Fetcher, target: str) -> None:
    async with serve(replies(b"ok")) as server:
        response = await fetcher.get(server.url(target))
    assert server.targets == [target]
    assert response.url == server.url(target)


async def test_a_url_without_a_path_asks_for_the_root(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        await fetcher.get(server.url(""))
        await fetcher.get(server.url("?x"))
        await fetcher.get(server.url("?"))
    assert server.targets == ["/", "/?x", "/?"]


async def test_the_request_says_who_asks_and_what_is_understood(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        await fetcher.get(server.url("/"), headers=[("If-None-Match", '"v1"'), ("Cookie", "a=1")])
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET / HTTP/1.1"
    assert set(lines[1:-2]) == {
        f"Host: {server.address.removeprefix('http://')}",
        "User-Agent: tester/1.0",
        "From: me@example.com",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate, br, zstd",
        'If-None-Match: "v1"',
        "Cookie: a=1",
    }


async def test_cookies_are_not_kept_and_no_contact_is_made_up() -> None:
    odd = [
        "Set-Cookie: a=1; Path=/",
        "Set-Cookie: a{b}=1",
        "Set-Cookie: \xe9=1",
        f"Set-Cookie: b=1; Max-Age={'9' * 400}",
    ]
    async with Fetcher("tester/1.0", allow_private=True) as fetcher, serve(replies(b"ok", *odd)) as server:
        response = await fetcher.get(server.url("/"))
        await fetcher.get(server.url("/"))
    assert len(response.header_all(b"set-cookie")) == 4
    assert b"cookie" not in server.requests[1].lower()
    assert b"\r\nFrom:" not in server.requests[1]


# ---------------------------------------------------------------- the answer


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


@pytest.mark.parametrize(
    "extra",
    [["Content-Security-Policy: " + "x" * 9000], [f"X-{n}: {n}" for n in range(200)], ["X: " + "y" * 60_000]],
    ids=["9 kB", "200 fields", "60 kB"],
)
async def test_large_header_sections_are_read(fetcher: Fetcher, extra: list[str]) -> None:
    response = await fetched(fetcher, reply(b"ok", *extra))
    assert (response.status, response.body) == (200, b"ok")
    assert len(response.headers) == len(extra) + 1


@pytest.mark.parametrize(
    "wire",
    [
        b"<html>no status line</html>",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\0b\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 2000 + b"Content-Length: 2\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nsomething",
        b"\x16\x03\x01\x02\x00",
    ],
)
async def test_what_is_no_http_is_a_failure_and_never_a_status(fetcher: Fetcher, wire: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(wire)
        await peer.gone()

    async with serve(script) as server:
        failed = await failure(fetcher, server.url())
        await server.idle.wait()
    assert failed.kind == FailureKind.PROTOCOL
    assert len(server.requests) == 1


# ---------------------------------------------------------------- bodies that end early, or late

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4b0\r\n" + b"x" * 1200 + b"\r\n"


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


async def test_a_compressed_body_cut_short_is_kept_and_marked(fetcher: Fetcher) -> None:
    page = b"".join(b"<p>%d</p>" % n for n in range(5000))
    wire = gzip.compress(page)[:-12]
    response = await fetched(fetcher, reply(wire, "Content-Encoding: gzip"))
    assert response.stored == wire
    assert page.startswith(response.body)
    assert len(response.body) > 10_000
    assert (response.truncated, response.decoded) == ("disconnect", True)


async def test_codings_are_undone_and_the_stored_body_keeps_them(fetcher: Fetcher) -> None:
    page = b"<p>page</p>" * 100
    twice = gzip.compress(zlib.compress(page))
    response = await fetched(fetcher, reply(twice, "Content-Encoding: deflate", "Content-Encoding: x-gzip"))
    assert (response.stored, response.body, response.decoded) == (twice, page, True)
    response = await fetched(fetcher, reply(b"\x01\x02", "Content-Encoding: compress"))
    assert (response.stored, response.body, response.decoded) == (b"\x01\x02", b"\x01\x02", False)
    response = await fetched(fetcher, reply(b"not found", "Content-Encoding: gzip", status="404 Not Found"))
    assert (response.status, response.body, response.decoded) == (404, b"not found", True)


# ---------------------------------------------------------------- limits


async def test_a_body_of_the_limit_is_whole_and_one_byte_more_is_cut(fetcher: Fetcher) -> None:
    response = await fetched(fetcher, reply(b"x" * 1000), max_body=1000)
    assert (len(response.body), response.truncated) == (1000, "")
    response = await fetched(fetcher, reply(b"x" * 1001), max_body=1000)
    assert (len(response.body), len(response.stored), response.truncated) == (1000, 1000, "length")
    response = await fetched(fetcher, reply(b"x" * 100_001))
    assert (len(response.body), response.truncated) == (100_000, "length")


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


async def test_a_bomb_stops_at_the_limit(fetcher: Fetcher) -> None:
    response = await fetched(fetcher, reply(gzip.compress(bytes(50_000_000)), "Content-Encoding: gzip"))
    assert response.body == bytes(100_000)
    assert response.truncated == "length"


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


# ---------------------------------------------------------------- time


async def test_a_server_that_never_answers_is_a_timeout(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.gone()

    async with serve(script) as server:
        failed = await failure(fetcher, server.url(), deadline=0.2)
        await server.idle.wait()
    assert failed.kind == FailureKind.TIMEOUT
    assert len(server.requests) == 1


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


# ---------------------------------------------------------------- connections


async def test_connections_are_used_again(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        for n in range(10):
            assert (await fetcher.get(server.url(f"/{n}"))).ip == "127.0.0.1"
        assert server.connections == 1
        assert len(server.requests) == 10


async def test_idle_connections_are_kept_to_so_many_hosts_only(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_HOSTS", 2)
    async with serve(replies(b"ok"), host="127.0.0.1") as server:
        for name in ("a", "b", "c", "d", "a", "b", "c", "d"):
            await fetcher.get(server.url().replace("127.0.0.1", f"{name}.localhost"))
        assert server.connections == 2 + 2 * 2


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


# ---------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody vouches for, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    pem, raw, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, raw, plain))
    return path


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_that_nobody_vouches_for_is_a_tls_failure(fetcher: Fetcher, certificate: Path) -> None:
    async with serve(replies(b"ok"), tls=tls(certificate)) as server:
        assert (await failure(fetcher, server.url())).kind == FailureKind.TLS
    assert server.requests == []


async def test_plain_http_on_a_tls_port_is_a_tls_failure(fetcher: Fetcher) -> None:
    async def script(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await peer.gone()

    async with serve(script) as server:
        assert (await failure(fetcher, server.url().replace("http:", "https:"))).kind == FailureKind.TLS


async def test_a_handshake_that_never_ends_is_a_connect_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECT_TIMEOUT", 0.2)

    async def script(peer: Peer) -> None:
        await peer.gone()

    async with Fetcher("tester/1.0", allow_private=True) as fetcher, serve(script) as server:
        failed = await failure(fetcher, server.url().replace("http:", "https:"))
        await server.idle.wait()
    assert failed.kind == FailureKind.CONNECT


async def test_tls_connections_are_dropped_at_once_when_a_body_is_cut(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A polite end of TLS would wait for a peer that does nothing but send."""
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await peer.send(b"x" * 100_000)

    async with Fetcher("tester/1.0", allow_private=True, max_body=5000) as fetcher:
        async with serve(script, tls=tls(certificate)) as server:
            response = await fetcher.get(server.url())
            assert (len(response.body), response.truncated, response.ip) == (5000, "length", "127.0.0.1")
            await asyncio.wait_for(server.idle.wait(), 5)


# ---------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "a.localhost", "[::1]", "0.0.0.0", "0x7f.1", "0x7f000001"],
)
async def test_the_own_network_is_refused_before_a_connection_is_made(host: str) -> None:
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret"), host="127.0.0.1") as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", host))
    assert failed.kind == FailureKind.PRIVATE
    assert "not crawled" in str(failed)
    assert server.connections == 0


@pytest.mark.parametrize("host", ["2130706433", "127.1", "017700000001"])
async def test_numbers_that_are_no_canonical_address_are_refused(host: str) -> None:
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret")) as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", host))
    assert failed.kind == FailureKind.URL
    assert server.connections == 0


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:a9fe:a9fe]"])
async def test_metadata_addresses_are_refused_with_permission_too(fetcher: Fetcher, host: str) -> None:
    assert (await failure(fetcher, f"http://{host}/latest/meta-data/")).kind == FailureKind.PRIVATE


async def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))])
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret")) as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", "rebind.example"))
    assert failed.kind == FailureKind.PRIVATE
    assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative",
        "ftp://host.example/",
        "http://",
        "http:///path",
        "http://host.example:99999/",
        "http://[::1/",
        "http://host.example/a b",
        "http://host.example/\r\nX-Evil: 1",
        "http://hóst.example/",
        "http://host.example\r\nX-Evil: 1/",
        "http://host .example/",
        "http://" + "a" * 70 + ".example/",
        "http://a..b.example/",
        "http://xn--/",
    ],
)
async def test_a_url_that_cannot_be_requested_is_a_failure_of_its_own(fetcher: Fetcher, url: str) -> None:
    assert (await failure(fetcher, url)).kind in (FailureKind.URL, FailureKind.DNS)
