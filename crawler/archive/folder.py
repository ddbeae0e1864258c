"""Where things lie in a store. Names are relative to the store's address, or to the crawl's folder where said so.

    crawls/YYYY/MM/DD/<crawl>/warc/<worker>-<n>.warc.gz
    crawls/YYYY/MM/DD/<crawl>/pages/<worker>-<n>.ndjson.gz
    crawls/YYYY/MM/DD/<crawl>.parquet
    crawls/YYYY/MM/DD/<crawl>.validators
    crawls/YYYY/MM/DD/<crawl>.summary.json, .summary.txt
    tables/pages/day=YYYY-MM-DD/<crawl>.parquet

A segment is a pair of files of one name: records, and the rows written in the same time.
The file below `tables` is a copy, in a bucket only, for query engines.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from crawler.model import CrawlRecord

WARC: Final = "warc"
PAGES: Final = "pages"
OPEN: Final = ".open"
"""What the name of a file ends with while its worker may still write to it."""

PARQUET: Final = ".parquet"

SUMMARY: Final = ".summary.json"
SUMMARY_TEXT: Final = ".summary.txt"

BESIDE: Final = (PARQUET, ".validators", SUMMARY, SUMMARY_TEXT)
"""What follows a crawl's name in the files beside its folder. Another crawl's name may begin with that name and a
dot."""

TABLE: Final = "tables/pages"
"""A table of all crawls for query engines such as Athena: a folder a day, partitioned as Hive does it.

They read whatever lies below a table's folder as rows. Below the crawls' own folders lie records, too.
"""

_SUFFIX = {WARC: ".warc.gz", PAGES: ".ndjson.gz"}


def crawl_folder(crawl: CrawlRecord) -> str:
    """Folder of a crawl; the date is the day it started (UTC)."""
    return time.strftime("crawls/%Y/%m/%d/", time.gmtime(crawl.started_at)) + _safe(crawl.id)


def parquet_name(crawl: CrawlRecord) -> str:
    """The merged file of a crawl."""
    return crawl_folder(crawl) + PARQUET


def validators_name(crawl: CrawlRecord) -> str:
    """What a later crawl that revisits this one asks by."""
    return crawl_folder(crawl) + ".validators"


def summary_name(crawl: CrawlRecord) -> str:
    """The totals of a complete crawl, for programs."""
    return crawl_folder(crawl) + SUMMARY


def summary_text_name(crawl: CrawlRecord) -> str:
    """The totals of a complete crawl, for people."""
    return crawl_folder(crawl) + SUMMARY_TEXT


def table_name(folder: str) -> str:
    """A crawl's file of the table, by the crawl's folder. Query engines ignore names with `_` or `.` in front."""
    _, year, month, day, crawl = folder.split("/")
    visible = "%5F" + crawl[1:] if crawl.startswith("_") else crawl
    return f"{TABLE}/day={year}-{month}-{day}/{visible}{PARQUET}"


def segment_name(worker: str, number: int) -> str:
    """Name of a worker's segment; numbers begin at 1."""
    return f"{_safe(worker)}-{number:04}"


def file_name(kind: str, segment: str) -> str:
    """A file of a segment, relative to the crawl's folder; `kind` is WARC or PAGES."""
    return f"{kind}/{segment}{_SUFFIX[kind]}"


def segment_of(name: str) -> str | None:
    """The segment a file belongs to, `.open` or not; None for a file that is no part of one."""
    base = name.rpartition("/")[2].removesuffix(OPEN)
    for suffix in _SUFFIX.values():
        if base.endswith(suffix):
            return base.removesuffix(suffix)
    return None


def last_number(names: Iterable[str], worker: str) -> int:
    """Highest number among a worker's segments; 0 when it has none."""
    last = 0
    for name in names:
        owner, _, number = (segment_of(name) or "").rpartition("-")
        if owner == _safe(worker) and number.isdecimal():
            last = max(last, int(number))
    return last


def _safe(name: str) -> str:
    """One path component, whatever the name: the unreserved characters stay (RFC 3986 2.3), a leading dot does not."""
    quoted = quote(name, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted
