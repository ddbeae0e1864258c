"""Verify: the ledger sums up, and ledger, rows, records and the merged file tell the same story.

Read in this order: ledger, rows, records. A worker makes them durable in the opposite order, so beside live workers
each step finds all that the step before it knows of, and perhaps more. What is more is looked up in the ledger again
at the end.

In a crawl with `dedup` bloom pages leave the ledger when they are done or skipped: of those only the numbers are known,
and the pages that have such a row must be as many.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from crawler.archive.folder import PAGES, WARC, crawl_folder, parquet_name
from crawler.archive.members import members
from crawler.archive.pace import Pace
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store, StoredFile
from crawler.archive.verify_report import VerifyReport
from crawler.archive.verify_warc import Records, page_hash, unreadable
from crawler.model import CrawlRecord, PageState, Phase
from crawler.state.port import CrawlState
from crawler.url_key import keys_of

_FINISHED = {Phase.DONE: 1, Phase.SKIPPED: 2, Phase.DEAD: 4}
_LEDGER, _MERGED, _UNLISTED = 0b111, 0b1_000_000, 0b10_000_000
"""What is known of a page, in one number: outcome in the ledger, outcomes of its rows, whether it was merged, whether
it is known by its rows alone."""

_TO_ROW = 3

Progress = Callable[[str, int], None]
"""Is told what is read ("ledger", "rows", "records", "merged", "ledger again") and how many of them so far."""

EVERY = 1000
"""Items between two calls of a Progress."""


async def verify(
    state: CrawlState, store: Store, crawl: CrawlRecord, *, progress: Progress | None = None
) -> VerifyReport:
    """Check a crawl from end to end; changes nothing but to take over what killed workers left open.

    Reads everything once (the ledger twice when something is odd); memory grows by some 300 bytes a page.
    `progress`, when given, is called from other threads too. Errors: StateUnavailable, StoreUnavailable, UsageError.
    """
    check = _Check(VerifyReport(await state.counts(crawl.id)), crawl, progress or (lambda _step, _count: None))
    await check.ledger(state)
    folder = crawl_folder(crawl)
    await store.take_over(folder)
    async for file in store.read(folder, await store.files(folder, PAGES)):
        await asyncio.to_thread(check.row_file, file)
    await asyncio.to_thread(check.pace)
    check.unlisted()
    async for file in store.read(folder, await store.files(folder, WARC)):
        await asyncio.to_thread(check.records.read, file)
    check.records.missing()
    async with store.existing(parquet_name(crawl)) as path:
        if path is not None:
            from crawler.archive.schema import url_keys

            await asyncio.to_thread(lambda: check.merged(url_keys(path)))
    await check.oddities(state)
    return check.report


class _Check:
    def __init__(self, report: VerifyReport, crawl: CrawlRecord, progress: Progress) -> None:
        self.report, self._crawl, self._progress = report, crawl, progress
        self.records = Records(report, self._tell)
        self._pace = Pace(crawl)
        self._digest = keys_of(crawl.settings).digest
        self._pages: dict[bytes, int] = {}
        self._children: Counter[bytes] = Counter()
        """How many pages of the ledger each page added."""
        self._unknown: dict[bytes, str] = {}
        """Rows whose page was not in the ledger: digest and what to say if it still is not."""
        self._childless: dict[bytes, tuple[str, int]] = {}
        """Pages whose row says that they added more pages than the ledger has of them: URL and how many."""
        self._forgets = crawl.settings.dedup == "bloom"
        self._rows: set[int] = set()
        """Where pages leave the ledger: `page_hash` of those that have a row."""

    # ---------------------------------------------------------------- ledger

    async def ledger(self, state: CrawlState) -> None:
        """Read the ledger and compare its sums."""
        sums = dict.fromkeys(Phase, 0)
        leased = ""
        async for page in state.ledger(self._crawl.id):
            sums[page.phase] += 1
            self._pages[page.digest] = _FINISHED.get(page.phase, 0)
            if page.parent is not None:
                self._children[page.parent] += 1
            if page.phase is Phase.DEAD and not (page.reason and page.error):
                self.report.fault(f"the page {page.url} is dead, and its reason or its error is not kept")
            elif page.phase is Phase.LEASED:
                leased = leased or page.url
            self._tell("ledger", len(self._pages))
        workers = await state.workers()
        if leased and not workers:
            self.report.fault(f"{sums[Phase.LEASED]} pages are leased, but no worker is alive; one is {leased}")
        self._compare(sums, moved=self.report.counts != await state.counts(self._crawl.id), workers=len(workers))

    def _compare(self, sums: dict[Phase, int], *, moved: bool, workers: int) -> None:
        """The counts sum up, and are those of the pages listed."""
        report, counts = self.report, self.report.counts
        report.pages = len(self._pages)
        report.moving = moved or (workers > 0 and counts.outstanding > 0)
        if not counts.exact:
            return
        total = counts.outstanding + counts.done + counts.skipped + counts.dead
        if counts.discovered != total:
            report.fault(
                f"the counts do not sum up: {counts.discovered} discovered, but {total} in all phases together"
            )
        if report.moving:
            return
        compared = {
            "dead": (counts.dead, sums[Phase.DEAD]),
            "pending or leased": (counts.outstanding, sums[Phase.PENDING] + sums[Phase.LEASED]),
        }
        if not self._forgets:
            compared |= {
                "discovered": (counts.discovered, sum(sums.values())),
                "done": (counts.done, sums[Phase.DONE]),
                "skipped": (counts.skipped, sums[Phase.SKIPPED]),
            }
        for what, (counted, listed) in compared.items():
            if counted != listed:
                report.fault(f"the counts say {counted} {what}, the ledger lists {listed}")

    # ---------------------------------------------------------------- rows

    def row_file(self, file: StoredFile) -> None:
        """Read the rows of a file."""
        self.report.files += 1
        decoder = msgspec.json.Decoder(PageRow)
        with file.path.open("rb") as source:
            for member in members(source):
                if member.data is None:
                    unreadable(self.report, file, member.offset, member.length)
                    continue
                for line in member.data.splitlines():
                    try:
                        self._row(decoder.decode(line), file.name)
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        self.report.fault(f"{file.name}: a line of the member at {member.offset} is no row: {error}")

    def _row(self, row: PageRow, file: str) -> None:
        self.report.rows += 1
        self._tell("rows", self.report.rows)
        if row.crawl_id != self._crawl.id:
            self.report.fault(f"{file}: the row of {row.url} is of another crawl, {row.crawl_id}")
            return
        digest = self._digest(row.url_key)
        if self._forgets:
            self._rows.add(page_hash(row.url))
            self._pages.setdefault(digest, _UNLISTED)
        known = self._pages.get(digest)
        if known is None:
            self._unknown[digest] = f"{file}: the page {row.url} has a row but is not in the ledger"
        elif row.outcome in _FINISHED:
            self._pages[digest] = known | _FINISHED[Phase(row.outcome)] << _TO_ROW
        else:
            self.report.fault(f"{file}: the row of {row.url} has the unknown outcome {row.outcome!r}")
        if self.records.expect(row):
            if row.fetched_at is not None:
                self._pace.add(row.host, row.fetched_at)
        elif row.outcome == Phase.DONE:
            self.report.fault(f"{file}: the row of {row.url} says done but names no record")
        # More than its row says is sound: redirects are not counted there, and a page that was fetched again after a
        # kill may have lost links in between. So no sum over all rows has to be that of the ledger.
        if (row.links_new or 0) > self._children[digest] and not self._forgets:
            self._childless[digest] = (row.url, row.links_new or 0)

    def pace(self) -> None:
        """After all rows: no host was asked too often."""
        self.report.paced = self._pace.requests
        for text in self._pace.faults():
            self.report.fault(text)

    def unlisted(self) -> None:
        """After all rows: the pages that have left the ledger are as many as those that only have rows.

        A page that was fetched again after a kill can have rows of both outcomes; then either may be the one counted.
        """
        report, counts = self.report, self.report.counts
        if not self._forgets:
            return
        report.pages = len(self._pages)
        if report.moving:
            return
        done, skipped = _FINISHED[Phase.DONE], _FINISHED[Phase.SKIPPED]
        rows = Counter(
            known >> _TO_ROW & (done | skipped)
            for known in self._pages.values()
            if known & (_UNLISTED | done | skipped)
        )
        both = rows[done | skipped]
        compared = {
            "done": (counts.done, rows[done], rows[done] + both),
            "skipped": (counts.skipped, rows[skipped], rows[skipped] + both),
            "done or skipped": (counts.done + counts.skipped, *[rows[done] + rows[skipped] + both] * 2),
        }
        for what, (counted, least, most) in compared.items():
            if not least <= counted <= most:
                report.fault(f"the counts say {counted} {what}, but {most} pages have a row that says so")
                return

    # ---------------------------------------------------------------- the merged file, and what was odd

    def merged(self, keys: Iterable[str]) -> None:
        """The merged file has no URL twice, and none that the ledger does not know. It may be older than the rows."""
        self.report.merged = 0
        for key in keys:
            self.report.merged += 1
            self._tell("merged", self.report.merged)
            digest = self._digest(key)
            known = self._pages.get(digest)
            if known is None:
                self._unknown.setdefault(digest, f"the merged page {key} is not in the ledger")
            elif known & _MERGED:
                self.report.fault(f"the merged file has {key} twice")
            else:
                self._pages[digest] = known | _MERGED

    async def oddities(self, state: CrawlState) -> None:
        """Name the finished pages without a row, and look up once more what the ledger did not know at first."""
        spare = {page: text for page, text in self.records.spare.items() if page not in self._rows}
        children: Counter[bytes] = Counter()
        if self._unknown or spare or self._childless or any(map(_without_row, self._pages.values())):
            read = 0
            async for page in state.ledger(self._crawl.id):
                self._once_more(page, spare)
                if page.parent in self._childless:
                    children[page.parent] += 1
                read += 1
                self._tell("ledger again", read)
        for text in (*self._unknown.values(), *spare.values()):
            self.report.fault(text)
        for digest, (url, new) in self._childless.items():
            if children[digest] < new:
                self.report.fault(f"the page {url} added {new} pages, but the ledger has {children[digest]} of them")
        self.report.spare = len(self.records.spare) - len(spare)

    def _once_more(self, page: PageState, spare: dict[int, str]) -> None:
        self._unknown.pop(page.digest, None)
        spare.pop(page_hash(page.url), None)
        if _without_row(self._pages.get(page.digest, 0)):
            self.report.fault(f"the page {page.url} is {page.phase} but has no row that says so")

    def _tell(self, step: str, count: int) -> None:
        if count % EVERY == 0 or count == 1:
            self._progress(step, count)


def _without_row(known: int) -> bool:
    """Whether a page is finished and no row has its outcome."""
    ledger = known & _LEDGER
    return bool(ledger) and not known & (ledger << _TO_ROW)
