"""The totals of a complete crawl, beside its Parquet file: `<crawl>.summary.json` for programs, `<crawl>.summary.txt`
for people.

The JSON file is also the durable mark of what was done for this completion: merged and summed up when it is there with
the crawl's `completed_at`, and told to whoever listens once it has `announced_at`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from crawler.archive.folder import PAGES, WARC, crawl_folder, parquet_name, summary_name, summary_text_name
from crawler.archive.stores import Store
from crawler.errors import StoreUnavailable
from crawler.model import Counts, CrawlRecord, Ending

SLOWEST = 10
"""Hosts that are named."""

FEWEST = 5
"""Answers of a host below which its mean time says nothing."""

BROKEN = 20
"""Broken links that are named; all are counted."""

FAULTS = 20
"""Sentences kept of what could not be read."""


class SlowHost(msgspec.Struct, frozen=True, gc=False):
    """A host's answers and the mean of their times, from request to answer."""

    host: str
    answers: int
    mean_ms: int


class BrokenLink(msgspec.Struct, frozen=True, gc=False):
    """A page that a link or a seed led to in vain: `why` is the status, or the reason for which it is dead."""

    url: str
    why: str
    parent_url: str | None = None


class Totals(msgspec.Struct, kw_only=True):
    """What the merged rows sum up to. `statuses` counts answers by status; `bytes` are those of decoded bodies;
    `first_fetch` and `last_fetch` are when the first and the last answer was asked for, None without any."""

    rows: int = 0
    outcomes: dict[str, int] = {}
    statuses: dict[str, int] = {}
    bytes: int = 0
    duplicates: int = 0
    redirects: int = 0
    unchanged: int = 0
    hosts: int = 0
    first_fetch: str | None = None
    last_fetch: str | None = None
    seconds: float = 0.0
    pages_per_second: float = 0.0
    slowest_hosts: list[SlowHost] = []
    broken: int = 0
    broken_links: list[BrokenLink] = []


class Files(msgspec.Struct, kw_only=True):
    """The crawl's files: how many with records and with rows; the Parquet file by its name in the store (None: there
    is none of this completion) and its bytes."""

    warc: int = 0
    pages: int = 0
    parquet: str | None = None
    parquet_bytes: int = 0


class Summary(msgspec.Struct, kw_only=True):
    """Times are ISO 8601 in UTC. `counts` are the ledger's; `totals` those of the merged rows, None without a Parquet
    file, and then `note` says why. `faults` are sentences: what could not be read, and what does not sum up."""

    crawl: str
    store: str
    folder: str
    started_at: str
    completed_at: str
    counts: Counts
    files: Files
    totals: Totals | None = None
    faults: tuple[str, ...] = ()
    note: str = ""
    announced_at: str | None = None


def moment(at: float) -> str:
    """A time in ISO 8601, UTC, to the microsecond, which is what states keep."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# ---------------------------------------------------------------- totals


def totals(parquet: Path) -> Totals:
    """Sum up a merged file, a batch of rows at a time; memory grows with the number of hosts. Blocks."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    sums = _Sums()
    columns = ["url", "parent_url", "host", "outcome", "reason", "status", "fetched_at", "elapsed_ms", "bytes"]
    columns += ["duplicate_of", "redirect_to", "original_file"]
    is_done = pc.field("outcome") == Ending.DONE.value
    in_vain = (pc.field("outcome") == Ending.DEAD.value) | (is_done & (pc.field("status") >= 400))
    with pq.ParquetFile(parquet) as file:
        for batch in file.iter_batches(columns=columns):
            rows = pa.Table.from_batches([batch])
            ended = rows.group_by(["outcome", "status"]).aggregate([("url", "count"), ("bytes", "sum")])
            for group in ended.to_pylist():
                sums.ended(group["outcome"], group["status"], group["url_count"], group["bytes_sum"] or 0)
            hosts = rows.group_by(["host"]).aggregate([("elapsed_ms", "count"), ("elapsed_ms", "sum")])
            for group in hosts.to_pylist():
                sums.host(group["host"], group["elapsed_ms_count"], group["elapsed_ms_sum"] or 0)
            done = rows.filter(is_done)
            duplicates, redirects, unchanged = (len(done) - done[name].null_count for name in columns[-3:])
            sums.marked(duplicates, redirects, unchanged)
            asked: Any = pc.min_max(done["fetched_at"]).as_py()
            sums.asked(asked["min"], asked["max"])
            sums.broke(rows.select(columns[:6]).filter(in_vain).to_pylist())
    return sums.totals()


