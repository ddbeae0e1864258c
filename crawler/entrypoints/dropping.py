"""What cannot be undone: `crawler purge` drops a crawl's state, `crawl --fresh` its state and its output."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from crawler.archive.folder import crawl_folder
from crawler.archive.stores import open_store
from crawler.entrypoints.commands import json_line, opened
from crawler.entrypoints.crawl import CrawlOrder
from crawler.entrypoints.places import pick_crawl, store_address
from crawler.entrypoints.revisiting import earlier_crawl, resumed
from crawler.entrypoints.seeds import new_name
from crawler.entrypoints.status import ALIVE
from crawler.errors import StateMissing, UsageError
from crawler.model import Beat, CrawlRecord
from crawler.state.port import CrawlState


async def purge(address: str, store: str | None, crawl: str | None, *, ask: bool, as_json: bool) -> str:
    """Drop what the state knows of a crawl; says where its output lies.

    UsageError when nobody can be asked, or its pages are being fetched and nobody has said yes to that. Workers that
    hold pages of it lose their leases, and can harm nothing. If the process dies here: repeat.
    """
    async with opened(address) as state:
        record = await pick_crawl(state, crawl)
        counts = await state.counts(record.id)
        if ask and counts.leased and await _alive(state):
            raise UsageError(
                f"workers are fetching {counts.leased} pages of crawl {record.id}: stop them first, or add --yes"
            )
        where = _output(state, record, store)
        if ask:
            undone = f", {counts.outstanding:,} of them not fetched yet" if counts.outstanding else ""
            confirm(f"Drop the state of crawl {record.id} with {counts.discovered:,} pages{undone}? {_kept(where)}")
        await state.purge(record.id)
    if as_json:
        return json_line({"crawl": record.id, "pages": counts.discovered, "output": where})
    return f"crawl {record.id} is purged. {_kept(where)}"


def _output(state: CrawlState, record: CrawlRecord, store: str | None) -> str:
    """Where a crawl's output lies; "" when nobody has said."""
    try:
        return f"{store_address(store, record, state).rstrip('/')}/{crawl_folder(record)}"
    except UsageError:
        return ""


def _kept(where: str) -> str:
    return f"Its output is kept: {where}" if where else "Its output is kept."


async def start_over(order: CrawlOrder, *, ask: bool) -> CrawlOrder:
    """Drop the crawl that `crawl` would resume, if there is one; answers the order for the crawl that begins instead.

    The order was checked. UsageError, and nothing dropped, when it has no seeds, workers are alive, or nobody can be
    asked.
    The archive goes first: if the process dies in between, the state still names what to drop.
    """
    if not order.seeds and not order.sitemaps:
        raise UsageError("--fresh begins with the seeds: give at least one URL, for example https://example.com/")
    try:
        async with opened(order.state) as state:
            records = await state.crawls()
            record = resumed(records, order.crawl, order.settings)
            if record is None:
                return order
            if earlier := order.settings.get("from_crawl"):
                earlier_crawl(records, earlier, record.id)
            # One that holds no page now may still have a file of the output open.
            if alive := await _alive(state):
                raise UsageError(f"crawl {record.id}: {len(alive)} workers are alive; stop them before you start over")
            counts = await state.counts(record.id)
            if ask and counts.discovered:
                confirm(f"Drop crawl {record.id} with {counts.done:,} pages and start over?")
            await open_store(store_address(order.store, record, state)).drop(crawl_folder(record))
            await state.purge(record.id)
    except StateMissing:
        return order
    # Without a name of its own the new crawl would go on with the one before.
    return msgspec.structs.replace(order, crawl=order.crawl or new_name(time.time()))


async def _alive(state: CrawlState) -> list[Beat]:
    return [beat for beat in await state.workers() if beat.at > time.time() - ALIVE]


def confirm(question: str) -> None:
    """Ask on a terminal; UsageError where there is none."""
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody is here to ask: add --yes")
    if not click.confirm(question, err=True):
        raise click.Abort
