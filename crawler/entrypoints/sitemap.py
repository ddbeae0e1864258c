"""`--sitemap URL`: what a sitemap lists is added to a crawl by the command itself, as pages of depth 1."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from crawler import traps, urls
from crawler.discover import Filters, ScopeCheck, seed_page
from crawler.entrypoints.identity import worker_name
from crawler.errors import UsageError
from crawler.fetch import Fetcher
from crawler.fetched import Link
from crawler.flights import Flights
from crawler.model import Added, CrawlRecord, Page
from crawler.parser import Parser
from crawler.robots_fact import Unreachable
from crawler.robots_keeper import RobotsKeeper
from crawler.sitemap import MAX_SIZE, Listing
from crawler.sitemaps import PARSE_TIMEOUT, Sitemaps, Unavailable, Walk
from crawler.state.port import CrawlState


class Listed(msgspec.Struct):
    """What became of the URLs of one sitemap and of those it leads to. `filtered`: they did not pass scope, filters or
    limits. `unread`: files that could not be had, or were beyond the limits."""

    url: str
    new: int = 0
    known: int = 0
    filtered: int = 0
    damaged: int = 0
    unread: int = 0

    def line(self) -> str:
        """For a person."""
        text = f"{self.url}: {self.new} URLs new, {self.known} known already, {self.filtered} filtered"
        text += f", {self.damaged} damaged" if self.damaged else ""
        return text + (f", {self.unread} files not read" if self.unread else "")


class GivenSitemaps:
    """Sitemaps that a user named, fetched already; `add` adds what they list."""

    def __init__(
        self, state: CrawlState, record: CrawlRecord, sitemaps: Sitemaps, fetched: Sequence[tuple[str, Listing]]
    ) -> None:
        self._state, self._record, self._sitemaps, self._fetched = state, record, sitemaps, fetched
        self._scope = ScopeCheck(state, record.id, record.settings)
        self._filters = Filters(record.settings)

    async def add(self, say: Callable[[str], None]) -> list[Listed]:
        """Add the URLs of all of them, and of what their indexes list; `say` tells about each."""
        every = []
        for url, listing in self._fetched:
            listed = Listed(url)
            home = self._site(url)

            async def add(links: Sequence[Link], _: bool, listed: Listed = listed, home: str = home) -> None:
                await self._add(links, home, listed)

            walk = Walk(self._sitemaps, add)
            walk.known.add(self._sitemaps.keys.digest(url))
            await walk.listed(listing)
            listed.damaged = walk.damaged
            listed.filtered += walk.beyond
            listed.unread = len(walk.errors) + walk.unread
            say(listed.line())
            every.append(listed)
        return every

    async def _add(self, links: Sequence[Link], home: str, listed: Listed) -> None:
        await self._scope.prepare(self._site(link.url) for link in links)
        pages = [page for link in links if (page := self._page(link.url, home)) is not None]
        answers = await self._state.add(self._record.id, pages) if pages else []
        new = answers.count(Added.NEW)
        listed.new += new
        listed.known += len(pages) - new
        listed.filtered += len(links) - len(pages)

    def _page(self, url: str, home: str) -> Page | None:
        """The page for a listed URL, without a parent: its site is in scope, or the sitemap's own. None: filtered."""
        settings, site = self._record.settings, self._site(url)
        if settings.max_depth == 0 or urls.too_long(url) or not self._filters.allow(url):
            return None
        if site != home and not self._scope.inside(site):
            return None
        if traps.trap(url, 1, url, "", time.gmtime().tm_year, self._sitemaps.keys):
            return None
        return seed_page(url, settings, depth=1)

    def _site(self, url: str) -> str:
        return urls.site_name(urls.hostname(url), self._record.settings.scope)


@asynccontextmanager
async def given_sitemaps(state: CrawlState, record: CrawlRecord, given: Sequence[str]) -> AsyncIterator[GivenSitemaps]:
    """Fetch the sitemaps that a user named, robots.txt first and in turn. Raises UsageError when one cannot be had;
    then nothing was added."""
    settings = record.settings
    parser = Parser(PARSE_TIMEOUT, MAX_SIZE)
    flights = Flights(state)
    fetcher = Fetcher(settings.user_agent, settings.contact, settings.allow_private, settings.max_body)
    await fetcher.start()
    robots = RobotsKeeper(state, fetcher, record.id, settings, worker_name())
    sitemaps = Sitemaps(state, record, fetcher, parser, flights, _wait)
    try:
        fetched = []
        for text in given:
            url = urls.resolve(text, text)
            if url is None:
                raise UsageError(f"--sitemap {text!r} is no URL: write for example https://example.com/sitemap.xml")
            try:
                await _permitted(state, record, robots, url)
                fetched.append((url, await sitemaps.get(url)))
            except Unavailable as error:
                raise UsageError(f"--sitemap {url}: {error}") from None
        yield GivenSitemaps(state, record, sitemaps, fetched)
    finally:
        await robots.close()
        await flights.close()
        await fetcher.close()
        await parser.close()


async def _permitted(state: CrawlState, record: CrawlRecord, robots: RobotsKeeper, url: str) -> None:
    """Ask for robots.txt before anything else of the host. One that names the sitemap permits it."""
    gate = urls.gate_name(urls.hostname(url), record.settings.pace_by)
    rules, _ = await robots.rules(url, gate, await state.turn(record.id, gate))
    while isinstance(rules, Unreachable) and not rules.streak:
        # On its way: this command has nothing else to do.
        await _wait(rules.until)
        rules, _ = await robots.rules(url, gate, time.time())
    if isinstance(rules, Unreachable):
        raise Unavailable(f"robots.txt: {rules.error}")
    if not rules.allowed(url) and url not in {urls.resolve(each, url) for each in rules.sitemaps}:
        raise Unavailable("robots.txt forbids it")


async def _wait(until: float) -> bool:
    await asyncio.sleep(max(until - time.time(), 0.0))
    return True
