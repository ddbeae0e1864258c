"""Verify, the records' side: each record has the row that points to it, and each row its record."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from hashlib import blake2b

from crawler.archive.inspection import inspect
from crawler.archive.members import members
from crawler.archive.rows import PageRow
from crawler.archive.stores import StoredFile
from crawler.archive.verify_report import VerifyReport
from crawler.archive.warc import target_uri
from crawler.redirect import REDIRECTS


class _Places:
    """Where the rows say that the records of one WARC file lie."""

    def __init__(self) -> None:
        self.offsets, self.lengths, self.uris = array("Q"), array("Q"), array("Q")
        self.revisits = array("B")

    def add(self, offset: int, length: int, uri: int, revisit: bool) -> None:
        self.offsets.append(offset)
        self.lengths.append(length)
        self.uris.append(uri)
        self.revisits.append(revisit)


class Records:
    """First `expect` what all rows say, then `read` all WARC files, then `missing`. 25 bytes a row.

    `spare` holds what to say of the records no row points to, by `page_hash`, unless the ledger knows their page: then
    a kill cut short their row, and the page came again.
    """

    def __init__(self, report: VerifyReport, tell: Callable[[str, int], None]) -> None:
        self._report, self._tell = report, tell
        self._places: dict[str, _Places] = {}
        self.spare: dict[int, str] = {}

    def expect(self, row: PageRow) -> bool:
        """Note where a row's record should lie; False when the row names none."""
        if row.warc_file is None or row.warc_offset is None or row.warc_length is None:
            return False
        # A page that sent the crawler on within its own redirect chain is the answer that was found there.
        followed = row.redirect_to is not None and row.status not in REDIRECTS
        uri = page_hash(row.redirect_to if followed and row.redirect_to else row.url)
        revisit = row.original_file is not None
        self._places.setdefault(row.warc_file, _Places()).add(row.warc_offset, row.warc_length, uri, revisit)
        return True

    def read(self, file: StoredFile) -> None:
        """Read the records of a file, and compare them with what the rows said."""
        report = self._report
        report.files += 1
        places = self._places.pop(file.name, None) or _Places()
        expected: dict[int, int] = {}
        for place, offset in enumerate(places.offsets):
            if expected.setdefault(offset, place) != place:
                report.fault(f"{file.name}: two rows point to the record at {offset}")
        with file.path.open("rb") as source:
            for member in members(source):
                at = f"{file.name}: the record at {member.offset}"
                if member.data is None:
                    unreadable(report, file, member.offset, member.length)
                    # Its row is not told twice.
                    expected.pop(member.offset, None)
                    continue
                record = inspect(member.data)
                if record.flaw:
                    report.fault(f"{at} {record.flaw} {record.uri}".rstrip())
                if (member.offset == 0) != (record.kind == "warcinfo"):
                    report.fault(f"{at} is of type {record.kind}: a file begins with its only warcinfo")
                if record.kind == "warcinfo":
                    continue
                report.records += 1
                self._tell("records", report.records)
                found = expected.pop(member.offset, None)
                if found is None:
                    self.spare[_short(record.uri)] = f"{at} of {record.uri} has no row, nor is it in the ledger"
                elif places.lengths[found] != member.length:
                    report.fault(f"{at} has {member.length} bytes, its row says {places.lengths[found]}")
                elif places.uris[found] != _short(record.uri):
                    report.fault(f"{at} is of {record.uri}, its row of another URL")
                elif places.revisits[found] != (record.kind == "revisit"):
                    whose = "another record's" if places.revisits[found] else "the record's own"
                    report.fault(f"{at} is of type {record.kind}, its row says that the body is {whose}")
        for offset in expected:
            report.fault(f"{file.name}: a row points to {offset}, where no record begins")

    def missing(self) -> None:
        """After all files: what rows still point to is not there."""
        for name, places in self._places.items():
            self._report.fault(f"{name} is missing; {len(places.offsets)} rows point to it")


def unreadable(report: VerifyReport, file: StoredFile, offset: int, length: int) -> None:
    """A stretch of a file that is no gzip member; the end of a file that is being written is no fault."""
    if not file.live:
        report.fault(f"{file.name}: {length} bytes at {offset} are no whole gzip member")


def page_hash(url: str) -> int:
    """A page's URL as its record names it, in eight bytes."""
    return _short(target_uri(url))


def _short(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
