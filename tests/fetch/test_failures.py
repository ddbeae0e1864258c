"""What people are told when there is no answer: one line in the words of the field, for every way to fail."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crawler import fetch
from crawler.errors import FailureKind, FetchFailure
from crawler.failures import failure as told
from crawler.fetch import Fetcher
from tests.fetch.getting import failure
from tests.servers import Peer, replies, serve

UNFIT = re.compile(
    r"Error|Exception|aiohttp|yarl|Errno|ssl:|_ssl\.c|None|Traceback|codec|\bClient[A-Z]|[A-Z]{2,}_[A-Z]"
)


def assert_fit(failed: FetchFailure, kind: FailureKind, words: str) -> None:
    """The text is for people."""
    assert failed.kind == kind
    assert re.search(words, str(failed)), str(failed)
    assert not UNFIT.search(str(failed)), str(failed)
    assert len(str(failed)) < 300


async def gone(peer: Peer) -> None:
    await peer.gone()


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


async def no_answer(peer: Peer) -> None:
    await peer.request()


async def half_a_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nX: ")


async def reset(peer: Peer) -> None:
    await peer.request()
    peer.reset()


async def reset_in_the_head(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nX: ")
    await asyncio.sleep(0.05)
    peer.reset()


async def no_body(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    await peer.gone()


async def junk(peer: Peer) -> None:
    await peer.request()
    await peer.send(b"SSH-2.0-OpenSSH\r\n")


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (silent, FailureKind.TIMEOUT, r"^no answer within \d s$"),
        (no_body, FailureKind.TIMEOUT, r"^the header section, but no body within \d s$"),
        (no_answer, FailureKind.RESET, "^the server closed the connection without an answer$"),
        (half_a_head, FailureKind.RESET, "^the server closed the connection within the header section$"),
        (reset, FailureKind.RESET, "^connection reset$"),
        (reset_in_the_head, FailureKind.RESET, "^connection reset$"),
        (junk, FailureKind.PROTOCOL, "^the answer is no HTTP: it begins with b'SSH-2.0"),
    ],
)
async def test_requests_without_an_answer(
    fetcher: Fetcher, script: Callable[[Peer], Awaitable[None]], kind: FailureKind, words: str
) -> None:
    async with serve(script) as server:
        assert_fit(await failure(fetcher, server.url(), deadline=0.5), kind, words)


async def test_connections_that_are_refused(fetcher: Fetcher) -> None:
    async with serve(replies()) as server:
        url = server.url()
    port = url.rsplit(":", 1)[1].strip("/")
    assert_fit(await failure(fetcher, url), FailureKind.CONNECT, rf"^connection refused \(127\.0\.0\.1:{port}\)$")
    assert_fit(
        await failure(fetcher, url.replace("127.0.0.1", "localhost")),
        FailureKind.CONNECT,
        rf"^connection refused( and [a-z ]+)? \(127\.0\.0\.1:{port}, \[::1\]:{port}\)$",
    )


@pytest.mark.case("A06")
async def test_names_without_an_address(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_fit(
        await failure(fetcher, "http://no-such-name.invalid/"),
        FailureKind.DNS,
        "^no-such-name.invalid has no address: ",
    )
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [])
    assert_fit(await failure(fetcher, "http://empty.example/"), FailureKind.DNS, "^empty.example has no address: ")

    def broken(*_: object, **__: object) -> None:
        raise UnicodeError("label empty or too long")

    monkeypatch.setattr(socket, "getaddrinfo", broken)
    assert_fit(await failure(fetcher, "http://a..b.example/"), FailureKind.URL, "a name that cannot be looked up")


async def test_urls_and_addresses_that_are_refused() -> None:
    async with Fetcher("tester/1.0") as fetcher:
        assert_fit(await failure(fetcher, "http://127.0.0.1/"), FailureKind.PRIVATE, "its address is loopback$")
        assert_fit(await failure(fetcher, "http://localhost/"), FailureKind.PRIVATE, "its address is loopback$")
        assert_fit(
            await failure(fetcher, "http://x.example:99999/"), FailureKind.URL, r"it is no absolute http\(s\) URL$"
        )
        assert_fit(await failure(fetcher, "http://[::1/"), FailureKind.URL, r"it is no absolute http\(s\) URL$")


@pytest.mark.parametrize(
    "error", [RuntimeError("Session is closed"), aiohttp.ClientPayloadError("x"), aiohttp.ClientError(), KeyError("k")]
)
def test_what_nobody_foresaw_has_a_text_as_well(error: Exception) -> None:
    failed = told(error, secure=False, tried=[], answered=False)
    assert_fit(failed, FailureKind.PROTOCOL, "^the answer is no HTTP$")


# ---------------------------------------------------------------- TLS


def certificate(path: Path, *, expired: bool = False, name: str = "127.0.0.1") -> Path:
    """A certificate that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - 3 * day)
        .not_valid_after(now - day if expired else now + day)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(name))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, raw, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, raw, plain))
    return path


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.mark.parametrize(
    ("options", "trusted", "words"),
    [
        ({}, False, r"^the certificate is not valid: self.signed certificate"),
        ({"expired": True}, True, r"^the certificate is not valid: certificate has expired"),
        ({"name": "127.0.0.9"}, True, r"^the certificate is not valid: IP address mismatch"),
    ],
    ids=["self-signed", "expired", "wrong name"],
)
async def test_certificates_that_are_not_valid(
    fetcher: Fetcher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
    trusted: bool,
    words: str,
) -> None:
    cert = certificate(tmp_path / "cert.pem", **options)  # type: ignore[arg-type]
    if trusted:
        monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=str(cert)))
    async with serve(replies(b"ok"), tls=tls(cert)) as server:
        assert_fit(await failure(fetcher, server.url()), FailureKind.TLS, words)
        assert server.requests == []


