"""`--from-crawl ID`: makes sure that a new crawl can revisit an earlier one, before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crawler.archive.folder import parquet_name, validators_name
from crawler.archive.merge import merge
from crawler.archive.stores import Store, open_store
from crawler.archive.validators import COLUMNS, write_validators
from crawler.entrypoints.places import store_address
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState


def resumed(records: Sequence[CrawlRecord], crawl: str | None, given: Mapping[str, Any]) -> CrawlRecord | None:
    """The crawl that a command goes on with: the one named, else the latest, with `--from-crawl` the latest that
    revisits that one. None: a new one begins."""
    earlier = given.get("from_crawl")
    if crawl is not None:
        found = [record for record in records if record.id == crawl]
    else:
        found = [record for record in records if earlier in (None, record.settings.from_crawl)]
    return found[-1] if found else None


def earlier_crawl(records: Sequence[CrawlRecord], wanted: str, crawl: str | None) -> CrawlRecord:
    """The crawl to be revisited by `crawl`. Raises UsageError when there is none, or it is the same."""
    if wanted == crawl:
        raise UsageError(f"--from-crawl {wanted}: a crawl cannot revisit itself; give the new one a name with --crawl")
    found = next((record for record in records if record.id == wanted), None)
    if found is None:
        known = ", ".join(record.id for record in records[-4:]) or "none"
        raise UsageError(f"--from-crawl {wanted}: there is no such crawl on this state (it has: {known})")
    return found


async def prepare(state: CrawlState, earlier: CrawlRecord, address: str) -> None:
    """Write the validators of the earlier crawl where the workers of the new one look for them, in the store at
    `address`; merges the earlier crawl first where that was not done. May be repeated.

    Errors: UsageError when the two crawls do not share a store, StoreError, StoreUnavailable.
    """
    theirs = store_address(None, earlier, state)
    store = open_store(address)
    if _place(store) != _place(open_store(theirs)):
        raise UsageError(f"--from-crawl {earlier.id}: its archive is in {theirs}; the new crawl needs the same --store")
    if not await _write(store, earlier):
        await merge(store, earlier)
        await _write(store, earlier)


async def _write(store: Store, earlier: CrawlRecord) -> bool:
    """False when the earlier crawl is not merged."""
    async with store.existing(parquet_name(earlier)) as parquet:
        if parquet is None:
            return False
        async with store.replace(validators_name(earlier)) as path:
            await asyncio.to_thread(_convert, earlier, parquet, path)
        return True


def _convert(earlier: CrawlRecord, parquet: Path, path: Path) -> None:
    from crawler.archive.schema import read_rows

    write_validators(path, earlier, read_rows(parquet, COLUMNS))


def _place(store: Store) -> str:
    return store.address.removeprefix("file://").rstrip("/")
