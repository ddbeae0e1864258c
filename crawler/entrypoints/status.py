"""The status of a crawl, as `status --json` promises it and as the progress line shows it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

ALIVE = 20.0
"""Seconds since its last beat after which a worker no longer counts as alive."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl's numbers. `discovered = pending + leased + done + skipped + dead` whenever `exact`."""

    crawl: str
    state: str
    discovered: int
    pending: int
    leased: int
    done: int
    skipped: int
    dead: int
    exact: bool
    workers_alive: int
    pages_per_second: float
    bytes: int
    hosts: int
    started_at: str
    updated_at: str


async def status_of(state: CrawlState, record: CrawlRecord) -> Status:
    """Ask the state; changes nothing."""
    counts = await state.counts(record.id)
    now = time.time()
    alive = [beat for beat in await state.workers() if beat.at > now - ALIVE]
    current = next((crawl for crawl in await state.crawls() if crawl.id == record.id), record)
    word = "complete" if current.completed_at is not None else "running" if alive else "stopped"
    return Status(
        crawl=record.id,
        state=word,
        discovered=counts.discovered,
        pending=counts.pending,
        leased=counts.leased,
        done=counts.done,
        skipped=counts.skipped,
        dead=counts.dead,
        exact=counts.exact,
        workers_alive=len(alive),
        pages_per_second=0.0 if word == "complete" else round(sum(beat.rate for beat in alive), 2),
        bytes=counts.bytes,
        hosts=counts.hosts,
        started_at=iso(current.started_at),
        updated_at=iso(max(current.updated_at, current.started_at)),
    )


def iso(at: float) -> str:
    """UTC, to the second, with a Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
