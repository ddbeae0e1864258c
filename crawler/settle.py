"""Batched endings: store the records, add their links, write the rows, make both durable, then settle.

    store records -> add links -> write rows -> flush (durable) -> settle (mark finished, delete the message)

A page whose origin's sitemaps are read is settled when they have been; what they list is added like its links.

Nothing is acknowledged before it is durable. If the process dies between any two of these steps the leases expire,
the pages are fetched again, their links are found again (AGAIN for those this parent had added), and the merge keeps
one row a URL. A skipped link that is not found again gets its row when all has ended (see `archive/rowless.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from crawler import urls
from crawler.archive.archive import Archive, Location
from crawler.archive.rows import PageRow, ended
from crawler.directives import directives
from crawler.discover import Discoverer
from crawler.errors import UsageError
from crawler.fetched import Link, Response, Revisit
from crawler.model import FINISHED, Added, Ending, Lease, Page, Settled, Verdict, defer, done
from crawler.page_fields import canonical, language
from crawler.patience import patiently
from crawler.state.port import CrawlState
from crawler.url_key import Keys
from crawler.visit import Visit

log = logging.getLogger(__name__)

BATCH = 100
"""Visits stored and discovered together."""

GATHER = 0.04
"""Seconds to let a batch gather; far below a page's own latency, far above a batch's overhead."""

FLUSH_SIZE = 64 * 1024 * 1024
"""Unflushed bytes at which a segment is flushed before its time, where a flush costs money."""


DELIVERIES = 2
"""A page that was handed out more often is not left waiting for a flush: where workers die sooner than they flush, none
of their pages would ever end."""


class Listed(msgspec.Struct, gc=False):
    """URLs that sitemaps list, to be added as links of a page at depth 0. `durable`: flush the rows of those skipped.
    `added` is when that is done."""

    lease: Lease
    links: Sequence[Link]
    durable: bool
    added: asyncio.Future[None]


class Read(msgspec.Struct, frozen=True, gc=False):
    """The sitemaps of a page's origin have been read; or not `whole`, and the page is to be handed out again."""

    lease: Lease
    whole: bool


WAITING, WAITING_BYTES = 500, 32 * 1024 * 1024
"""Visits, and bytes of their bodies, that may wait to be written before nothing more is claimed."""


class Ledgers:
    """What one crawl's endings are written to: its archive, and the discoverer that turns links into pages."""

    def __init__(self, crawl: str, archive: Archive, discoverer: Discoverer) -> None:
        self.crawl, self.archive, self.discoverer = crawl, archive, discoverer
        self.unsettled: list[tuple[Lease, Verdict]] = []
        self.reading: dict[str, tuple[Lease, Verdict]] = {}
        """What waits for its sitemaps to be read, by token."""
        self.skipped = False
        """Whether rows of listed URLs that were skipped are not durable yet."""
        self.flushed_at = time.monotonic()
        self.urgent = False
        """Whether a page waits that must not."""

    def flush_due(self, idle: bool) -> bool:
        """Whether to flush now: at once where that is free, nothing else is going on or a page must not wait, else by
        time and size."""
        if not self.unsettled:
            return False
        waited = time.monotonic() - self.flushed_at
        return idle or self.urgent or waited >= self.archive.flush_every or self.archive.size >= FLUSH_SIZE


