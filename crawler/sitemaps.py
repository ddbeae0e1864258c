"""The sitemaps that robots.txt names, read once for the whole fleet.

The first page of an origin to end its visit is elected, by a fact on the state, to read the origin's sitemaps: it
stays in flight until that is done, though its own record and links are written at once. So the crawl cannot be complete
before, and only who has that page's lease reads. Should the worker die, the page comes back, and whoever gets it goes
on: files that were finished are facts too and are passed over; adding a URL twice does no harm, and as the parent is
the same page, a URL that was recorded without being queued is queued then. Nobody else waits.

A sitemap is asked for like a page, in its host's turn and at a checked address, but not whether robots.txt permits
it: it was robots.txt that named it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from weakref import WeakValueDictionary

import msgspec

from crawler import retry, urls
from crawler.directives import directives
from crawler.errors import CrawlerError, FailureKind, FetchFailure
from crawler.fetch import Fetcher
from crawler.fetched import Link, ParsedPage, Response
from crawler.flights import Flights
from crawler.gate import void
from crawler.model import CrawlRecord, Lease, Why
from crawler.parser import Parser
from crawler.patience import patiently
from crawler.redirect import REDIRECTS, redirect_target
from crawler.robots_fetch import PATH
from crawler.sitemap import GZIP, MAX_SIZE, Listing
from crawler.state.port import CrawlState
from crawler.url_key import keys_of

log = logging.getLogger(__name__)

KEPT = 30 * 24 * 3600.0
"""Seconds for which it is remembered who reads an origin's sitemaps, and what was read."""

PARSE_TIMEOUT = 30.0
"""Seconds for parsing one file; an honest one of the largest size takes a few."""

SMALL = 256 * 1024
"""Bytes of a file, not compressed, that is parsed like a page: most sitemaps, in a few milliseconds."""

ATTEMPTS = 3
"""Requests for one file before it is given up."""

MOST_HOPS = 5
"""Redirects followed for one file."""

LEVELS = 3
"""How many indexes lead to a file, at most."""

MOST_FILES = 500
"""Files read for one origin."""

BATCH = 500
"""URLs added at a time."""

MOST_TIME = 3600.0
"""Seconds after which a reader begins no other file: the page comes again, for no queue lets a message be held for
ever (12 hours on SQS)."""

ROOM = 5.0
"""Seconds between two looks whether a crawl with a limit of pages has use for more URLs, or is paused."""

AT_ONCE = 4
"""Files fetched and parsed by one process at a time: each may take a few times its size in memory."""

MOST_ORIGINS = 50_000
"""Origins of which one crawl remembers in memory who reads their sitemaps."""

Add = Callable[[Sequence[Link], bool], Awaitable[None]]
"""Takes a batch of listed URLs; with True what came so far is durable when it returns."""


class Unavailable(CrawlerError):
    """A file that cannot be had, or is no sitemap."""


class Stopping(Exception):
    """The worker is stopping: what is not finished is left to the page's next lease."""