class _Sums:
    """What has been read so far."""

    def __init__(self) -> None:
        self._totals = Totals()
        self._outcomes: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._hosts: dict[str, tuple[int, int]] = {}
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._links: list[BrokenLink] = []

    def ended(self, outcome: str, status: int | None, rows: int, size: int) -> None:
        self._totals.rows += rows
        self._totals.bytes += size
        self._outcomes[outcome] += rows
        if outcome == Ending.DONE and status is not None:
            self._statuses[str(status)] += rows

    def host(self, host: str, answers: int, milliseconds: int) -> None:
        before = self._hosts.get(host, (0, 0))
        self._hosts[host] = before[0] + answers, before[1] + milliseconds

    def marked(self, duplicates: int, redirects: int, unchanged: int) -> None:
        self._totals.duplicates += duplicates
        self._totals.redirects += redirects
        self._totals.unchanged += unchanged

    def asked(self, first: datetime | None, last: datetime | None) -> None:
        """Times of answers: the first and the last of a batch."""
        if first is not None and last is not None:
            self._first = min(first, self._first or first)
            self._last = max(last, self._last or last)

    def broke(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self._totals.broken += 1
            if len(self._links) < BROKEN:
                why = str(row["status"] or row["reason"] or "")
                self._links.append(BrokenLink(row["url"], why, row["parent_url"]))

    def totals(self) -> Totals:
        sums = self._totals
        sums.outcomes = dict(sorted(self._outcomes.items()))
        sums.statuses = dict(sorted(self._statuses.items()))
        sums.hosts = len(self._hosts)
        slow = (SlowHost(host, n, round(ms / n)) for host, (n, ms) in self._hosts.items() if n >= FEWEST)
        sums.slowest_hosts = heapq.nsmallest(SLOWEST, slow, key=lambda each: (-each.mean_ms, each.host))
        sums.broken_links = self._links
        if self._first is not None and self._last is not None:
            sums.first_fetch, sums.last_fetch = moment(self._first.timestamp()), moment(self._last.timestamp())
            sums.seconds = round((self._last - self._first).total_seconds(), 3)
            sums.pages_per_second = round(self._outcomes[Ending.DONE] / sums.seconds, 2) if sums.seconds else 0.0
        return sums


def doubts(sums: Totals, counts: Counts) -> tuple[str, ...]:
    """What `crawler verify` should look at: cheap, for it compares sums only."""
    ended = counts.done + counts.skipped + counts.dead
    if sums.rows == ended:
        return ()
    return (f"{ended} pages ended and {sums.rows} have a row: crawler verify names them",)


# ---------------------------------------------------------------- in the store


async def read_summary(store: Store, crawl: CrawlRecord) -> Summary | None:
    """The summary that is there, of whatever completion; None without one that this version understands."""
    async with store.existing(summary_name(crawl)) as path:
        if path is None:
            return None
        try:
            return msgspec.json.decode(path.read_bytes(), type=Summary)
        except msgspec.DecodeError:
            return None


async def write_summary(store: Store, crawl: CrawlRecord, summary: Summary) -> None:
    """Write both files, the one that is the mark last. Errors: StoreUnavailable."""
    async with store.replace(summary_text_name(crawl)) as path:
        path.write_text(text(summary), encoding="utf-8")
    async with store.replace(summary_name(crawl)) as path:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")


async def files_of(store: Store, crawl: CrawlRecord) -> Files:
    """How many files of records and of rows there are."""
    folder = crawl_folder(crawl)
    return Files(warc=len(await store.files(folder, WARC)), pages=len(await store.files(folder, PAGES)))


async def add_rows(store: Store, crawl: CrawlRecord, summary: Summary, faults: Sequence[str]) -> None:
    """Sum the merged file, which is there, up in a summary; `faults` are the merge's. Errors: StoreUnavailable."""
    summary.files, summary.note = await files_of(store, crawl), ""
    async with store.existing(parquet_name(crawl)) as path:
        if path is None:
            raise StoreUnavailable(f"{parquet_name(crawl)} is gone again")
        summary.files.parquet, summary.files.parquet_bytes = parquet_name(crawl), path.stat().st_size
        summary.totals = await asyncio.to_thread(totals, path)
    summary.faults = (*doubts(summary.totals, summary.counts), *faults[:FAULTS])


async def renew(store: Store, crawl: CrawlRecord, faults: Sequence[str]) -> None:
    """After a merge of a crawl: its summary tells of it, where there is one of this completion. Errors as above."""
    summary = await read_summary(store, crawl)
    if summary is not None and crawl.completed_at is not None and summary.completed_at == moment(crawl.completed_at):
        await add_rows(store, crawl, summary, faults)
        await write_summary(store, crawl, summary)


# ---------------------------------------------------------------- for people


def text(summary: Summary) -> str:
    """The summary as a page of text."""
    counts, sums = summary.counts, summary.totals
    base = summary.store.rstrip("/")
    lines = [
        f"crawl {summary.crawl}: complete",
        f"  from {summary.started_at[:19]}Z to {summary.completed_at[:19]}Z",
        f"  {counts.done:,} pages done, {counts.skipped:,} skipped{_by_count(counts.skips)}, "
        f"{counts.dead:,} dead{_by_count(counts.deaths)}; {counts.hosts:,} hosts, {_size(counts.bytes)} archived",
    ]
    if sums is not None:
        lines += _of_rows(sums)
    lines += ["", "files"]
    if summary.files.parquet:
        lines.append(f"  Parquet  {base}/{summary.files.parquet}  ({_size(summary.files.parquet_bytes)})")
    lines.append(f"  WARC     {base}/{summary.folder}/warc/  ({summary.files.warc:,} files)")
    lines.append(f"  rows     {base}/{summary.folder}/pages/  ({summary.files.pages:,} files)")
    lines += [f"\nNOTE: {summary.note}"] if summary.note else []
    lines += [f"FAULT: {fault}" for fault in summary.faults]
    return "\n".join(lines) + "\n"


def _of_rows(sums: Totals) -> list[str]:
    lines = [f"  answers by status{_by_count(sums.statuses) or ': none'}; {_size(sums.bytes)} of bodies"]
    if sums.seconds:
        lines.append(f"  fetched within {sums.seconds:,.0f} s: {sums.pages_per_second:,.1f} pages a second")
    lines.append(f"  {sums.redirects:,} redirected, {sums.duplicates:,} duplicates, {sums.unchanged:,} unchanged")
    if sums.slowest_hosts:
        lines += ["", "slowest hosts: mean time of an answer"]
        lines += [f"  {host.mean_ms:>7,} ms  {host.host}  ({host.answers:,})" for host in sums.slowest_hosts]
    if sums.broken_links:
        lines += ["", f"broken links: {sums.broken:,}" + (f", the first {BROKEN}" if sums.broken > BROKEN else "")]
        lines += [f"  {link.why:<8} {link.url}  {_origin(link)}" for link in sums.broken_links]
    return lines


def _origin(link: BrokenLink) -> str:
    return f"on {link.parent_url}" if link.parent_url else "a seed"


def _by_count(counts: Mapping[str, int]) -> str:
    """In brackets, the most frequent first; "" when there is none."""
    parts = [f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
    return f" ({', '.join(parts)})" if parts else ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"
