"""What a worker keeps for each crawl it works on: fetcher, robots, discoverer, archive. Made at the first lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time

from crawler import retry
from crawler.archive.archive import Archive
from crawler.archive.stores import Store, open_store
from crawler.chain import Chains
from crawler.discover import Discoverer, SeenCache
from crawler.errors import CannotServe, StoreUnavailable, UsageError
from crawler.extractor import Extractor
from crawler.fetch import Fetcher
from crawler.flights import Flights
from crawler.hosts import Hosts
from crawler.model import CrawlRecord, Lease, Verdict, dead
from crawler.model import retry as try_again
from crawler.parser import Parser
from crawler.patience import patiently
from crawler.revisit import Revisits
from crawler.robots_keeper import RobotsKeeper
from crawler.sessions import Sessions
from crawler.settle import Ledgers
from crawler.sitemap import MAX_SIZE
from crawler.sitemaps import PARSE_TIMEOUT, Sitemaps
from crawler.state.port import CrawlState
from crawler.telemetry.counters import Counters
from crawler.visit import Visitor, pause_until

log = logging.getLogger(__name__)

REFRESH = 20.0
"""Seconds after which a crawl's record is read again: amended settings reach every worker within half a minute."""


REFUSED = 60.0
"""Seconds after which a function that could not be imported is tried again."""


class Context:
    """One crawl in one worker."""

    def __init__(
        self,
        record: CrawlRecord,
        visitor: Visitor,
        ledgers: Ledgers,
        robots: RobotsKeeper,
        fetcher: Fetcher,
        revisits: Revisits | None,
    ) -> None:
        self.record, self.visitor, self.ledgers = record, visitor, ledgers
        self.robots, self.fetcher, self.revisits = robots, fetcher, revisits
        self.read()

    def read(self) -> None:
        """The record was read just now."""
        self._read_at = time.monotonic(), time.time()

    @property
    def old(self) -> bool:
        """Whether the record should be read again. While a function is frozen its monotonic clock may stand still; the
        other one may jump."""
        return max(time.monotonic() - self._read_at[0], time.time() - self._read_at[1]) > REFRESH