async def hello_and_close(peer: Peer) -> None:
    await peer.some()


async def hello_and_reset(peer: Peer) -> None:
    await peer.some()
    peer.reset()


async def alert(peer: Peer) -> None:
    await peer.some()
    await peer.send(b"\x15\x03\x03\x00\x02\x02\x28")  # fatal: handshake failure


async def plain_http(peer: Peer) -> None:
    await peer.some()
    await peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    await peer.gone()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (hello_and_close, r"^the server broke off the TLS handshake \(127"),
        (hello_and_reset, r"^the server broke off the TLS handshake \(127"),
        (alert, r"^the TLS handshake failed: .*handshake failure"),
        (plain_http, r"^the server does not speak TLS on this port"),
    ],
)
async def test_handshakes_that_fail(fetcher: Fetcher, script: Callable[[Peer], Awaitable[None]], words: str) -> None:
    async with serve(script) as server:
        failed = await failure(fetcher, server.url().replace("http:", "https:"))
    assert_fit(failed, FailureKind.TLS, words)


async def test_a_handshake_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "CONNECT_TIMEOUT", 0.2)
    async with Fetcher("tester/1.0", allow_private=True) as fetcher, serve(gone) as server:
        failed = await failure(fetcher, server.url().replace("http:", "https:"))
    assert_fit(failed, FailureKind.CONNECT, r"^no connection within \d s \(127\.0\.0\.1:\d+\)$")


# ---------------------------------------------------------------- many addresses


def resolving(monkeypatch: pytest.MonkeyPatch, *ips: str) -> list[str]:
    """Make every name have these addresses; answers the list of names that are asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET6 if ":" in ip else socket.AF_INET, 1, 6, "", (ip, 0)) for ip in ips]

    monkeypatch.setattr("crawler.lookup.socket.getaddrinfo", getaddrinfo)
    return asked


async def test_of_many_addresses_the_first_that_answers_is_used(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolving(monkeypatch, "127.0.0.7", "::1", "127.0.0.8", "127.0.0.1")
    async with serve(replies(b"ok"), host="127.0.0.1") as server:
        response = await fetcher.get(server.url().replace("127.0.0.1", "many.example"))
    assert (response.body, response.ip) == (b"ok", "127.0.0.1")


async def test_all_addresses_that_failed_are_named(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, "127.0.0.7", "127.0.0.8")
    async with serve(replies(b"ok"), host="127.0.0.1") as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", "many.example"))
    assert_fit(failed, FailureKind.CONNECT, r"^connection refused \(127\.0\.0\.7:\d+, 127\.0\.0\.8:\d+\)$")


@pytest.mark.case("C17")
async def test_what_was_checked_is_connected_to_whatever_the_name_says_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is checked and loopback when it is asked again."""
    answers = iter(["203.0.114.1", "127.0.0.1"])
    asked: list[str] = []
    connected: list[str] = []

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET, 1, 6, "", (next(answers), 0))]

    async def start_connection(addr_infos: list[tuple[object, ...]], **_: object) -> socket.socket:
        connected.extend(str(info[4][0]) for info in addr_infos)  # type: ignore[index]
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr("crawler.lookup.socket.getaddrinfo", getaddrinfo)
    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", start_connection)
    async with Fetcher("tester/1.0") as fetcher:
        assert (await failure(fetcher, "http://rebind.example/")).kind == FailureKind.CONNECT
    assert (asked, connected) == (["rebind.example"], ["203.0.114.1"])


async def test_names_are_looked_up_once_for_a_while(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(monkeypatch, "127.0.0.1")
    async with serve(replies(b"ok"), host="127.0.0.1") as server:
        url = server.url().replace("127.0.0.1", "{}.example")
        await asyncio.gather(*(fetcher.get(url.format("one")) for _ in range(20)))
        for name in ("one", "two", "one"):
            await fetcher.get(url.format(name))
    assert sorted(asked) == ["one.example", "two.example"]


@pytest.mark.case("H04")
async def test_the_names_kept_are_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.connection.DNS_ENTRIES", 5)
    async with Fetcher("tester/1.0", allow_private=True) as fetcher:
        resolving(monkeypatch, "127.0.0.1")
        async with serve(replies(b"ok"), host="127.0.0.1") as server:
            for number in range(12):
                await fetcher.get(server.url().replace("127.0.0.1", f"n{number}.example"))
        assert fetcher._client is not None
        connector = fetcher._client._connector
        assert len(connector._cached_hosts._addrs_rr) == 5
        assert connector._cached_hosts._ttl == 300


async def test_ipv6_addresses_are_asked_for_as_they_are_written(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok"), host="::1") as server:
        response = await fetcher.get(server.url("/p"))
    assert (response.ip, response.body) == ("::1", b"ok")
    assert f"Host: {server.address.removeprefix('http://')}\r\n".encode() in server.requests[0]
