"""Hosts that are slow, busy or gone: what the fleet does to them, and what becomes of their pages."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from pathlib import Path

import pytest

from crawler import health, retry
from crawler.model import HOST_DOWN
from tests.faults.crawls import CRAWL, counts, seeded, state_in
from tests.manners.crawls import HTML, NO_RULES, crawled, site, work, working
from tests.servers import Peer, reply, serve


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A breaker in short: parked for a moment, and given up after six failures."""
    monkeypatch.setattr(health, "PARKED", 0.05)
    monkeypatch.setattr(health, "GIVE_UP", 6)


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


@pytest.mark.case("F15")
async def test_a_host_that_is_gone_is_given_up_and_its_pages_are_dead_letters(
    soon: None, nobody: str, tmp_path: Path
) -> None:
    pages = [f"{nobody}/{number}" for number in range(300)]
    await seeded(tmp_path, pages, rate=20.0, ignore_robots=True, max_attempts=2)
    await work(tmp_path)
    ledger = await counts(tmp_path)
    assert (ledger.discovered, ledger.dead, ledger.outstanding) == (300, 300, 0)
    assert ledger.deaths[HOST_DOWN] >= 290, "hardly a page cost a connection of its own"
    async with state_in(tmp_path, "reader") as state:
        errors = {page.error async for page in state.ledger(CRAWL) if page.reason == HOST_DOWN}
    assert all("failures in a row, the last: " in error for error in errors), errors


async def test_a_host_without_robots_txt_to_be_had_is_given_up(soon: None, nobody: str, tmp_path: Path) -> None:
    pages = [f"{nobody}/{number}" for number in range(100)]
    await seeded(tmp_path, pages, rate=20.0, max_attempts=1)
    await work(tmp_path)
    ledger = await counts(tmp_path)
    assert (ledger.dead, ledger.outstanding) == (100, 0)
    assert ledger.deaths[HOST_DOWN] >= 90


async def test_a_host_that_is_gone_does_not_hold_up_the_others(nobody: str, tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            await peer.send(NO_RULES if b"/robots.txt" in head else reply(b"leaf", HTML))
            if len(peer.server.requests) == 30:
                asked.set()

    async with serve(script) as server:
        gone = [f"{nobody.replace('127.0.0.1', 'localhost')}/{number}" for number in range(100)]
        here = [server.url(f"/{number}") for number in range(30)]
        await seeded(tmp_path, gone + here, rate=50.0, ignore_robots=True)
        async with working(tmp_path), asyncio.timeout(30):
            await asked.wait()


@pytest.mark.case("C11")
async def test_too_many_requests_hold_the_host_for_as_long_as_it_asks(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/busy" and server.targets.count("/busy") == 1:
            return reply(b"", "Retry-After: 1", status="429 Too Many Requests")
        return reply(b"leaf", HTML)

    async with serve(site(answer)) as server:
        rows = await crawled(
            tmp_path, server.url("/busy"), *(server.url(f"/{number}") for number in range(10)), rate=20.0
        )
        refused = server.targets.index("/busy")
        later = server.times[refused + 1 :]
        # What was on its way when the answer came may still arrive; after that nobody asks for a second.
        assert [at for at in later if 0.2 < at - server.times[refused] < 0.95] == []
    assert rows[server.url("/busy")]["attempts"] == 2
    assert {row["status"] for row in rows.values()} == {200}


async def test_without_retry_after_the_pauses_grow_and_are_the_host_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[tuple[str, int]] = []

    def backoff(kind: str, attempt: int, *, jitter: float) -> float:
        waits.append((kind, attempt))
        return 0.05

    monkeypatch.setattr(retry, "backoff", backoff)
    monkeypatch.setattr(health, "REFUSALS", 100)

    def answer(target: str, head: bytes) -> bytes:
        return reply(b"", status="503 Service Unavailable")

    async with serve(site(answer)) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(3)], rate=20.0, max_attempts=2)
        await work(tmp_path)
    assert waits == [("503", number) for number in range(1, 7)], "by the host's refusals, not by the page's attempts"
    assert (await counts(tmp_path)).deaths == {"http-503": 3}


async def test_a_slow_host_has_two_requests_in_flight_however_many_are_due(tmp_path: Path) -> None:
    inside = most = 0

    async def script(peer: Peer) -> None:
        nonlocal inside, most
        while head := await peer.request():
            if b"/robots.txt" in head:
                await peer.send(NO_RULES)
                continue
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.5)
            inside -= 1
            await peer.send(reply(b"leaf", HTML))

    async with serve(script) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(12)], rate=20.0)
        await asyncio.gather(*(work(tmp_path, f"w{number}") for number in range(3)))
    assert (await counts(tmp_path)).done == 12
    assert most == 2


async def test_without_a_rate_there_is_no_cap(tmp_path: Path) -> None:
    everyone = asyncio.Barrier(12)

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b"/robots.txt" not in head:
                async with asyncio.timeout(20):
                    await everyone.wait()
            await peer.send(NO_RULES if b"/robots.txt" in head else reply(b"leaf", HTML))

    async with serve(script) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(12)])
        await work(tmp_path)
    assert (await counts(tmp_path)).done == 12


async def test_a_crawl_delay_paces_a_crawl_without_a_rate_from_its_first_page_on(tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            rules = reply(b"User-agent: *\nCrawl-delay: 0.3\n")
            await peer.send(rules if b"/robots.txt" in head else reply(b"leaf", HTML))

    async with serve(script) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(8)])
        await work(tmp_path)
        gaps = [later - earlier for earlier, later in pairwise(server.times)]
    assert (await counts(tmp_path)).done == 8
    # A turn used late may crowd the next one, but they do not add up.
    assert sum(gaps) >= 7 * 0.3
    assert len([gap for gap in gaps if gap < 0.02]) == 0
