"""TLS that fails, and TLS connections that are dropped."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crawler import fetch
from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from tests.fetch.getting import failure
from tests.servers import Peer, replies, serve


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
