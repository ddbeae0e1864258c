"""The host gates of a crawl, for people."""

from __future__ import annotations

import sqlite3

from crawler.model import HostState, Why
from crawler.state.sqlite import gates, records
from crawler.state.sqlite.gates import Gate

_LANES = (
    f"SELECT lane.id, lane.pending, lane.leased, lane.done, {gates.COLUMNS}"  # noqa: S608
    " FROM lane CROSS JOIN gate ON gate.id = lane.gate"
    " WHERE lane.crawl = :crawl AND lane.id > :after ORDER BY lane.id LIMIT :limit"
)


def page(db: sqlite3.Connection, now: float, name: str, after: int, limit: int) -> tuple[int, list[HostState]]:
    """The next gates of a crawl, and what to pass as `after` for those behind them."""
    crawl = records.find(db, name)
    asked = {"now": now, "crawl": crawl.id, "after": after, "limit": limit}
    rows = db.execute(_LANES, asked).fetchall()
    found = []
    for _, pending, leased, done, *columns in rows:
        gate = Gate(*columns)
        found.append(
            HostState(
                gate=gate.name,
                next_at=max(gate.opens_at, gate.health.down_until),
                interval=gate.step(crawl.settings.interval),
                why=why(gate, now, crawl.settings.interval),
                pending=pending,
                leased=leased,
                done=done,
                failures=gate.health.failures,
                error=gate.health.error,
            )
        )
    return (rows[-1][0] if rows else after), found


def why(gate: Gate, now: float, interval: float) -> Why:
    """What makes a gate as slow as it is, for a crawl with this interval.

    DOWN while the host is given up. Otherwise the reason of a hold, if that lasts and closes the gate longer than its
    pace does. Otherwise what made the interval: of equal ones the crawl's own rate, then the Crawl-delay.
    """
    if gate.down(now):
        return Why.DOWN
    if gate.held_until > max(now, gate.paced_at):
        return Why(gate.held_why)
    if interval >= gate.step(0):
        return Why.DEFAULT
    return Why.CRAWL_DELAY if gate.interval >= gate.health.gap else gate.health.why