class Sitemaps:
    """Sitemaps for one crawl in one process. `pause(until)` waits and says False when the process is stopping. `pages`
    parses small files, so that most processes need no other parser."""

    def __init__(
        self,
        state: CrawlState,
        record: CrawlRecord,
        fetcher: Fetcher,
        parser: Parser,
        flights: Flights,
        pause: Callable[[float], Awaitable[bool]],
        pages: Parser | None = None,
    ) -> None:
        self._state, self._record, self._settings = state, record, record.settings
        self._pages = pages or parser
        self._fetcher, self._parser, self._flights, self._pause = fetcher, parser, flights, pause
        self.keys = keys_of(self._settings)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._cap = self._settings.in_flight_per_host if self._settings.rate else 0
        # A crawl begun anew under an old name finds nothing of the old one.
        self._crawl = f"{record.id}:{round(record.started_at * 1_000_000)}"
        self._asleep, self._look_at = False, 0.0
        self._elected: dict[str, bytes] = {}
        self._electing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def falls_to(self, lease: Lease) -> bool:
        """Whether it is for this page to read its origin's sitemaps, and that is still to be done. Whoever asks first
        is elected. Raises the state's errors."""
        origin = urls.origin(lease.url)
        if origin not in self._elected:
            # Pages of one process wait for each other: each that asked by itself would be a request.
            async with self._electing.setdefault(origin, asyncio.Lock()):
                if origin not in self._elected:
                    await self._elect(origin, lease)
        elected = self._elected.get(origin)
        return elected == lease.digest and await self._state.recall([self._done(origin)]) == [None]

    async def _elect(self, origin: str, lease: Lease) -> None:
        name = f"sitemaps:{self._crawl}:{origin}"
        if await self._state.remember(name, lease.digest, KEPT, if_absent=True):
            elected = lease.digest
        else:
            elected = (await self._state.recall([name]))[0] or lease.digest
        if len(self._elected) >= MOST_ORIGINS:
            self._elected.clear()
        self._elected[origin] = elected

    async def read(self, lease: Lease, named: Iterable[str], add: Add) -> bool:
        """Read the sitemaps that the robots.txt of a page's origin names; False when the process stops before the end,
        or the crawl is paused.

        What cannot be had is counted and told in one line. Raises UsageError when the crawl is gone.
        """
        origin = urls.origin(lease.url)
        walk = Walk(self, add, remembered=self._crawl, seconds=MOST_TIME)
        walk.known.add(self.keys.digest(f"{origin}{PATH}"))
        try:
            for written in itertools.islice(named, MOST_FILES):
                if url := urls.resolve(written, f"{origin}{PATH}"):
                    await walk.file(url)
        except Stopping:
            return False
        await self.remember(self._done(origin))
        if walk.files:
            log.log(logging.WARNING if walk.errors else logging.INFO, "sitemaps of %s: %s", origin, walk.summary())
        return True

    async def page(self, response: Response, x_robots: Sequence[str], *, feeds: bool) -> ParsedPage | None:
        """A page that is a sitemap, and with `feeds` one that is a feed: what it lists are its links. None when it is
        none, or cannot be parsed."""
        listing = await self.parse(response)
        if listing.kind not in (("urlset", "sitemapindex", "rss", "atom") if feeds else ("urlset", "sitemapindex")):
            return None
        return ParsedPage(
            links=(*listing.links, *(Link(url, self.keys.digest(url)) for url in listing.sitemaps)),
            links_found=len(listing.links) + len(listing.sitemaps),
            bad_links=listing.damaged,
            noindex=directives(x_robots, self._settings.product_token)[0],
        )

    def _done(self, origin: str) -> str:
        return f"sitemaps-read:{self._crawl}:{origin}"

    async def needed(self) -> bool:
        """Whether the crawl still has use for URLs: False once its time or its pages are used up. While more pages wait
        than its limit has room for, others would only be skipped: that is waited for. Raises Stopping."""
        ends = self._record.started_at + self._settings.max_time if self._settings.max_time else math.inf
        limit, done = self._settings.max_pages, -1
        while time.time() < ends:
            if limit is None:
                return True
            counts = await patiently(lambda: self._state.counts(self._record.id))
            if counts.pending < limit - counts.done:
                return True
            # Pages that read sitemaps take room themselves: the last ones that it has wait for nothing but each other.
            if counts.done >= limit or (counts.done == done and counts.done + counts.leased >= limit):
                return False
            done = counts.done
            await self._until(time.time() + ROOM)
        return False

    async def paused(self) -> bool:
        """Whether the crawl is paused, as was seen at most ROOM seconds ago."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + ROOM
            records = await patiently(self._state.crawls)
            self._asleep = any(record.paused for record in records if record.id == self._record.id)
        return self._asleep

    async def finished(self, name: str) -> bool:
        """Whether a fact says that something was read."""
        return (await patiently(lambda: self._state.recall([name])))[0] is not None

    async def remember(self, name: str) -> None:
        """Tell the fleet that something was read."""
        await patiently(lambda: self._state.remember(name, b"1", KEPT))

    # ---------------------------------------------------------------- one file

    async def get(self, url: str) -> Listing:
        """Fetch and parse a file. Raises Unavailable, and Stopping."""
        for attempt in itertools.count(1):
            wait = None
            try:
                response, listing = await self._follow(url)
            except FetchFailure as failure:
                if failure.kind in (FailureKind.PRIVATE, FailureKind.URL) or attempt == ATTEMPTS:
                    raise Unavailable(str(failure)) from None
                kind: str = failure.kind
            else:
                kind = str(response.status)
                if response.truncated in ("disconnect", "time") and attempt < ATTEMPTS:
                    kind = FailureKind.RESET
                elif listing is not None:
                    return _checked(listing)
                elif attempt == ATTEMPTS or not (response.status == 429 or response.status >= 500):
                    raise Unavailable(f"HTTP {response.status} {response.reason}".rstrip())
                else:
                    wait = await self._asked(response)
            if wait is None:
                wait = retry.backoff(kind, attempt, jitter=random.random())  # noqa: S311 - no secret
            await self._until(time.time() + wait)
        raise AssertionError("the last attempt returns or raises")

    async def parse(self, response: Response) -> Listing:
        """What the body of an answer lists."""
        small = len(response.body) <= SMALL and not response.body.startswith(GZIP)
        parser = self._pages if small else self._parser
        return await parser.listing(response.url, response.body, self.keys)

    async def _asked(self, response: Response) -> float | None:
        """Seconds that an answer asks to be left alone; the whole fleet obeys."""
        now = time.time()
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
        if wait and response.status in (429, 503):
            gate = urls.gate_name(urls.hostname(response.url), self._settings.pace_by)
            await patiently(lambda: self._state.hold(gate, until=now + wait, why=Why.RETRY_AFTER))
        return wait

    async def _follow(self, url: str) -> tuple[Response, Listing | None]:
        """The answer at the end of the redirects, and what it lists. Raises FetchFailure."""
        answer = await self._request(url)
        for _ in range(MOST_HOPS):
            if answer[0].status not in REDIRECTS or (target := redirect_target(answer[0])) is None:
                break
            answer = await self._request(target)
        return answer

    async def _request(self, url: str) -> tuple[Response, Listing | None]:
        """One request, in its host's turn: the answer without its body, and what that lists if the status is 2xx."""
        gate = urls.gate_name(urls.hostname(url), self._settings.pace_by)
        interval = self._settings.interval
        start = await self._turn(gate)
        while True:
            await self._until(start)
            async with self._flights.slot(gate, self._cap), self._slots:
                if void(start, interval, time.time()):
                    start = await self._turn(gate)
                    if start > time.time():
                        continue
                async with self._flights.request(gate, start, interval):
                    response = await self._fetcher.get(url, max_body=MAX_SIZE, extra=True)
                listing = await self.parse(response) if 200 <= response.status < 300 else None
                return msgspec.structs.replace(response, stored=b"", body=b""), listing

    async def _turn(self, gate: str) -> float:
        return await patiently(lambda: self._state.turn(self._record.id, gate))

    async def _until(self, at: float) -> None:
        if not await self._pause(at):
            raise Stopping


