"""A small server with entity tags, crawls of it one after the other in this process, and what they stored."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from warcio.archiveiterator import ArchiveIterator

from crawler.archive.folder import WARC, crawl_folder, parquet_name
from crawler.archive.merge import merge
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.entrypoints.seeds import add_seeds, crawl_to_seed
from crawler.loop import Exit, Worker
from crawler.model import CrawlRecord
from tests.faults.crawls import state_in
from tests.manners.crawls import HTML
from tests.servers import Server, reply

Rows = dict[str, dict[str, Any]]
PAGE = b'<html lang=de><title>One</title><link rel=canonical href=/c><a href=/two>2</a><a href="/three?b=1">3</a>'
PAGES = {"/": PAGE, "/two": b"<title>Two</title><a href=/>1</a>", "/three?b=1": b"<title>Three</title>"}

SAME, UNCHANGED, STORED = "identical-payload-digest", "server-not-modified", "response"
"""Kinds of records, as `types` tells them."""


class Pages:
    """A site with entity tags: its pages by target, and what is peculiar about some."""

    def __init__(self, pages: dict[str, bytes] | None = None) -> None:
        self.pages = dict(pages or PAGES)
        self.tags: dict[str, str] = {}
        self.special: dict[str, Callable[[bytes], bytes | None]] = {}

    def tag(self, target: str) -> str:
        return self.tags.get(target, f'"{len(self.pages[target])}"')

    def __call__(self, target: str, head: bytes) -> bytes:
        if target in self.special and (answer := self.special[target](head)) is not None:
            return answer
        if target not in self.pages:
            return reply(b"no", HTML, status="404 Not Found")
        tag = self.tag(target)
        if tag and condition(head) == tag:
            return not_modified(f"ETag: {tag}")
        return reply(self.pages[target], "Content-Type: text/html; charset=utf-8", *([f"ETag: {tag}"] if tag else []))


def not_modified(*fields: str) -> bytes:
    return "".join(("HTTP/1.1 304 Not Modified\r\n", *(f"{field}\r\n" for field in fields), "\r\n")).encode("latin-1")


def field(head: bytes, name: str) -> str | None:
    found = re.search(rb"\r\n" + name.encode() + rb": ([^\r]*)", head, re.IGNORECASE)
    return found[1].decode("latin-1") if found else None


def condition(head: bytes) -> str | None:
    return field(head, "If-None-Match")


def asked(server: Server) -> list[str]:
    """Targets of the requests for pages; what robots.txt says is still known to a later crawl."""
    return [target for target in server.targets if target != "/robots.txt"]


def conditional(server: Server) -> list[str]:
    """Targets of the requests that had a condition."""
    heads = [head for head in server.requests if condition(head) or field(head, "If-Modified-Since")]
    return [head.split(b" ", 2)[1].decode() for head in heads]


async def crawled(folder: Path, name: str, *seeds: str, store: str = "", **settings: Any) -> Rows:
    """The merged rows, by URL, of a crawl that ended sound."""
    address = store or str(folder)
    async with state_in(folder, f"w-{name}") as state:
        given = {"rate": 0.0, "allow_private": True, "lease": 5.0, **settings}
        record = await crawl_to_seed(state, name, given, address)
        await add_seeds(state, record, seeds, print)
        worker = Worker(state, address, name=f"w-{name}", crawl=name, until_complete=True)
        assert await worker.run() is Exit.COMPLETE
        archive = open_store(address)
        merged = await merge(archive, record)
        report = await verify(state, archive, record)
        assert report.faults == []
        assert (await state.counts(name)).dead == 0
        async with archive.existing(parquet_name(record)) as path:
            assert path is not None
            rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        assert merged.unchanged == sum(row["original_file"] is not None for row in rows)
    return {row["url"]: row for row in rows}


async def types(folder: Path, name: str, store: str = "") -> dict[str, str]:
    """What kind of record a crawl has of each URL, read by an independent reader: the end of a revisit's profile."""
    found: dict[str, str] = {}
    archive = open_store(store or str(folder))
    record = await record_of(folder, name)
    where = crawl_folder(record)
    async for file in archive.read(where, await archive.files(where, WARC)):
        with file.path.open("rb") as stream:
            for each in ArchiveIterator(stream, check_digests="raise"):
                header = each.rec_headers.get_header
                profile = header("WARC-Profile") or each.rec_type
                assert not each.raw_stream.read() or each.rec_type != "revisit", profile
                if each.rec_type != "warcinfo":
                    found[header("WARC-Target-URI")] = profile.rpartition("/")[2]
    return found


async def record_of(folder: Path, name: str) -> CrawlRecord:
    async with state_in(folder, "reader") as state:
        return next(record for record in await state.crawls() if record.id == name)
