"""`crawl --fresh`: drop a local crawl's state and output, after asking when there is something to lose."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from crawler.archive.folder import crawl_folder
from crawler.archive.stores import open_store
from crawler.entrypoints.identity import worker_name
from crawler.entrypoints.places import STATE_FILE, store_address
from crawler.entrypoints.status import ALIVE
from crawler.errors import UsageError
from crawler.state.sqlite import SqliteState


async def start_over(address: str, store: str | None, crawl: str | None, *, ask: bool) -> None:
    """Drop the crawl that `crawl` would resume, if there is one. UsageError when it runs, or nobody can be asked.

    The archive goes first: if the process dies in between, the state still names what to drop.
    """
    path = Path(address.removeprefix("sqlite://"))
    if path.is_dir():
        path /= STATE_FILE
    if "://" in address.removeprefix("sqlite://") or address.startswith("aws:"):
        raise UsageError("--fresh starts a local crawl over; on shared state give the new crawl a name with --crawl")
    if not path.exists():
        return
    state = await SqliteState.open(str(path), worker=worker_name())
    try:
        records = [record for record in await state.crawls() if crawl in (None, record.id)]
        if not records:
            return
        record = records[-1]
        if any(beat.at > time.time() - ALIVE and beat.held for beat in await state.workers()):
            raise UsageError(f"crawl {record.id} is running: stop it before you start over")
        counts = await state.counts(record.id)
        if ask and counts.discovered:
            confirm(f"Drop crawl {record.id} with {counts.done:,} pages and start over?")
        await open_store(store_address(store, record, state)).drop(crawl_folder(record))
        await state.purge(record.id)
    finally:
        await state.close()


def confirm(question: str) -> None:
    """Ask on a terminal; UsageError where there is none."""
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is here to ask: add --yes")
    if not click.confirm(question, err=True):
        raise click.Abort
