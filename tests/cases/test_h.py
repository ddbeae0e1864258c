"""Crawls of many hosts, of much of the same, and of a host that does not come up: what they cost, and that they end."""

from __future__ import annotations

import asyncio
import datetime
import html
import ssl
from collections.abc import Sized
from pathlib import Path

import psutil
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from crawler import connection, discover, hosts, robots_keeper
from crawler.errors import FetchFailure
from crawler.fetch import Fetcher
from crawler.loop import Exit, Worker
from tests import command
from tests.faults.crawls import CRAWL, counts, seeded, state_in
from tests.local_site import demo_site_process
from tests.manners.crawls import HTML, crawled, site, work
from tests.servers import Peer, replies, reply, serve

MIB = 1024 * 1024


def resident() -> int:
    """Bytes of this process in memory."""
    size: int = psutil.Process().memory_info().rss
    return size


@pytest.mark.case("H02")
async def test_a_site_that_echoes_its_query_well_is_finite(tmp_path: Path) -> None:
    """What grows there would be of the crawler's making: escapes escaped again, entities taken for text."""

    def answer(target: str, head: bytes) -> bytes:
        echo = html.escape(target)
        return reply(f'<a href="{echo}">same</a><a href="?&amp;amp;p=2">x</a><a href="?q=%25">y</a>'.encode(), HTML)

    async with serve(site(answer)) as server:
        await crawled(tmp_path, server.url("/?q=%2525"))
    assert sorted(server.targets) == ["/?&amp;p=2", "/?q=%25", "/?q=%2525", "/robots.txt"]


HOSTS, REMEMBERED = 1200, 100


@pytest.mark.case("H03")
async def test_what_is_kept_for_hosts_is_bounded_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limit in ((robots_keeper, "MOST_ORIGINS"), (hosts, "REMEMBERED"), (discover, "SCOPE_LIMIT")):
        monkeypatch.setattr(module, limit, REMEMBERED)
    for limit in ("DNS_ENTRIES", "IDLE_HOSTS"):
        monkeypatch.setattr(connection, limit, REMEMBERED)
    sizes: list[int] = []

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if len(peer.server.requests) % HOSTS == 0:
                sizes.append(resident())
            rules = b"User-agent: *\nDisallow: /private\n" + b"#" * 5000
            await peer.send(reply(rules) if b"/robots.txt" in head else reply(b"<a href=/private>x</a>", HTML))

    async with serve(script) as server:
        await seeded(tmp_path, [server.url().replace("127.0.0.1", f"h{n}.localhost") for n in range(HOSTS)])
        async with state_in(tmp_path, "w") as state:
            worker = Worker(state, str(tmp_path), name="w", until_complete=True)
            assert await worker.run() is Exit.COMPLETE
    ledger = await counts(tmp_path)
    assert (ledger.done, ledger.skips) == (HOSTS, {"robots": HOSTS})
    context = worker._contexts._contexts[CRAWL]
    discoverer = context.visitor._discoverer
    kept: dict[str, Sized] = {
        "rules": context.robots._known,
        "health": worker._contexts.hosts._hosts,
        "scope": discoverer.scope._known,
        "names": discoverer._hosts,
    }
    # Some are emptied whole when they are full, before the next batch of hosts comes in.
    assert {name: len(each) for name, each in kept.items() if len(each) > 3 * REMEMBERED} == {}
    busy: tuple[Sized, ...] = (
        context.robots._loading,
        worker._contexts._flights._gates,
        worker._held,
        worker._tasks,
        worker._reading,
    )
    assert [len(each) for each in busy] == [0] * len(busy)
    # From the 600th host, when all is warm, to the last.
    assert sizes[-1] - sizes[0] < 20 * MIB


TLS_HOSTS, IDLE = 600, 20


def certificate(folder: Path) -> Path:
    """A certificate, with its key, for the names of many hosts on loopback."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("*.many.localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, raw, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / "cert.pem"
    path.write_bytes(made.public_bytes(pem) + key.private_bytes(pem, raw, plain))
    return path


@pytest.mark.case("H04")
async def test_many_tls_hosts_leave_neither_sockets_nor_memory_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=str(path)))
    monkeypatch.setattr(connection, "IDLE_HOSTS", IDLE)
    sockets, sizes = [], []
    async with serve(replies(b"x" * 20_000), tls=context) as server:
        before = psutil.Process().num_fds()
        async with Fetcher("tester/1.0", allow_private=True) as fetcher:
            for first in range(0, TLS_HOSTS, 10):
                urls = [server.url().replace("127.0.0.1", f"h{n}.many.localhost") for n in range(first, first + 10)]
                # Of every other body the rest is never read. The bare address is no name of the certificate.
                cut = await asyncio.gather(*(fetcher.get(url, max_body=1000) for url in urls[::2]))
                whole = await asyncio.gather(*(fetcher.get(url) for url in urls[1::2]))
                assert [len(each.body) for each in (*cut, *whole)] == [1000] * 5 + [20_000] * 5
                with pytest.raises(FetchFailure, match="certificate"):
                    await fetcher.get(server.url())
                sockets.append(psutil.Process().num_fds() - before)
                sizes.append(resident())
        async with asyncio.timeout(10):
            await server.idle.wait()
    # Each connection has an end in this process and one in the server, which is here too.
    assert max(sockets) <= 2 * (IDLE + 10)
    assert sockets[-1] <= sockets[len(sockets) // 3] + 10
    assert sizes[-1] - sizes[len(sizes) // 3] < 24 * MIB


@pytest.mark.case("H05")
@pytest.mark.e2e
def test_what_a_crawl_prints_is_a_few_bytes_a_page(tmp_path: Path) -> None:
    """Robots, redirects, dead letters, duplicates and retries included; as many lines for three times the pages."""
    printed: list[int] = []
    for pages in (150, 450):
        folder = tmp_path / str(pages)
        folder.mkdir()
        with demo_site_process(folder, pages=pages) as demo:
            out = ("--out", str(folder / "out"), "--rate", "0", "--allow-private")
            result = command.run("crawl", *demo.seeds, *out)
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr
        printed.append(len(result.stdout.encode()) + len(result.stderr.encode()))
    assert printed[1] / 450 < 200
    assert printed[1] < printed[0] + 2000


@pytest.mark.case("H06")
async def test_a_host_whose_robots_txt_fails_is_waited_for_as_one_and_no_longer_than_the_crawl_may_last(
    tmp_path: Path,
) -> None:
    """A thousand pages of it cost a request or two, none is handed out meanwhile, and the limit of time ends them."""
    async with serve(replies(b"", status="503 Service Unavailable")) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(1000)], rate=100.0, max_time=7.0)
        working = asyncio.create_task(work(tmp_path))
        async with asyncio.timeout(30):
            await server.asked.wait()
            # The pages that were handed out before the answer came go back, and stay there.
            while (now := await counts(tmp_path)).leased or now.pending < 1000:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)
        assert await working is Exit.COMPLETE
    ledger = await counts(tmp_path)
    assert (ledger.done, ledger.dead, ledger.skips) == (0, 0, {"max-time": 1000})
    assert set(server.targets) == {"/robots.txt"}
    assert len(server.targets) <= 2
