"""Merge: the row files of all workers into one Parquet file, one row a URL.

Row files may hold several rows of a URL: a worker was killed after its row was durable and before the page was
settled, or a dead letter was tried again. A row of an answer (done) beats the others; of equals the latest wins.

Memory grows by some 200 bytes a URL, for digests and numbers; the rows themselves pass in batches.
"""

from __future__ import annotations

import asyncio
import tempfile
from array import array
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from crawler.archive.folder import PAGES, crawl_folder, parquet_name
from crawler.archive.members import members
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store, StoredFile
from crawler.model import CrawlRecord, Ending

_R = TypeVar("_R")

BATCH = 20_000
"""Rows of a Parquet row group."""


_LAST = chr(0x10FFFF)
"""Sorts behind every key: those are ASCII."""


class MergeResult(msgspec.Struct, frozen=True):
    """`rows` written, one a URL; row `files` read; `path` of the Parquet file; what could not be read, as sentences;
    how many of the rows are of pages `unchanged` since an earlier crawl."""

    rows: int
    files: int
    path: str
    faults: tuple[str, ...] = ()
    unchanged: int = 0


async def merge(store: Store, crawl: CrawlRecord) -> MergeResult:
    """Write `<crawl>.parquet`; it replaces an earlier one at once. May be repeated, and run beside live workers,
    whose durable rows it includes. Errors: StoreUnavailable.

    If the process dies before the file is published, query engines see the earlier one: repeat.
    """
    folder, name = crawl_folder(crawl), parquet_name(crawl)
    await store.take_over(folder)
    files = await store.files(folder, PAGES)
    with tempfile.TemporaryFile() as spool:
        rows = _Rows(spool)
        async for file in store.read(folder, files):
            await asyncio.to_thread(rows.take, file)
        async with store.replace(name) as path:
            written = await asyncio.to_thread(rows.write, path)
        await store.publish(folder)
    path_there = f"{store.address.rstrip('/')}/{name}"
    return MergeResult(written, len(files), path_there, tuple(rows.faults), rows.unchanged)


class _Rows:
    """All rows, compressed as they came in a temporary file, and an index of them by their place in it.

    The file freezes what workers may still add to, and is read several times.
    """

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._done = bytearray()
        self._fetched = array("d")
        self._winner: dict[bytes, int] = {}
        self.faults: list[str] = []
        self.unchanged = 0

    def take(self, file: StoredFile) -> None:
        """Add the rows of a file."""
        decoder = msgspec.json.Decoder(PageRow)
        with file.path.open("rb") as source:
            for member in members(source):
                if member.data is None:
                    # The end of a file that is being written is no fault.
                    if not file.live:
                        self.faults.append(f"{file.name}: {member.length} bytes at {member.offset} cannot be read")
                    continue
                try:
                    rows = [decoder.decode(line) for line in member.data.splitlines()]
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    self.faults.append(f"{file.name}: no rows in the member at {member.offset}: {error}")
                    continue
                for row in rows:
                    self._add(row)
                source.seek(member.offset)
                self._spool.write(source.read(member.length))

    def _add(self, row: PageRow) -> None:
        place = len(self._done)
        self._done.append(row.outcome == Ending.DONE)
        self._fetched.append(row.fetched_at or 0.0)
        key = _digest(row.url_key)
        rival = self._winner.setdefault(key, place)
        if (self._done[place], self._fetched[place]) >= (self._done[rival], self._fetched[rival]):
            self._winner[key] = place

    def write(self, path: Path) -> int:
        """Write the winners to a Parquet file; says how many. Once: the index is given up on the way."""
        from crawler.archive.schema import ParquetFile

        chosen = bytearray(len(self._done))
        for place in self._winner.values():
            chosen[place] = True
        self._winner.clear()
        originals = self._originals(chosen)
        written = 0
        with ParquetFile(path) as parquet:
            batch: list[PageRow] = []
            for _, row in self._read(chosen, PageRow):
                original = originals.get(_digest(row.digest)) if row.digest and _has_content(row) else None
                row.duplicate_of = original if original != row.url else None
                self.unchanged += row.outcome == Ending.DONE and row.original_file is not None
                batch.append(row)
                if len(batch) == BATCH:
                    parquet.write(batch)
                    written += len(batch)
                    batch.clear()
            parquet.write(batch)
            return written + len(batch)

    def _originals(self, chosen: bytearray) -> dict[bytes, str]:
        """For each content that occurs more than once: the URL of the page that was fetched first; of several fetched
        at once, the one whose url_key is the smallest, so that the order of the files does not matter."""
        first: dict[bytes, int] = {}
        repeated: set[bytes] = set()
        tied: set[bytes] = set()
        for place, row in self._read(chosen, _Content):
            if row.digest and _has_content(row):
                content = _digest(row.digest)
                rival = first.setdefault(content, place)
                if rival != place:
                    repeated.add(content)
                    if self._fetched[place] < self._fetched[rival]:
                        first[content] = place
                        tied.discard(content)
                    elif self._fetched[place] == self._fetched[rival]:
                        tied.add(content)
        if tied:
            self._break_ties(chosen, first, tied)
        names = bytearray(len(chosen))
        for content in repeated:
            names[first[content]] = True
        first.clear()
        return {_digest(row.digest): row.url for _, row in self._read(names, _Content) if row.digest}

    def _break_ties(self, chosen: bytearray, first: dict[bytes, int], tied: set[bytes]) -> None:
        """Among the pages of one content fetched at the same moment: the one with the smallest key."""
        moments = {content: self._fetched[first[content]] for content in tied}
        keys: dict[bytes, str] = {}
        for place, row in self._read(chosen, _Content):
            if row.digest and _has_content(row):
                content = _digest(row.digest)
                if moments.get(content) == self._fetched[place] and row.url_key < keys.get(content, _LAST):
                    keys[content], first[content] = row.url_key, place

    def _read(self, wanted: bytearray, kind: type[_R]) -> Iterator[tuple[int, _R]]:
        """The rows whose place is marked, with their place."""
        decoder = msgspec.json.Decoder(kind)
        place = 0
        for member in members(self._spool):
            for line in (member.data or b"").splitlines():
                if wanted[place]:
                    yield place, decoder.decode(line)
                place += 1


class _Content(msgspec.Struct, gc=False):
    """The part of a row by which duplicates are found."""

    url: str
    url_key: str
    outcome: str
    status: int | None = None
    bytes: int | None = None
    digest: str | None = None
    original_file: str | None = None


def _has_content(row: PageRow | _Content) -> bool:
    """Whether a row is of a page with a body: answered with 200, or found unchanged."""
    there = row.status == 200 or row.original_file is not None
    return row.outcome == Ending.DONE and there and bool(row.bytes)


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()[:16]
