"""A complete crawl: merged, summed up, and told of, once for each time that it becomes complete.

    merge -> write the summary -> emit the event -> write into the summary that it was announced

The summary in the store is the memory of it. Killed before it is written, the next look merges again; killed between
event and mark, it emits the event again: listeners get each completion at least once, under the same crawl and
`completed_at`. A crawl that is complete for a second time, after `crawler dead retry`, has another `completed_at`.

A merge that does not fit into this process is given up and told so, with the command that merges elsewhere: at once
when the disk is full or a whole look is too short for it, otherwise after some that did not end: they killed the
process (memory), or had what other crawls had left of a look.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from crawler.archive.folder import crawl_folder, summary_name
from crawler.archive.rowless import merge_whole
from crawler.archive.stores import Store, open_store, reaches
from crawler.archive.summary import (
    Files,
    Summary,
    add_rows,
    files_of,
    moment,
    read_summary,
    write_summary,
)
from crawler.errors import CrawlerError, StateUnavailable, StoreUnavailable
from crawler.model import Counts, CrawlRecord
from crawler.state.open import spoken, stack_of
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

Announce = Callable[[str], Awaitable[None]]
"""Emits the event `CrawlCompleted` with a manifest, given as JSON. Errors: CrawlerError."""

TRIES = 3
"""Merges that began and did not end, until no more begins."""

REMEMBERED = 14 * 24 * 3600.0
"""Seconds for which it is known how often that was."""

SPARE = 30.0
"""Seconds that a merge leaves for what follows it."""

PLENTY = 600.0
"""Seconds; a merge that had so many and did not end has no more of them at a later look."""


class PageCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Pages as the event tells them."""

    discovered: int
    done: int
    skipped: int
    dead: int
    bytes: int
    hosts: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The event's detail. `bucket` is "" where the store is a folder; `prefix` begins the keys of the crawl's own
    files; `parquet` and `summary` are keys. Without a Parquet file `parquet` is None and `note` says why."""

    stack: str
    crawl: str
    bucket: str
    prefix: str
    parquet: str | None
    summary: str
    started_at: str
    completed_at: str
    counts: PageCounts
    note: str = ""


class Closing:
    """Closes crawls of one state. `address` is the state's, for the commands that are told."""

    def __init__(self, state: CrawlState, address: str, announce: Announce, clock: Callable[[], float]) -> None:
        self._state, self._address, self._announce, self._clock = state, address, announce, clock

    @property
    def stack(self) -> str:
        """The name under which metrics and events know this state."""
        return stack_of(self._address) or self._address

    async def close(self, record: CrawlRecord, seconds: float) -> bool:
        """Do what is left to do for a complete crawl, the merge within `seconds`. False: another process is at it, the
        crawl has gone on and is not complete any more, or its merge is left to a look with more time.

        Errors: CrawlerError; the next look goes on.
        """
        assert record.completed_at is not None
        address = record.store or self._state.home
        here = reaches(self._state.home, address)
        store = open_store(address if here else self._state.home)
        summary = await read_summary(store, record)
        if summary is None or summary.completed_at != moment(record.completed_at):
            made = await self._summed_up(store, record, seconds, f"its archive is in {address}" if not here else "")
            if made is None:
                return False
            summary = made
            await write_summary(store, record, summary)
        if summary.announced_at is None:
            await self._announce(msgspec.json.encode(self._manifest(store, record, summary)).decode())
            summary.announced_at = moment(self._clock())
            await write_summary(store, record, summary)
        return True

    async def _summed_up(self, store: Store, record: CrawlRecord, seconds: float, elsewhere: str) -> Summary | None:
        """Merge and sum up, unless it is not to be done now."""
        name = f"janitor merge {record.id} {record.completed_at}"
        if not await self._state.remember(f"{name} lock", b"", seconds, if_absent=True):
            return None
        try:
            counts = await self._state.counts(record.id)
            if not any(
                (now.id, now.completed_at) == (record.id, record.completed_at) for now in await self._state.crawls()
            ):
                log.info("crawl %s goes on: it is closed when it is complete again", record.id)
                return None  # these may not be the counts of its end
            (kept,) = await self._state.recall([name])
            tried = int(kept or 0)
            if elsewhere or tried >= TRIES:
                note = elsewhere or f"{tried} merges of it did not end here: it is too large for the janitor"
                return await self._without_rows(store, record, counts, note)
            await self._state.remember(name, b"%d" % (tried + 1), REMEMBERED)
            try:
                async with asyncio.timeout(seconds - SPARE):
                    summary = await self._with_rows(store, record, counts)
            except TimeoutError:
                if seconds < PLENTY:
                    log.info("crawl %s: its merge did not end within %.0f s; a later look has more", record.id, seconds)
                    return None
                return await self._without_rows(store, record, counts, "merging it takes longer than a look may last")
            except (OSError, MemoryError, CrawlerError) as error:
                if _too_large(error):
                    return await self._without_rows(store, record, counts, "there is no room here to merge it")
                await self._state.remember(name, b"%d" % tried, REMEMBERED)  # it is known how this one ended
                raise
            await self._state.remember(name, b"%d" % tried, REMEMBERED)
            return summary
        finally:
            # Whoever is killed holds it until its time would have been over anyway.
            with suppress(StateUnavailable):
                await self._state.remember(f"{name} lock", b"", 0.0)

    async def _with_rows(self, store: Store, record: CrawlRecord, counts: Counts) -> Summary:
        merged = await merge_whole(self._state, store, record)
        summary = _summary(store, record, counts)
        await add_rows(store, record, summary, merged.faults)
        return summary

    async def _without_rows(self, store: Store, record: CrawlRecord, counts: Counts, why: str) -> Summary:
        note = f"not merged: {why}; run crawler merge --state {spoken(self._address)} --crawl {record.id}"
        log.warning("crawl %s: %s", record.id, note)
        summary = _summary(store, record, counts)
        summary.files, summary.note = await files_of(store, record), note
        return summary

    def _manifest(self, store: Store, record: CrawlRecord, summary: Summary) -> Manifest:
        bucket, prefix = _place(store.address)
        counts = {name: getattr(summary.counts, name) for name in PageCounts.__struct_fields__}
        parquet = summary.files.parquet
        return Manifest(
            stack=self.stack,
            crawl=summary.crawl,
            bucket=bucket,
            prefix=f"{prefix}{summary.folder}/",
            parquet=prefix + parquet if parquet else None,
            summary=prefix + summary_name(record),
            started_at=summary.started_at,
            completed_at=summary.completed_at,
            counts=PageCounts(**counts),
            note=summary.note,
        )


def _summary(store: Store, record: CrawlRecord, counts: Counts) -> Summary:
    assert record.completed_at is not None
    return Summary(
        crawl=record.id,
        store=store.address,
        folder=crawl_folder(record),
        started_at=moment(record.started_at),
        completed_at=moment(record.completed_at),
        counts=counts,
        files=Files(),
    )


def _place(address: str) -> tuple[str, str]:
    """Bucket and what keys begin with; a folder has no bucket."""
    if not address.startswith("s3://"):
        return "", ""
    bucket, _, prefix = address.removeprefix("s3://").strip("/").partition("/")
    return bucket, f"{prefix}/" if prefix else ""


def _too_large(error: Exception) -> bool:
    cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
    return isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno == errno.ENOSPC)