def _checked(listing: Listing) -> Listing:
    if listing.failed:
        raise Unavailable(f"it cannot be parsed: {listing.failed}")
    if not listing.kind:
        raise Unavailable("it is no sitemap")
    return listing


class Walk:
    """A walk through sitemaps and what their indexes list, each file once.

    remembered: under which name finished files are facts, and then no more is read than the crawl has use for; "": no
    worker takes from what is found meanwhile, so neither is done. seconds: after these it ends with
    Stopping. known: digests of files.
    """

    def __init__(self, sitemaps: Sitemaps, add: Add, remembered: str = "", seconds: float = math.inf) -> None:
        self.known: set[bytes] = set()
        self.files = self.urls = self.damaged = self.beyond = self.unread = 0
        self.errors: list[str] = []
        self._sitemaps, self._add, self._remembered = sitemaps, add, remembered
        self._ends, self._needed = time.monotonic() + seconds, True

    async def file(self, url: str, level: int = 0) -> None:
        """Read a file, unless it was, and what it lists. If the process dies in here, the file is read again."""
        digest = self._sitemaps.keys.digest(url)
        if digest in self.known:
            return
        self._needed = self._needed and (not self._remembered or await self._sitemaps.needed())
        if level > LEVELS or self.files >= MOST_FILES or not self._needed:
            self.unread += 1
            return
        if time.monotonic() > self._ends or (self._remembered and await self._sitemaps.paused()):
            raise Stopping
        self.known.add(digest)
        name = f"sitemap:{self._remembered}:{digest.hex()}"
        if self._remembered and await self._sitemaps.finished(name):
            return
        self.files += 1
        try:
            listing = await self._sitemaps.get(url)
        except Unavailable as error:
            self.errors.append(f"{url}: {error}")
        else:
            await self.listed(listing, level)
        # Only now: an index is finished when all that it lists is.
        if self._remembered:
            await self._sitemaps.remember(name)

    async def listed(self, listing: Listing, level: int = 0) -> None:
        """Add what a file lists, and read what an index lists."""
        self.urls += len(listing.links)
        self.damaged += listing.damaged
        self.beyond += listing.beyond
        for start in range(0, len(listing.links), BATCH):
            last = start + BATCH >= len(listing.links)
            await self._add(listing.links[start : start + BATCH], last)
        files = listing.sitemaps
        del listing  # its URLs are not kept while others are read
        for url in files:
            await self.file(url, level + 1)

    def summary(self) -> str:
        """One line: what was read, and what not."""
        parts = [f"{self.urls} URLs in {self.files} files"]
        if self.errors:
            parts.append(f"{len(self.errors)} files cannot be had, the first: {self.errors[0]}")
        if self.damaged or self.beyond:
            parts.append(f"{self.damaged} damaged entries, {self.beyond} beyond the limit of a file")
        if self.unread:
            parts.append(
                f"{self.unread} files left out, beyond {MOST_FILES} files, {LEVELS} levels or the crawl's limits"
            )
        return "; ".join(parts)
