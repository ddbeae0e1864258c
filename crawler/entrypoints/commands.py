"""The short commands: seed, status, merge, sweep. Each opens the state, does one thing and says what it did."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from crawler.archive.stores import open_store
from crawler.entrypoints.cookies import CookieFile, seed_cookies
from crawler.entrypoints.identity import worker_name
from crawler.entrypoints.opening import open_with_rows
from crawler.entrypoints.places import pick_crawl, store_address
from crawler.entrypoints.seeds import add_seeds, crawl_to_seed, sitemaps_if_given
from crawler.entrypoints.show import approximation, host_table, out, table
from crawler.entrypoints.status import hosts_of, status_of
from crawler.errors import NotImportable
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

WATCH = 2.0
"""Seconds between two looks of `status --watch`."""


@asynccontextmanager
async def opened(
    address: str, *, store: str | None = None, crawl: str | None = None, create: bool = False
) -> AsyncIterator[CrawlState]:
    """The state at an address, closed afterwards. Where the command may end dead letters of the queue, rows of `crawl`,
    if it is named, go to the `store` given."""
    given = store if crawl else None
    state = await open_with_rows(address, worker=worker_name(), store=given, crawl=crawl, create=create)
    try:
        yield state
    finally:
        await state.close()


def warn(line: str) -> None:
    """A line for a person, beside the result."""
    sys.stderr.write(f"crawler: {line}\n")


def json_line(value: Any) -> str:
    return msgspec.json.encode(value).decode()


async def named(state: CrawlState, crawl: str | None) -> CrawlRecord:
    """The crawl meant; when it was not named, says which."""
    record = await pick_crawl(state, crawl)
    if crawl is None:
        log.warning("crawl %s", record.id)  # -q keeps this back
    return record


async def seed(
    address: str,
    store: str | None,
    crawl: str | None,
    lines: Iterable[str],
    settings: dict[str, Any],
    cookies: CookieFile | None = None,
    sitemaps: Sequence[str] = (),
    *,
    as_json: bool,
) -> str:
    """Add seeds and what sitemaps list, making the crawl when there is none (of that name)."""
    if settings.get("extract"):
        from crawler.extractor import check_function

        try:
            await check_function(settings["extract"])
        except NotImportable as error:
            warn(f"{error}; the workers need it")
    async with opened(address, create=True) as state:
        record = await crawl_to_seed(state, crawl, settings, store or "")
        if cookies is not None:
            warn(await seed_cookies(state, record, cookies))
        async with sitemaps_if_given(state, record, sitemaps) as given:
            seeded = await add_seeds(state, record, lines, warn)
            listed = await given.add(warn) if given is not None else []
    if record.paused:
        warn(f"crawl {record.id} is paused: they wait for `crawler resume`")
    if as_json:
        counted = {"crawl": record.id, "new": seeded.new, "known": seeded.known, "bad": seeded.bad}
        return json_line(counted | ({"sitemaps": listed} if listed else {}))
    text = f"crawl {record.id}: {seeded.new} seeds added, {seeded.known} known already"
    return "\n".join(filter(None, (text, approximation(record.settings))))


class HostsWanted(msgspec.Struct, frozen=True):
    """How `status` is to show hosts."""

    sort: str
    top: int


async def status(address: str, crawl: str | None, hosts: HostsWanted | None, *, watch: bool, as_json: bool) -> None:
    """Print the status once, or again and again in place."""
    async with opened(address) as state:
        record = await pick_crawl(state, crawl)
        while True:
            text = await _status(state, record, hosts, as_json=as_json)
            out(f"\x1b[H\x1b[2J{text}" if watch and not as_json and sys.stdout.isatty() else text)
            if not watch:
                return
            await asyncio.sleep(WATCH)


async def _status(state: CrawlState, record: CrawlRecord, wanted: HostsWanted | None, *, as_json: bool) -> str:
    current = await status_of(state, record)
    hosts = await hosts_of(state, record, wanted.sort) if wanted else []
    if as_json:
        # All hosts: a script picks for itself.
        return json_line(msgspec.structs.asdict(current) | ({"host_table": hosts} if wanted else {}))
    return f"{table(current)}\n\n{host_table(hosts, wanted.top)}" if wanted else table(current)


async def sweep(address: str, store: str | None, crawl: str | None, *, as_json: bool) -> str:
    """Queue again what is neither queued nor finished; says how many."""
    async with opened(address, store=store, crawl=crawl) as state:
        record = await named(state, crawl)
        count = await state.sweep(record.id)
        counts = await state.counts(record.id)
    if as_json:
        return json_line({"crawl": record.id, "queued": count})
    if count:
        return f"{count} pages queued again"
    if counts.outstanding and not counts.exact:
        return "0 pages queued again: what is left behind shows only when the queues are empty, and no crawl is paused"
    return "0 pages queued again: none was left behind"


async def merge(address: str, store: str | None, crawl: str | None, *, as_json: bool) -> str:
    """Merge the rows into one Parquet file; says where it lies. A summary that the janitor wrote tells of it, too."""
    from crawler.archive.rowless import merge_whole
    from crawler.archive.summary import renew

    async with opened(address) as state:
        record = await named(state, crawl)
        archive = open_store(store_address(store, record, state))
        result = await merge_whole(state, archive, record)
        await renew(archive, record, result.faults)
    if as_json:
        values = {"crawl": record.id, "rows": result.rows, "path": result.path, "unchanged": result.unchanged}
        return json_line(values)
    unchanged = f", {result.unchanged} of them unchanged since {record.settings.from_crawl}"
    return f"{result.rows} rows in {result.path}" + (unchanged if record.settings.from_crawl else "")
