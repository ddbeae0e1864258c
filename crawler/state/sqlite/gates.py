"""Host gates: turns, holds, and which gates a claim has to look at.

A gate is "open" when its next turn is at most HORIZON away. The flag is kept on the gate and copied to its lanes, so
that a claim reads lanes in claim order from one index, however many hosts are waiting.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

HORIZON = 1.0
"""Seconds by which a claim may take a turn in advance."""

OPENED_AT_ONCE = 1000
"""Gates opened by one claim at most: after a pause with 100,000 hosts no call holds the lock for long."""


@dataclass(slots=True)
class Gate:
    """A gate as one transaction sees it."""

    id: int
    name: str
    next_at: float
    last_at: float
    interval: float

    def near(self, now: float) -> bool:
        """Whether the next turn starts within the horizon."""
        return self.next_at <= now + HORIZON

    def take(self, now: float, interval: float) -> float:
        """Take a turn for a crawl with `interval` seconds between its own; return its start.

        Turns are not saved up: after a pause the next one starts now. Without any interval nothing is advanced, so
        the turn costs the others nothing.
        """
        self.last_at = max(now, self.next_at)
        if step := max(interval, self.interval):
            self.next_at = self.last_at + step
        return self.last_at


def find(db: sqlite3.Connection, name: str) -> Gate:
    """The gate called `name`, made if it is new."""
    query = "SELECT id, name, next_at, last_at, interval FROM gate WHERE name = ?"
    row = db.execute(query, (name,)).fetchone()
    if row is None:
        db.execute("INSERT INTO gate (name) VALUES (?)", (name,))
        row = db.execute(query, (name,)).fetchone()
    return Gate(*row)


def save(db: sqlite3.Connection, gate: Gate, now: float) -> None:
    """Write a gate's times, and whether it is open."""
    opened = gate.near(now)
    db.execute(
        "UPDATE gate SET next_at = ?, last_at = ?, interval = ?, open = ? WHERE id = ?",
        (gate.next_at, gate.last_at, gate.interval, opened, gate.id),
    )
    db.execute("UPDATE lane SET open = ?1 WHERE gate = ?2 AND open <> ?1", (opened, gate.id))


def open_due(db: sqlite3.Connection, now: float) -> None:
    """Open the gates whose next turn has come within the horizon, the longest due first."""
    due = db.execute(
        "SELECT id FROM gate WHERE open = 0 AND next_at <= ? ORDER BY next_at LIMIT ?", (now + HORIZON, OPENED_AT_ONCE)
    ).fetchall()
    db.executemany("UPDATE gate SET open = 1 WHERE id = ?", due)
    db.executemany("UPDATE lane SET open = 1 WHERE gate = ?", due)


def turn(db: sqlite3.Connection, now: float, name: str, interval: float) -> float:
    """Take one turn, however far away."""
    gate = find(db, name)
    start = gate.take(now, interval)
    save(db, gate, now)
    return start


def hold(db: sqlite3.Connection, now: float, name: str, until: float, interval: float | None) -> None:
    """Raise a gate. A longer interval counts from the latest turn on: a Crawl-delay read from robots.txt keeps the
    first page as far from robots.txt as the pages from each other."""
    gate = find(db, name)
    gate.next_at = max(gate.next_at, until)
    if interval is not None:
        gate.interval = interval
        if gate.last_at:
            gate.next_at = max(gate.next_at, gate.last_at + interval)
    save(db, gate, now)
