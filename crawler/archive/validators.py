"""The validators of a crawl, for a crawl that revisits it: `<crawl>.validators`, a SQLite file beside its Parquet file.

For every page that was answered with 200: its validators (RFC 9110 8.8), the digest of its body, and where the record
of that body lies. A page that was found unchanged refers to the record of the crawl that has the body, however many
crawls ago that was, so a chain of revisits does not grow. Entries are found by the URL as it went on the wire: another
spelling of a page is another resource to some servers, and has no entry.

A worker opens the file once, read-only, and looks up locally. Nothing here imports pyarrow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from crawler.archive.folder import crawl_folder
from crawler.errors import StoreError
from crawler.model import CrawlRecord, Ending

VERSION = 1

COLUMNS = (
    "url", "outcome", "status", "redirect_to", "bytes", "truncated", "digest", "etag", "last_modified", "fetched_at",
    "warc_file", "warc_offset", "warc_length", "original_file", "original_offset", "original_length",
)  # fmt: skip
"""Columns of the merged rows that entries are made of."""

_TABLES = """
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE entries (url BLOB NOT NULL, etag TEXT, last_modified TEXT, fetched_at REAL NOT NULL, digest BLOB NOT NULL,
    size INTEGER NOT NULL, file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL);
"""

_FIND = """
SELECT etag, last_modified, fetched_at, digest, size, name, offset, length
FROM entries JOIN files ON files.id = entries.file WHERE url = ?
"""


class Known(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What an earlier crawl knows of a URL. `fetched_at` is when it last heard of it (Unix seconds).

    `digest` is the SHA-256 of the decoded body, `size` its bytes. `file` is the WARC file of the body's record,
    relative to the store; `offset` and `length` delimit the record's gzip member.
    """

    etag: str | None
    last_modified: str | None
    fetched_at: float
    digest: bytes
    size: int
    file: str
    offset: int
    length: int


def write_validators(path: Path, crawl: CrawlRecord, rows: Iterable[Mapping[str, Any]]) -> int:
    """Make the file of a crawl's merged rows (each with COLUMNS); says how many entries it has.

    Memory stays flat: the index is built from the finished table, sorted on disk.
    """
    folder = crawl_folder(crawl)
    files: dict[str, int] = {}
    # Written to a name that nobody reads yet: a crash leaves nothing to recover.
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(_TABLES)
        database.execute("BEGIN")
        entries = (entry for row in rows if (entry := _entry(row, folder, files)) is not None)
        added = database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", entries).rowcount
        database.executemany("INSERT INTO files VALUES (?, ?)", ((number, name) for name, number in files.items()))
        database.execute("CREATE INDEX by_url ON entries (url)")
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")
    return max(added, 0)


def _entry(row: Mapping[str, Any], folder: str, files: dict[str, int]) -> tuple[Any, ...] | None:
    """A row's entry; None for what is no whole page of its own.

    A body that was cut must be fetched again, whatever the server says of it; and one that another URL sent, at the
    end of a page's redirects, has the validators of that URL.
    """
    digest = row["digest"] or ""
    if row["outcome"] != Ending.DONE or row["truncated"] or row["redirect_to"] or not digest.startswith("sha256:"):
        return None
    if row["original_file"]:
        place = row["original_file"], row["original_offset"], row["original_length"]
    elif row["status"] == 200 and row["warc_file"]:
        place = f"{folder}/{row['warc_file']}", row["warc_offset"], row["warc_length"]
    else:
        return None
    file = files.setdefault(place[0], len(files))
    fetched_at = row["fetched_at"].timestamp()
    content = bytes.fromhex(digest.removeprefix("sha256:")), row["bytes"] or 0
    return (_name(row["url"]), row["etag"], row["last_modified"], fetched_at, *content, file, *place[1:])


class Validators:
    """The file, open for look-ups. The path may lose its name meanwhile."""

    def __init__(self, path: Path) -> None:
        """StoreError when it is no such file."""
        try:
            # Never written to: no locks, and no look for a journal beside it.
            address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
            self._database = sqlite3.connect(address, uri=True, check_same_thread=False)
            (version,) = self._database.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"it cannot be read: {error}") from None
        if version != VERSION:
            self.close()
            raise StoreError(f"it is of version {version}, this program reads {VERSION}")

    def find(self, url: str) -> Known | None:
        """The entry of a wire URL. StoreError when the file is damaged."""
        try:
            found = self._database.execute(_FIND, (_name(url),)).fetchone()
            return msgspec.convert(found, Known) if found is not None else None
        except (sqlite3.Error, msgspec.ValidationError) as error:
            raise StoreError(f"it is damaged: {error}") from None

    def close(self) -> None:
        """Close the file; it may be repeated."""
        self._database.close()


def _name(url: str) -> bytes:
    return sha256(url.encode("utf-8", "surrogatepass")).digest()[:16]
