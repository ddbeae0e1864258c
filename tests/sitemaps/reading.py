"""Sitemaps read by one worker on a state, without a crawl around it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.fetch import Fetcher
from crawler.fetched import Link
from crawler.flights import Flights
from crawler.model import CrawlRecord, Lease
from crawler.parser import Parser
from crawler.sitemaps import Sitemaps
from crawler.state.port import CrawlState
from crawler.state.sqlite import SqliteState
from tests.servers import Peer, Script, Server, reply

CRAWL = "crawl-1"

Answers = dict[str, bytes | list[bytes]]
"""Replies by path; of several each once, the last one for ever. What is not there is a 404."""


def site(answers: Answers) -> Script:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            path = head.split(b" ", 2)[1].decode()
            answer = answers.get(path, reply(b"", status="404 Not Found"))
            if isinstance(answer, list):
                answer = answer[0] if len(answer) == 1 else answer.pop(0)
            await peer.send(answer)

    return script


def urlset(*urls: str) -> bytes:
    return f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in urls)}</urlset>".encode()


def index(*urls: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


class Reader:
    """A worker that reads sitemaps. `found` are the URLs listed, in order; `waits` are the times waited for, which pass
    at once; `stopping` ends it at the next wait."""

    def __init__(self, state: CrawlState, record: CrawlRecord, fetcher: Fetcher, parser: Parser) -> None:
        self.found: list[str] = []
        self.waits: list[float] = []
        self.stopping = False
        self.state = state
        self.sitemaps = Sitemaps(state, record, fetcher, parser, Flights(state), self._pause)

    async def read(self, server: Server, *named: str, lease: Lease | None = None) -> bool:
        """Read what the robots.txt of a server names."""
        lease = lease or await page(self.state, server)
        return await self.sitemaps.read(lease, named, self._add)

    async def _add(self, links: Sequence[Link], durable: bool) -> None:
        self.found += [link.url for link in links]

    async def _pause(self, until: float) -> bool:
        wait = until - time.time()
        if wait > 0:
            self.waits.append(wait)
        return not self.stopping


@asynccontextmanager
async def reader(
    path: Path | str, *, wrap: Callable[[CrawlState], CrawlState] | None = None, **given: Any
) -> AsyncIterator[Reader]:
    """A reader on the state at a path."""
    settings = CrawlSettings(**{"rate": 0.0, "allow_private": True, "user_agent": "ExampleBot/1.0", **given})
    state = await SqliteState.open(str(path), worker="w", create=True)
    record = await state.create(CrawlRecord(id=CRAWL, started_at=time.time(), settings=settings))
    parser = Parser(30.0, 50 * 1024 * 1024)
    try:
        async with Fetcher(settings.user_agent, allow_private=settings.allow_private) as fetcher:
            yield Reader(wrap(state) if wrap else state, record, fetcher, parser)
    finally:
        await parser.close()
        await state.close()


async def page(state: CrawlState, server: Server, path: str = "/") -> Lease:
    """The lease of a page of a server."""
    seed = seed_page(server.url(path), CrawlSettings())
    assert seed is not None
    await state.add(CRAWL, [seed])
    leases = await state.claim(1, CRAWL)
    assert [lease.url for lease in leases] == [seed.url]
    return leases[0]