class Settler:
    """Takes visits from the loop, in batches, through the steps above. One task; `run` until `close`."""

    def __init__(
        self,
        state: CrawlState,
        ledgers: Callable[[str], Ledgers],
        idle: Callable[[], bool],
        on_settled: Callable[[Lease, Verdict, Settled], None],
        on_discovered: Callable[[str], None],
    ) -> None:
        self._state, self._ledgers, self._idle = state, ledgers, idle
        self._on_settled, self._on_discovered = on_settled, on_discovered
        self._queue: asyncio.Queue[Visit | Listed | Read | None] = asyncio.Queue()
        self._open: dict[str, Ledgers] = {}
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether so much waits to be written that nothing more should be begun: while an archive is away, and where
        servers send large bodies, pages pile up in memory."""
        return self._queue.qsize() >= WAITING or self._bytes >= WAITING_BYTES

    def put(self, visit: Visit) -> None:
        """Hand over a visit; its lease is the settler's from here on."""
        self._bytes += _size(visit)
        self._queue.put_nowait(visit)

    async def add(self, lease: Lease, links: Sequence[Link], durable: bool) -> None:
        """Add URLs that the sitemaps of a page's origin list; the page was handed over before, and is not settled.

        Raises UsageError when the crawl is gone.
        """
        added: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(Listed(lease, links, durable, added))
        await added

    def read(self, lease: Lease, *, whole: bool) -> None:
        """Settle a page that was handed over with sitemaps: as it was handed over, or unless `whole` to come again."""
        self._queue.put_nowait(Read(lease, whole))

    async def close(self) -> None:
        """Flush and settle what is left, then let `run` return."""
        self._queue.put_nowait(None)

    async def run(self) -> None:
        last = False
        while not last:
            gathered, last = await self._gather()
            await self._end(gathered)
            del gathered  # its bodies are not to stay while the next batch gathers
            for ledgers in list(self._open.values()):
                if ledgers.flush_due(last or (self._queue.empty() and self._idle())):
                    await self._flush(ledgers)

    async def _end(self, gathered: Sequence[Visit | Listed | Read]) -> None:
        """Write what has finished, and settle what has not."""
        batch = [item for item in gathered if isinstance(item, Visit)]
        # Endings without a row (retry, defer) settle at once, also where no archive could be opened.
        passing = [(v.lease, _passed_on(v)) for v in batch if v.verdict.ending not in FINISHED]
        if passing:
            await self._settle(passing)
        by_crawl: dict[str, list[Visit]] = defaultdict(list)
        for visit in batch:
            if visit.verdict.ending in FINISHED:
                by_crawl[visit.lease.crawl].append(visit)
        for crawl, visits in by_crawl.items():
            ledgers = self._open[crawl] = self._ledgers(crawl)
            try:
                await self._write(ledgers, visits)
            except UsageError as error:
                # The crawl was purged meanwhile: its pages are nobody's, and settling them answers LOST.
                log.info("let %d pages go: %s", len(visits), error)
                await self._settle([(visit.lease, visit.verdict) for visit in visits])
        for item in gathered:
            if not isinstance(item, Visit):
                await self._sitemaps(item)

    async def _gather(self) -> tuple[list[Visit | Listed | Read], bool]:
        """The next batch, and whether it is the last: waits for a first visit (or a flush's time), then a moment."""
        batch: list[Visit | Listed | Read] = []
        try:
            async with asyncio.timeout(self._next_flush()):
                first = await self._queue.get()
        except TimeoutError:
            return batch, False
        if first is not None:
            await asyncio.sleep(GATHER)
        item = first
        while item is not None:
            batch.append(item)
            self._bytes -= _size(item) if isinstance(item, Visit) else 0
            if len(batch) >= BATCH or self._queue.empty():
                return batch, False
            item = self._queue.get_nowait()
        return batch, True

    def _next_flush(self) -> float | None:
        """Seconds to the next look at the clock while something waits to be flushed."""
        return 0.25 if any(ledgers.unsettled for ledgers in self._open.values()) else None

    async def _write(self, ledgers: Ledgers, visits: Sequence[Visit]) -> None:
        """Records, links and rows of a batch of finished visits."""
        answered = [(visit.response, visit.revisit) for visit in visits if visit.response is not None]
        if answered:
            stored = iter(await patiently(lambda: asyncio.to_thread(store, ledgers.archive, answered)))
        else:
            stored = iter(())
        locations = [next(stored) if visit.response is not None else None for visit in visits]
        new = await self._discover(ledgers, visits)
        keys, token = ledgers.discoverer.keys, ledgers.discoverer.token
        for visit, location in zip(visits, locations, strict=True):
            ledgers.archive.row(page_row(visit, location, new.get(visit.lease.digest, 0), keys, token))
            if location is not None and visit.parsed is not None:
                ledgers.discoverer.traps.fetched(visit.lease.url, location.digest)
            size = location.warc_length if location is not None else 0
            verdict = done(size) if visit.verdict.ending is Ending.DONE else visit.verdict
            if visit.sitemaps:
                ledgers.reading[visit.lease.token] = visit.lease, verdict
            else:
                ledgers.unsettled.append((visit.lease, verdict))
                ledgers.urgent = ledgers.urgent or visit.lease.receives > DELIVERIES

    async def _sitemaps(self, item: Listed | Read) -> None:
        """What comes from the sitemaps of a page that was handed over before."""
        ledgers = self._ledgers(item.lease.crawl)
        if isinstance(item, Read):
            # Without an entry the crawl was purged, and the page let go.
            if (ending := ledgers.reading.pop(item.lease.token, None)) is not None:
                if item.whole:
                    ledgers.unsettled.append(ending)
                else:
                    await self._settle([(item.lease, defer(time.time(), again=True))])
            return
        try:
            top = msgspec.structs.replace(item.lease, depth=0)
            pages = await patiently(lambda: ledgers.discoverer.pages([(top, item.links)]))
            await self._add(ledgers, pages)
            if item.durable and ledgers.skipped:
                await self._flush(ledgers)
        except UsageError as error:
            if not item.added.done():
                item.added.set_exception(error)
        else:
            if not item.added.done():
                item.added.set_result(None)

    async def _discover(self, ledgers: Ledgers, visits: Sequence[Visit]) -> dict[bytes, int]:
        """Add the links of a batch; answers how many were new, by the digest of the parent."""
        found = []
        for visit in visits:
            if visit.parsed is not None:
                visit.near_duplicate_of = ledgers.discoverer.near_duplicate_of(visit.lease, visit.parsed)
                if visit.near_duplicate_of is None:
                    found.append((visit.lease, visit.parsed.links))
        pages = await patiently(lambda: ledgers.discoverer.pages(found))
        for visit in visits:
            if visit.onward is not None:
                page = ledgers.discoverer.redirect(visit.lease, visit.onward)
                if page is not None:
                    pages.append(page)
        return await self._add(ledgers, pages)

    async def _add(self, ledgers: Ledgers, pages: Sequence[Page]) -> dict[bytes, int]:
        """Add pages, with rows for those that are skipped; answers how many were new, by the digest of the parent."""
        new: dict[bytes, set[bytes]] = defaultdict(set)  # a page may be twice in a batch, leased again when it was late
        for call in _distinct(pages):
            answers = await patiently(partial(self._state.add, ledgers.crawl, call))
            for page, answer in zip(call, answers, strict=True):
                if answer is Added.KNOWN or page.parent is None:
                    continue
                new[page.parent.digest].add(page.digest)
                if answer is Added.NEW:
                    self._on_discovered(page.skip)
                if page.skip:
                    ledgers.archive.row(skipped_row(ledgers.crawl, page, ledgers.discoverer.keys))
                    ledgers.skipped = True
        ledgers.discoverer.seen.update(page.digest for page in pages)
        return {parent: len(children) for parent, children in new.items()}

    async def _flush(self, ledgers: Ledgers) -> None:
        await patiently(ledgers.archive.flush)
        ledgers.flushed_at, ledgers.skipped, ledgers.urgent = time.monotonic(), False, False
        endings, ledgers.unsettled = ledgers.unsettled, []
        await self._settle(endings)

    async def _settle(self, endings: Sequence[tuple[Lease, Verdict]]) -> None:
        # A cancellation must not fall between the bytes that are durable and the mark that says so.
        answers = await asyncio.shield(patiently(lambda: self._state.settle(endings)))
        for (lease, verdict), answer in zip(endings, answers, strict=True):
            self._on_settled(lease, verdict, answer)


