"""Values for the archive's tests: a crawl, responses, rows, and reading back with an independent reader."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import msgspec
from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord

from crawler.archive.archive import Archive, Location
from crawler.archive.folder import PAGES, WARC, crawl_folder
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store
from crawler.config import CrawlSettings
from crawler.fetched import Response
from crawler.model import CrawlRecord
from crawler.url_key import STANDARD

START = 1_790_000_000.0
"""2026-09-21, UTC."""


def crawl(**settings: Any) -> CrawlRecord:
    return CrawlRecord(id="c1", started_at=START, settings=CrawlSettings(**settings))


def response(number: int | str = 1, **changes: Any) -> Response:
    """A small page; `number` makes URL and body."""
    body = f"<title>Page {number}</title>".encode() * 20
    values: dict[str, Any] = {
        "url": f"http://site.test/{number}",
        "status": 200,
        "reason": "OK",
        "version": "HTTP/1.1",
        "headers": ((b"Content-Type", b"text/html"), (b"Content-Length", b"%d" % len(body))),
        "stored": body,
        "body": body,
        "fetched_at": START + 1.5,
        "elapsed": 0.25,
    }
    if "stored" in changes:
        values["body"] = changes["stored"]
    return Response(**{**values, **changes})


def row(number: int | str = 1, location: Location | None = None, **changes: Any) -> PageRow:
    """The row of `response(number)`, or of a page without an answer when there is no location."""
    url = f"http://site.test/{number}"
    values: dict[str, Any] = {
        "crawl_id": "c1",
        "url": url,
        "url_key": STANDARD.key(url),
        "host": "site.test",
        "depth": 0,
        "outcome": "done" if location else "skipped",
        "fetched_at": START + 1.5,
    }
    if location is not None:
        values |= {"status": 200, "bytes": 400, **msgspec.structs.asdict(location)}
    return PageRow(**{**values, **changes})


def add(archive: Archive, number: int | str, **changes: Any) -> Location:
    """One page as the crawl loop hands it in: record, then row."""
    location = archive.record(response(number))
    archive.row(row(number, location, **changes))
    return location


async def stored(store: Store, kind: str) -> dict[str, bytes]:
    """All files of a kind in the crawl's folder, as they are."""
    folder = crawl_folder(crawl())
    names = await store.files(folder, kind)
    return {file.name: file.path.read_bytes() async for file in store.read(folder, names)}


async def stored_rows(store: Store) -> list[PageRow]:
    """All rows in the crawl's folder, by file."""
    files = (await stored(store, PAGES)).values()
    return [msgspec.json.decode(line, type=PageRow) for data in files for line in gzip.decompress(data).splitlines()]


async def stored_urls(store: Store) -> list[str]:
    """Target URIs of the responses in the crawl's folder, by file."""
    files = (await stored(store, WARC)).values()
    return [uri for data in files for kind, uri, _ in read_warc(data) if kind == "response"]


def read_warc(data: bytes) -> list[tuple[str, str, bytes]]:
    """Type, target URI and payload (as stored) of each record, read by warcio, which raises on a wrong digest."""
    return [
        (record.rec_type, record.rec_headers.get_header("WARC-Target-URI") or "", payload(record))
        for record in ArchiveIterator(io.BytesIO(data), check_digests="raise")
    ]


def payload(record: ArcWarcRecord) -> bytes:
    data = record.raw_stream.read()
    assert isinstance(data, bytes)
    return data


def folder_of(path: Path) -> Path:
    return path / crawl_folder(crawl())


def open_files(path: Path) -> list[str]:
    return sorted(file.name for file in folder_of(path).rglob("*.open"))
