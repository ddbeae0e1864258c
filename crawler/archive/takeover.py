"""Takeover: what a killed worker left open in a folder is cut back to what it had made durable, and closed.

A worker makes a batch's records durable first, then one gzip member with the batch's rows, and only then are the
batch's pages settled. So a row member that is whole, and whose records are all there, may have been settled and is
kept. What follows it was settled by nobody: it is cut off, and the frontier hands those pages out again.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import msgspec

from crawler.archive.disk import lock_if_free, sync_folder
from crawler.archive.folder import OPEN, PAGES, WARC, file_name, segment_of
from crawler.archive.members import members


class _Place(msgspec.Struct, gc=False):
    """The part of a row that says where its record is."""

    warc_file: str | None = None
    warc_offset: int | None = None
    warc_length: int | None = None


_decoder = msgspec.json.Decoder(_Place)


def take_over(folder: Path) -> int:
    """Close the segments of a crawl's folder whose workers are gone; says how many. Blocking. Raises OSError.

    If this process dies anywhere in it, the next takeover goes on: cutting is repeatable, and each file is renamed
    only after it was cut.
    """
    segments = {
        segment
        for kind in (WARC, PAGES)
        for path in (folder / kind).glob(f"*{OPEN}")
        if (segment := segment_of(path.name)) is not None
    }
    return sum(_take_segment(folder, segment) for segment in sorted(segments))


def _take_segment(folder: Path, segment: str) -> bool:
    closed = {kind: folder / file_name(kind, segment) for kind in (WARC, PAGES)}
    opened = {kind: path.with_name(path.name + OPEN) for kind, path in closed.items()}
    with ExitStack() as stack:
        locked: dict[str, int] = {}
        for kind, path in opened.items():
            descriptor = lock_if_free(path)
            if descriptor is not None:
                stack.callback(os.close, descriptor)
                locked[kind] = descriptor
            elif path.exists():
                return False  # its worker lives, or another takeover is at it
        if not locked or any(closed[kind].exists() for kind in locked):
            return False  # what is closed is never overwritten
        # A WARC file that has its final name already was whole when it got it.
        there = os.fstat(locked[WARC]).st_size if WARC in locked else _size(closed[WARC])
        rows = opened[PAGES] if PAGES in locked else closed[PAGES]
        records_end, rows_end = _settled_ends(rows, file_name(WARC, segment), there) if rows.exists() else (0, 0)
        for kind, end in ((WARC, records_end), (PAGES, rows_end)):
            if kind in locked:
                _close(opened[kind], closed[kind], locked[kind], end)
    return True


def _settled_ends(rows: Path, warc_file: str, there: int) -> tuple[int, int]:
    """Ends of the records and of the rows that may have been settled, when the WARC file has `there` bytes."""
    records_end = rows_end = 0
    with rows.open("rb") as file:
        for member in members(file):
            if member.data is None:
                break
            try:
                places = [_decoder.decode(line) for line in member.data.splitlines()]
            except msgspec.DecodeError:
                break
            ends = [
                place.warc_offset + place.warc_length
                for place in places
                if place.warc_file == warc_file and place.warc_offset is not None and place.warc_length is not None
            ]
            if max(ends, default=0) > there:
                break
            records_end = max(records_end, *ends, 0)
            rows_end = member.offset + member.length
    return records_end, rows_end


def _close(opened: Path, closed: Path, descriptor: int, end: int) -> None:
    """Cut a file and give it its final name; a file of which nothing is kept goes away."""
    if end:
        os.ftruncate(descriptor, end)
        os.fsync(descriptor)
        opened.rename(closed)
    else:
        opened.unlink()
    sync_folder(closed.parent)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