def _size(visit: Visit) -> int:
    """Bytes that a visit holds."""
    return len(visit.response.stored) + len(visit.response.body) if visit.response is not None else 0


def _passed_on(visit: Visit) -> Verdict:
    """A verdict for a page that was handed out before: its next holder must still find out what a dead one left."""
    return msgspec.structs.replace(visit.verdict, again=visit.lease.receives > 1)


def _distinct(pages: Sequence[Page]) -> list[list[Page]]:
    """Cut into calls in each of which a digest occurs once, so that every parent is answered for its own links."""
    calls: list[list[Page]] = []
    occurred: Counter[bytes] = Counter()
    for page in pages:
        if occurred[page.digest] == len(calls):
            calls.append([])
        calls[occurred[page.digest]].append(page)
        occurred[page.digest] += 1
    return calls


def store(archive: Archive, answers: Sequence[tuple[Response, Revisit | None]]) -> list[Location]:
    """Append records to the open segment; compression is the work, so it runs in a thread."""
    return [archive.record(response, revisit) for response, revisit in answers]


def page_row(visit: Visit, location: Location | None, links_new: int, keys: Keys, token: str) -> PageRow:
    """The row of a finished visit; `token` is our product token."""
    response, parsed = visit.response, visit.parsed
    row = ended(visit.lease, visit.verdict, keys)
    row.status, row.redirect_to = visit.status, visit.redirect_to
    if response is None or location is None:
        return row
    row.fetched_at = response.fetched_at
    row.elapsed_ms = round(response.elapsed * 1000)
    page = visit.revisit.page if visit.revisit is not None else response
    row.content_type = page.header(b"content-type")
    row.bytes = len(page.body)
    row.truncated = bool(page.truncated)
    row.digest = location.digest
    row.etag = page.header(b"etag")
    row.last_modified = page.header(b"last-modified")
    row.warc_file, row.warc_offset, row.warc_length = location.warc_file, location.warc_offset, location.warc_length
    if visit.revisit is not None:
        original = visit.revisit.reference
        row.original_file, row.original_offset, row.original_length = original.file, original.offset, original.length
    if parsed is not None:
        row.charset, row.title = parsed.charset, parsed.title
        row.lang = parsed.lang or language(page.header(b"content-language"))
        row.canonical_url, row.noindex = parsed.canonical_url, parsed.noindex
        row.links_found, row.links_new = parsed.links_found, links_new
        row.simhash, row.near_duplicate_of = parsed.simhash, visit.near_duplicate_of
        if parsed.failed:
            row.error = row.error or f"not parsed: {parsed.failed}"
    if visit.extracted is not None:
        row.extra = visit.extracted.extra
        row.error = row.error or visit.extracted.error or None
    elif directives(page.header_all(b"x-robots-tag"), token)[0]:
        row.noindex = True
    row.canonical_url = row.canonical_url or canonical(page.header_all(b"link"), page.url)
    return row


def skipped_row(crawl: str, page: Page, keys: Keys) -> PageRow:
    """The row of a page that was skipped when it was discovered."""
    return PageRow(
        crawl_id=crawl,
        url=page.url,
        url_key=keys.key(page.url),
        host=urls.hostname(page.url),
        depth=page.depth,
        parent_url=page.parent.url if page.parent else None,
        discovered_at=time.time(),
        outcome=Ending.SKIPPED,
        reason=page.skip,
        fetched_at=time.time(),
    )
