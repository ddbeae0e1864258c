"""The status of a crawl, as `status --json` promises it and as the progress line shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from crawler.model import CrawlRecord, HostState
from crawler.state.port import CrawlState

ALIVE = 20.0
"""Seconds since its last beat after which a worker no longer counts as alive."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One crawl's numbers. `discovered = pending + leased + done + skipped + dead` whenever `exact`; `skips` and
    `deaths` are the skipped and the dead by reason. A `paused` crawl's `state` is stopped, whoever is alive."""

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
    skips: dict[str, int]
    deaths: dict[str, int]
    paused: bool


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One host of a crawl. `next_turn` and `interval` are seconds, `next_turn` from now on; 0: now, and no limit."""

    host: str
    pending: int
    leased: int
    done: int
    next_turn: float
    interval: float
    why: str
    failures: int
    error: str


ORDERS: dict[str, Callable[[HostRow], Any]] = {
    "pending": lambda row: -row.pending,
    "leased": lambda row: -row.leased,
    "done": lambda row: -row.done,
    "next": lambda row: row.next_turn,
    "interval": lambda row: -row.interval,
    "host": lambda row: row.host,
    "failures": lambda row: -row.failures,
}
"""What hosts may be sorted by: numbers from the largest on, but the next turn from the earliest."""


async def status_of(state: CrawlState, record: CrawlRecord) -> Status:
    """Ask the state; changes nothing."""
    counts = await state.counts(record.id)
    now = time.time()
    alive = [beat for beat in await state.workers() if beat.at > now - ALIVE]
    current = next((crawl for crawl in await state.crawls() if crawl.id == record.id), record)
    word = "running" if alive and not current.paused else "stopped"
    if current.completed_at is not None:
        word = "complete"
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
        pages_per_second=0.0 if word == "complete" or current.paused else round(sum(beat.rate for beat in alive), 2),
        bytes=counts.bytes,
        hosts=counts.hosts,
        started_at=iso(current.started_at),
        updated_at=iso(max(current.updated_at, current.started_at)),
        skips=counts.skips,
        deaths=counts.deaths,
        paused=current.paused,
    )


async def hosts_of(state: CrawlState, record: CrawlRecord, order: str) -> list[HostRow]:
    """Every host of a crawl, sorted by one of ORDERS and then by name. Reads as much as the state needs to."""
    now = time.time()
    rows = [_host_row(host, now) async for host in state.hosts(record.id)]
    return sorted(rows, key=lambda row: (ORDERS[order](row), row.host))


def _host_row(host: HostState, now: float) -> HostRow:
    return HostRow(
        host=host.gate,
        pending=host.pending,
        leased=host.leased,
        done=host.done,
        next_turn=round(max(0.0, host.next_at - now), 1),
        interval=round(host.interval, 3),
        why=host.why,
        failures=host.failures,
        error=host.error,
    )


def iso(at: float) -> str:
    """UTC, to the second, with a Z."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