class Contexts:
    """The contexts of a worker, by crawl. `longest`: seconds that no request of it outlasts."""

    def __init__(
        self,
        state: CrawlState,
        store: str,
        worker: str,
        parser: Parser,
        counters: Counters,
        stopping: asyncio.Event,
        longest: float,
    ) -> None:
        self._state, self._store, self._worker, self._parser, self._stopping = state, store, worker, parser, stopping
        self._longest = longest
        self._counters, self.hosts, self._flights = counters, Hosts(state), Flights(state)
        # A child of their own: a large sitemap keeps no page waiting. There is none until the first of these.
        self._lists = Parser(PARSE_TIMEOUT, MAX_SIZE)
        self._extractors: dict[str, Extractor] = {}
        self._refused: dict[str, tuple[float, str]] = {}
        self._contexts: dict[str, Context] = {}
        self._stores: dict[str, Store] = {}
        self._retired: list[Context] = []
        self._making = asyncio.Lock()

    async def visitor(self, crawl: str) -> Visitor:
        """The visitor of a crawl, with settings not older than half a minute. Raises CannotServe."""
        context = self._contexts.get(crawl)
        if context is None or context.old:
            async with self._making:
                context = self._contexts.get(crawl)
                if context is None or context.old:
                    context = await self._read(crawl, context)
        return context.visitor

    def ledgers(self, crawl: str) -> Ledgers:
        """Where a crawl's endings go. Its context exists: a visit to one of its pages has finished."""
        return self._contexts[crawl].ledgers

    @property
    def interval(self) -> float:
        """The shortest interval between turns of the crawls worked on, in seconds; infinite where none is paced."""
        return min((c.record.settings.interval or math.inf for c in self._contexts.values()), default=math.inf)

    def fault(self, lease: Lease, error: Exception) -> Verdict:
        """The verdict for a page at which this program failed."""
        text = f"internal fault: {type(error).__name__}: {error}"
        context = self._contexts.get(lease.crawl)
        if context is not None and lease.attempt >= context.record.settings.max_attempts:
            return dead("fault", text)
        return try_again(time.time() + retry.backoff("fault", lease.attempt, jitter=0.0), "fault", text)

    @property
    def loading(self) -> bool:
        """Whether a robots.txt is on its way."""
        return any(context.robots.loading for context in self._contexts.values())

    async def rest(self, seconds: float) -> None:
        """Leave nothing running: what is to be told of requests that ended is told, what is on its way is given up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._flights.close()
        for context in [*self._retired, *self._contexts.values()]:
            await context.robots.close()

    async def close(self, seconds: float) -> None:
        """Close archives (what they hold is durable and named) and connections.

        An archive that its store does not let close within `seconds` stays as after a kill: what was acknowledged is
        durable, and the next worker, merge or verify closes it.
        """
        every = [*self._retired, *self._contexts.values()]
        archives = {id(context.ledgers.archive): context.ledgers.archive for context in every}
        closing = [self._flights.close(), *(patiently(archive.close) for archive in archives.values())]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*closing)
        except TimeoutError:
            log.warning("the archive could not be closed; the next worker, `merge` or `verify` does it")
        for context in every:
            await context.robots.close()
            await context.fetcher.close()
            if context.revisits is not None:
                await context.revisits.close()
        for near in {context.ledgers.discoverer.near for context in every}:
            if near is not None and near.pages:
                log.warning(
                    "%d links of %d near duplicates were not followed (near_duplicate_of in their rows)",
                    near.links,
                    near.pages,
                )
        for extractor in self._extractors.values():
            await extractor.close()
        await self._lists.close()

    async def _read(self, crawl: str, old: Context | None) -> Context:
        """Read the crawl's record; make a context, or follow amended settings with the archive kept open."""
        record = next((record for record in await self._state.crawls() if record.id == crawl), None)
        if record is None:
            raise UsageError(f"there is no crawl {crawl!r} any more")
        if old is not None and old.record.started_at != record.started_at:
            # Purged, and begun anew under the same name: nothing of the old one holds.
            self._retired.append(self._contexts.pop(crawl))
            old = None
        if old is not None and old.record.settings == record.settings:
            old.read()
            return old
        settings = record.settings
        # What may fail comes before what would have to be closed then.
        extractor = await self._extractor(settings.extract) if settings.extract else None
        archive = old.ledgers.archive if old else await Archive.open(self._store_of(record), record, self._worker)
        if old is not None and old.record.settings.from_crawl == settings.from_crawl:
            revisits = old.revisits
        else:
            revisits = await self._revisits(record)
        fetcher = Fetcher(
            user_agent=settings.user_agent,
            contact=settings.contact,
            allow_private=settings.allow_private,
            max_body=settings.max_body,
            concurrency=settings.concurrency,
            longest=self._longest,
        )
        await fetcher.start()
        seen = old.ledgers.discoverer.seen if old else SeenCache()
        robots = RobotsKeeper(self._state, fetcher, crawl, settings, self._worker)
        discoverer = Discoverer(self._state, crawl, settings, seen, robots)
        if old is not None:
            discoverer.traps = old.ledgers.discoverer.traps
            discoverer.near = old.ledgers.discoverer.near

        async def pause(until: float) -> bool:
            return await pause_until(until, self._stopping)

        chains = Chains(self._state, record, Sessions(self._state, record))
        visitor = Visitor(
            self._state,
            crawl,
            settings,
            fetcher,
            robots,
            discoverer,
            self._parser,
            extractor,
            self.hosts,
            self._flights,
            chains,
            revisits,
            Sitemaps(self._state, record, fetcher, self._lists, self._flights, pause, self._parser),
            pause,
            self._counters.answered,
        )
        if old is not None:
            ledgers = old.ledgers
            ledgers.discoverer = discoverer
            self._retired.append(old)
        else:
            ledgers = Ledgers(crawl, archive, discoverer)
        context = self._contexts[crawl] = Context(record, visitor, ledgers, robots, fetcher, revisits)
        return context

    async def _extractor(self, spec: str) -> Extractor:
        """The process that calls a user's function. Raises CannotServe: rows without its result are not wanted."""
        if spec in self._extractors:
            return self._extractors[spec]
        until, text = self._refused.get(spec, (0.0, ""))
        if time.monotonic() < until:
            raise CannotServe(text)
        extractor = Extractor(spec)
        try:
            await extractor.start()
        except UsageError as error:
            await extractor.close()
            self._refused[spec] = time.monotonic() + REFUSED, str(error)
            log.error("pages are left to other workers: %s", error)
            raise CannotServe(str(error)) from None
        self._extractors[spec] = extractor
        return extractor

    async def _revisits(self, record: CrawlRecord) -> Revisits | None:
        """What the crawl's earlier crawl knows; None without one, or when it is there no more."""
        wanted = record.settings.from_crawl
        if wanted is None:
            return None
        earlier = next((crawl for crawl in await self._state.crawls() if crawl.id == wanted), None)
        if earlier is None:
            log.warning("every page is fetched as if new: crawl %s is not on this state any more", wanted)
            return None
        return await Revisits.open(self._store_of(record), earlier, record.settings.max_body)

    def _store_of(self, record: CrawlRecord) -> Store:
        address = self._store or record.store or self._state.home
        if not address:
            raise StoreUnavailable(f"crawl {record.id} names no store: start the worker with --store")
        return self._stores.setdefault(address, open_store(address))
