"""Verify: the ledger sums up, and ledger, rows, records and the merged file tell the same story.

Read in this order: ledger, rows, records. A worker makes them durable in the opposite order, so beside live workers
each step finds all that the step before it knows of, and perhaps more. What is more is looked up in the ledger again
at the end.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b

import msgspec

from crawler import urls
from crawler.archive.folder import PAGES, WARC, crawl_folder, parquet_name
from crawler.archive.inspection import inspect
from crawler.archive.members import members
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store, StoredFile
from crawler.archive.warc import target_uri
from crawler.model import Counts, CrawlRecord, Phase
from crawler.state.port import CrawlState

SHOWN = 100
"""Faults kept as sentences; the rest are counted."""

_FINISHED = {Phase.DONE: 1, Phase.SKIPPED: 2, Phase.DEAD: 4}
_LEDGER, _MERGED = 0b111, 0b1_000_000
"""What is known of a page, in one number: outcome in the ledger, outcomes of its rows, whether it was merged."""

_TO_ROW = 3

Progress = Callable[[str, int], None]


class VerifyReport(msgspec.Struct):
    """What was read, and the faults found: sentences (the first SHOWN) and how many there are.

    `spare` counts records whose row a kill cut short: their pages came again. `moving`: the crawl went on meanwhile,
    so sums were not compared. `merged` is the number of rows in the Parquet file, None without one.
    """

    counts: Counts
    pages: int = 0
    rows: int = 0
    records: int = 0
    files: int = 0
    spare: int = 0
    merged: int | None = None
    moving: bool = False
    faults: list[str] = msgspec.field(default_factory=list)
    fault_count: int = 0

    @property
    def ok(self) -> bool:
        return not self.fault_count

    def fault(self, text: str) -> None:
        self.fault_count += 1
        if len(self.faults) < SHOWN:
            self.faults.append(text)


async def verify(
    state: CrawlState, store: Store, crawl: CrawlRecord, *, progress: Progress | None = None
) -> VerifyReport:
    """Check a crawl from end to end; changes nothing but to take over what killed workers left open.

    Reads everything once (the ledger twice when something is odd); memory grows by some 200 bytes a page.
    `progress` is told what is being read and how far. Errors: StateUnavailable, StoreUnavailable, UsageError.
    """
    check = _Check(VerifyReport(await state.counts(crawl.id)), crawl, progress or (lambda _step, _count: None))
    await check.ledger(state)
    folder = crawl_folder(crawl)
    await store.take_over(folder)
    async for file in store.read(folder, await store.files(folder, PAGES)):
        await asyncio.to_thread(check.row_file, file)
    async for file in store.read(folder, await store.files(folder, WARC)):
        await asyncio.to_thread(check.warc_file, file)
    check.missing_files()
    async with store.existing(parquet_name(crawl)) as path:
        if path is not None:
            from crawler.archive.schema import url_keys

            await asyncio.to_thread(lambda: check.merged(url_keys(path)))
    await check.oddities(state)
    return check.report


class _Places:
    """Where the rows say that the records of one WARC file lie."""

    def __init__(self) -> None:
        self.offsets, self.lengths, self.uris = array("Q"), array("Q"), array("Q")

    def add(self, offset: int, length: int, url: str) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)
        self.uris.append(_short(target_uri(url)))


class _Check:
    def __init__(self, report: VerifyReport, crawl: CrawlRecord, progress: Progress) -> None:
        self.report, self._crawl, self._progress = report, crawl, progress
        self._pages: dict[bytes, int] = {}
        self._places: dict[str, _Places] = {}
        self._unknown: dict[bytes, str] = {}
        """Rows whose page was not in the ledger: digest and what to say if it still is not."""
        self._spare: dict[int, str] = {}
        """Records no row points to: short hash of the URL and what to say if the ledger does not know it."""

    async def ledger(self, state: CrawlState) -> None:
        """Read the ledger and compare its sums."""
        sums = dict.fromkeys(Phase, 0)
        async for page in state.ledger(self._crawl.id):
            sums[page.phase] += 1
            self._pages[page.digest] = _FINISHED.get(page.phase, 0)
            self._tell("ledger", sum(sums.values()))
        report = self.report
        report.pages = len(self._pages)
        workers = await state.workers()
        report.moving = bool(workers) or report.counts != await state.counts(self._crawl.id)
        if sums[Phase.LEASED] and not workers:
            report.fault(f"{sums[Phase.LEASED]} pages are leased, but no worker is alive")
        counts = report.counts
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
            "discovered": (counts.discovered, sum(sums.values())),
            "done": (counts.done, sums[Phase.DONE]),
            "skipped": (counts.skipped, sums[Phase.SKIPPED]),
            "dead": (counts.dead, sums[Phase.DEAD]),
            "pending or leased": (counts.outstanding, sums[Phase.PENDING] + sums[Phase.LEASED]),
        }
        for what, (counted, listed) in compared.items():
            if counted != listed:
                report.fault(f"the counts say {counted} {what}, the ledger lists {listed}")

    def row_file(self, file: StoredFile) -> None:
        """Read the rows of a file."""
        self.report.files += 1
        decoder = msgspec.json.Decoder(PageRow)
        with file.path.open("rb") as source:
            for member in members(source):
                if member.data is None:
                    self._unreadable(file, member.offset, member.length)
                    continue
                for line in member.data.splitlines():
                    try:
                        self._row(decoder.decode(line), file.name)
                    except (msgspec.DecodeError, UnicodeDecodeError) as error:
                        self.report.fault(f"{file.name}: a line of the member at {member.offset} is no row: {error}")
        self._progress("rows", self.report.rows)

    def _row(self, row: PageRow, file: str) -> None:
        self.report.rows += 1
        if row.crawl_id != self._crawl.id:
            self.report.fault(f"{file}: the row of {row.url} is of another crawl, {row.crawl_id}")
            return
        digest = urls.digest(row.url_key)
        known = self._pages.get(digest)
        if known is None:
            self._unknown[digest] = f"{file}: the page {row.url} has a row but is not in the ledger"
        elif row.outcome in _FINISHED:
            self._pages[digest] = known | _FINISHED[Phase(row.outcome)] << _TO_ROW
        else:
            self.report.fault(f"{file}: the row of {row.url} has the unknown outcome {row.outcome!r}")
        if row.warc_file is not None and row.warc_offset is not None and row.warc_length is not None:
            places = self._places.setdefault(row.warc_file, _Places())
            places.add(row.warc_offset, row.warc_length, row.url)
        elif row.outcome == Phase.DONE:
            self.report.fault(f"{file}: the row of {row.url} says done but names no record")

    def warc_file(self, file: StoredFile) -> None:
        """Read the records of a file, and compare them with what the rows said."""
        self.report.files += 1
        places = self._places.pop(file.name, None) or _Places()
        expected: dict[int, int] = {}
        for place, offset in enumerate(places.offsets):
            if expected.setdefault(offset, place) != place:
                self.report.fault(f"{file.name}: two rows point to the record at {offset}")
        with file.path.open("rb") as source:
            for member in members(source):
                at = f"{file.name}: the record at {member.offset}"
                if member.data is None:
                    self._unreadable(file, member.offset, member.length)
                    # Its row is not told twice.
                    expected.pop(member.offset, None)
                    continue
                record = inspect(member.data)
                if record.flaw:
                    self.report.fault(f"{at} {record.flaw} {record.uri}".rstrip())
                if (member.offset == 0) != (record.kind == "warcinfo"):
                    self.report.fault(f"{at} is of type {record.kind}: a file begins with its only warcinfo")
                if record.kind == "warcinfo":
                    continue
                self.report.records += 1
                found = expected.pop(member.offset, None)
                if found is None:
                    self._spare[_short(record.uri)] = f"{at} of {record.uri} has no row, nor is it in the ledger"
                elif places.lengths[found] != member.length:
                    self.report.fault(f"{at} has {member.length} bytes, its row says {places.lengths[found]}")
                elif places.uris[found] != _short(record.uri):
                    self.report.fault(f"{at} is of {record.uri}, its row of another URL")
        for offset in expected:
            self.report.fault(f"{file.name}: a row points to {offset}, where no record begins")
        self._progress("records", self.report.records)

    def missing_files(self) -> None:
        """After all WARC files: what rows still point to is not there."""
        for name, places in self._places.items():
            self.report.fault(f"{name} is missing; {len(places.offsets)} rows point to it")

    def merged(self, keys: Iterable[str]) -> None:
        """The merged file has no URL twice, and none that the ledger does not know. It may be older than the rows."""
        self.report.merged = 0
        for key in keys:
            self.report.merged += 1
            digest = urls.digest(key)
            known = self._pages.get(digest)
            if known is None:
                self._unknown.setdefault(digest, f"the merged page {key} is not in the ledger")
            elif known & _MERGED:
                self.report.fault(f"the merged file has {key} twice")
            else:
                self._pages[digest] = known | _MERGED
        self._progress("merged", self.report.merged)

    async def oddities(self, state: CrawlState) -> None:
        """Name the finished pages without a row, and look up once more what the ledger did not know at first."""
        spare = len(self._spare)
        if self._unknown or self._spare or any(map(_without_row, self._pages.values())):
            async for page in state.ledger(self._crawl.id):
                self._unknown.pop(page.digest, None)
                self._spare.pop(_short(target_uri(page.url)), None)
                if _without_row(self._pages.get(page.digest, 0)):
                    self.report.fault(f"the page {page.url} is {page.phase} but has no row that says so")
        for text in (*self._unknown.values(), *self._spare.values()):
            self.report.fault(text)
        self.report.spare = spare - len(self._spare)

    def _unreadable(self, file: StoredFile, offset: int, length: int) -> None:
        # The end of a file that is being written is no fault.
        if not file.live:
            self.report.fault(f"{file.name}: {length} bytes at {offset} are no whole gzip member")

    def _tell(self, step: str, count: int) -> None:
        if count % 1000 == 0:
            self._progress(step, count)


def _without_row(known: int) -> bool:
    """Whether a page is finished and no row has its outcome."""
    ledger = known & _LEDGER
    return bool(ledger) and not known & (ledger << _TO_ROW)


def _short(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
