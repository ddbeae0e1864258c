"""Which lanes a claim looks at, so that its cost follows its leases and not the hosts that wait.

A lane is open when a page of it could be handed out now: because its gate has a turn near and is not full, or because
its page needs no turn (the limit of its host is used up, or the host is down). Otherwise it is closed until a time, or
until something happens: every call that changes a gate or a lane's sums sets `look_at` to 0, and the next claim works
it out anew. A flag that is out of date costs a claim a look at most, for it asks the gate itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawler.config import CrawlSettings
from crawler.state.sqlite import gates, records
from crawler.state.sqlite.gates import HORIZON, Gate

LOOKED_AT_ONCE = 1000
"""Lanes that one claim works out at most: after a pause with 100,000 hosts no call holds the lock for long."""

_DUE = (
    f"SELECT lane.id, lane.crawl, lane.done, lane.leased, {gates.COLUMNS}"  # noqa: S608
    " FROM lane CROSS JOIN gate ON gate.id = lane.gate WHERE lane.look_at <= :now ORDER BY lane.look_at LIMIT :limit"
)
_BEHIND = "SELECT id, crawl, done, leased, open, look_at FROM lane WHERE gate = ?"
_WRITE = "UPDATE lane SET open = ?, look_at = ? WHERE id = ?"


def due(db: sqlite3.Connection, now: float) -> None:
    """Work out the lanes whose time has come, the longest due first."""
    rows = db.execute(_DUE, {"now": now, "limit": LOOKED_AT_ONCE}).fetchall()
    if rows:
        settings = records.Settings(db)
        changes = [
            (*_worked_out(db, now, Gate(*gate), settings[crawl], done, leased), id)
            for id, crawl, done, leased, *gate in rows
        ]
        db.executemany(_WRITE, changes)


def behind(db: sqlite3.Connection, now: float, moved: Iterable[Gate]) -> None:
    """Work out the lanes behind these gates."""
    settings = records.Settings(db)
    changes = [
        (*found, id)
        for gate in moved
        for id, crawl, done, leased, *known in db.execute(_BEHIND, (gate.id,)).fetchall()
        if (found := _worked_out(db, now, gate, settings[crawl], done, leased)) != tuple(known)
    ]
    db.executemany(_WRITE, changes)


def _worked_out(
    db: sqlite3.Connection, now: float, gate: Gate, settings: CrawlSettings, done: int, leased: int
) -> tuple[bool, float | None]:
    """Whether a lane is open, and when that may change by itself."""
    most = settings.max_pages_per_host
    if most is not None and done + leased >= most:
        return done >= most, None
    if gate.down(now):
        return True, gate.health.down_until
    if not gate.near(now):
        return False, gate.opens_at - HORIZON
    step = gate.step(settings.interval)
    if gate.full(now, step, gates.cap(settings)):
        return False, gates.frees_at(db, now, gate, step)
    return True, None
