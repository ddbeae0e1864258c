"""The archive of one crawl, as one worker writes it: records and rows go into a segment, `flush` makes them last.

What was handed in and not yet flushed is kept in memory, compressed, and is lost with the process: nobody has
acknowledged it. So there is no spool to clean up after a kill, and a worker needs no disk of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from hashlib import sha256

import msgspec

from crawler.archive import folder, warc
from crawler.archive.members import compress
from crawler.archive.rows import PageRow, encode
from crawler.archive.stores import Piece, Segment, Store
from crawler.fetched import Response, Revisit
from crawler.model import CrawlRecord

SEGMENT_SIZE = 512 * 1024 * 1024
"""Bytes of records at which a new segment begins."""

LONGEST_FLUSH = 30.0
"""Seconds between flushes, at most, where each costs money."""


class Location(msgspec.Struct, frozen=True, gc=False):
    """Where a record lies: a gzip member of a file, relative to the crawl's folder; and the digest of the decoded
    body, `sha256:` and hex."""

    warc_file: str
    warc_offset: int
    warc_length: int
    digest: str


class Archive:
    """Made by `open`. One task flushes; records and rows may be handed in from other threads meanwhile."""

    def __init__(self, store: Store, crawl: CrawlRecord, worker: str, number: int) -> None:
        self._store, self._crawl, self._worker = store, crawl, worker
        self._folder = folder.crawl_folder(crawl)
        self._info = {
            "isPartOf": crawl.id,
            "robots": "ignore" if crawl.settings.ignore_robots else "classic",
            "http-header-user-agent": crawl.settings.user_agent,
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        }
        self._lock = threading.Lock()
        self._flushing = asyncio.Lock()
        self._number = number
        self._segments = [self._begin()]
        self.flush_every = 0.0 if store.appends else min(LONGEST_FLUSH, crawl.settings.lease_seconds / 4)
        """Seconds to leave between flushes: 0 where a flush is free."""

    @classmethod
    async def open(cls, store: Store, crawl: CrawlRecord, worker: str) -> Archive:
        """Take over what killed workers left, and go on with a new segment. Errors: StoreUnavailable."""
        where = folder.crawl_folder(crawl)
        await store.take_over(where)
        names = await store.files(where, folder.WARC) + await store.files(where, folder.PAGES)
        return cls(store, crawl, worker, folder.last_number(names, worker))

    @property
    def size(self) -> int:
        """Unflushed bytes."""
        with self._lock:
            return sum(segment.size for segment in self._segments)

    def record(self, response: Response, revisit: Revisit | None = None) -> Location:
        """Add a response, or a revisit record in its place; then the digest is that of the body that has not changed.

        Compression is the work, so call it from a thread, one at a time; it does no I/O.
        """
        if revisit is None:
            record, page = warc.response_record(response, self._crawl.id), response
        else:
            record, page = warc.revisit_record(response, self._crawl.id, revisit.reference), revisit.page
        member = compress(record)
        digest = "sha256:" + sha256(page.body).hexdigest()
        with self._lock:
            if self._segments[-1].end >= SEGMENT_SIZE:
                self._segments.append(self._begin())
            segment = self._segments[-1]
            if not segment.end:
                segment.add(compress(warc.warcinfo(segment.file.rpartition("/")[2], self._info, time.time())))
            return Location(segment.file, segment.add(member), len(member), digest)

    def row(self, row: PageRow) -> None:
        """Add a row; after the record it points to."""
        line = encode(row)
        with self._lock:
            self._segments[-1].add_row(line)

    async def flush(self) -> None:
        """When this returns, everything handed in before the call is durable.

        StoreUnavailable: it is kept; repeat the call. StoreError: the store will not have it.
        """
        async with self._flushing:
            with self._lock:
                if not self._store.appends and self._segments[-1].size:
                    self._segments.append(self._begin())
                segments = list(self._segments)
            for segment in segments:
                await segment.flush(self._lock)
                if segment is not segments[-1]:
                    await segment.finish()
                    with self._lock:
                        self._segments.remove(segment)

    async def close(self) -> None:
        """Flush, and give the files their final names. Nothing may be handed in after it; it may be repeated."""
        await self.flush()
        async with self._flushing:
            await self._segments[-1].finish()

    def _begin(self) -> _OpenSegment:
        self._number += 1
        name = folder.segment_name(self._worker, self._number)
        return _OpenSegment(folder.file_name(folder.WARC, name), self._store.segment(self._folder, name))


class _OpenSegment:
    """What waits to be written to a segment. `end` is where the next record will lie; all but `flush` under a lock."""

    def __init__(self, file: str, target: Segment) -> None:
        self.file, self.end, self.size = file, 0, 0
        self._target = target
        self._warc: list[bytes] = []
        self._rows: list[bytes] = []
        self._warc_at = self._rows_at = 0

    def add(self, member: bytes) -> int:
        offset = self.end
        self._warc.append(member)
        self.end += len(member)
        self.size += len(member)
        return offset

    def add_row(self, line: bytes) -> None:
        self._rows.append(line)
        self.size += len(line)

    async def flush(self, lock: threading.Lock) -> None:
        with lock:
            warc_pieces, row_pieces = self._warc[:], self._rows[:]
        if not warc_pieces and not row_pieces:
            return
        records, rows = await asyncio.to_thread(_pack, warc_pieces, row_pieces)
        # Forgotten only after it is written: a call that failed or was cancelled is repeated at the same offsets.
        await self._target.write(Piece(self._warc_at, records), Piece(self._rows_at, rows))
        with lock:
            self._warc_at += len(records)
            self._rows_at += len(rows)
            del self._warc[: len(warc_pieces)], self._rows[: len(row_pieces)]
            self.size -= len(records) + sum(map(len, row_pieces))

    async def finish(self) -> None:
        await self._target.finish()


def _pack(warc_pieces: list[bytes], row_pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Bytes for the two files: the records as they are, the rows of the batch as one gzip member."""
    return b"".join(warc_pieces), compress(b"".join(row_pieces)) if row_pieces else b""
