"""Host gates: turns, holds, health, and the requests that occupy them."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch
from crawler.model import WELL, Health, Why
from crawler.state.sqlite import history

LATELY = 0.75
"""Of an interval: a turn that starts later than so long ago may have become a slow request that nobody reported yet.
Its worker reports it after half an interval; the rest is for the report's way."""

HORIZON = 1.0
"""Seconds by which a claim may take a turn in advance."""

COLUMNS = (
    "gate.id, gate.name, gate.next_at, gate.last_at, gate.interval, gate.held_until, gate.held_why, gate.health,"
    " (SELECT count(*) FROM flight WHERE flight.gate = gate.id AND flight.until > :now)"
)
"""What a `Gate` is made of."""

_health = msgspec.msgpack.Decoder(Health)


@dataclass(slots=True)
class Gate:
    """A gate as one transaction sees it, made of its COLUMNS. An interval that is an argument is a crawl's own."""

    id: int
    name: str
    next_at: float
    last_at: float
    interval: float
    held_until: float
    held_why: str
    known: bytes | None
    occupants: int
    health: Health = field(init=False)
    opens_at: float = field(init=False)
    """No turn before."""

    def __post_init__(self) -> None:
        self.health = WELL if self.known is None else _decoded(self.known)
        self.opens_at = max(self.paced_at, self.held_until)

    def step(self, interval: float) -> float:
        """Seconds between turns for a crawl; 0: none are needed."""
        return max(interval, self.interval, self.health.gap)

    @property
    def paced_at(self) -> float:
        """When the next turn is, unless the gate is held longer. What the gate itself needs is no part of `next_at`,
        so that it counts from the latest turn on as soon as it is known, and no longer than it is true."""
        return max(self.next_at, self.last_at + max(self.interval, self.health.gap))

    def down(self, now: float) -> bool:
        """Whether the host was given up."""
        return self.health.down_until > now

    def near(self, now: float) -> bool:
        """Whether the next turn starts within the horizon."""
        return self.opens_at <= now + HORIZON

    def full(self, now: float, step: float, cap: int) -> bool:
        """Whether as many requests may be in flight as `cap` permits (0: any number)."""
        if not cap:
            return False
        return self.occupants + (0 if self.health.prompt else self.recent(now, step)) >= cap

    def recent(self, now: float, step: float) -> int:
        """Turns, `step` apart, that start later than LATELY ago: they may be requests that nobody reported yet."""
        since = now - LATELY * step
        return math.floor((self.last_at - since) / step) + 1 if step and self.last_at > since else 0

    def take(self, now: float, interval: float) -> float:
        """Take a turn; return its start. Turns are not saved up: after a pause the next one starts now."""
        self.last_at = max(now, self.opens_at)
        self.next_at = self.last_at + interval
        self.opens_at = self.paced_at
        return self.last_at


def find(db: sqlite3.Connection, now: float, name: str) -> Gate:
    """The gate called `name`, made if it is new."""
    query = f"SELECT {COLUMNS} FROM gate WHERE name = :name"  # noqa: S608
    asked = {"now": now, "name": name}
    row = db.execute(query, asked).fetchone()
    if row is None:
        db.execute("INSERT INTO gate (name) VALUES (?)", (name,))
        row = db.execute(query, asked).fetchone()
    return Gate(*row)


def save(db: sqlite3.Connection, gate: Gate) -> None:
    """Write a gate's turns. What that means for its lanes is the caller's to say."""
    db.execute("UPDATE gate SET next_at = ?, last_at = ? WHERE id = ?", (gate.next_at, gate.last_at, gate.id))


def turn(db: sqlite3.Connection, now: float, name: str, interval: float) -> float:
    """Take one turn, however far away. Without any interval nothing is written: it costs the others nothing."""
    gate = find(db, now, name)
    start = gate.take(now, interval)
    if gate.step(interval):
        save(db, gate)
        _look_again(db, gate.id)
    return start


def hold(db: sqlite3.Connection, now: float, name: str, until: float, why: Why, interval: float | None) -> None:
    """Raise a gate. A longer interval counts from the latest turn on: a Crawl-delay read from robots.txt keeps the
    first page as far from robots.txt as the pages from each other."""
    gate = find(db, now, name)
    if until > gate.held_until:
        db.execute("UPDATE gate SET held_until = ?, held_why = ? WHERE id = ?", (until, why, gate.id))
    if interval is not None:
        db.execute("UPDATE gate SET interval = ? WHERE id = ?", (interval, gate.id))
    _look_again(db, gate.id)


def diagnose(db: sqlite3.Connection, now: float, name: str, health: Health) -> None:
    """Replace what is known of a host's health."""
    gate = find(db, now, name)
    blob = msgspec.msgpack.encode(replace(health, error=history.text(health.error)))
    db.execute("UPDATE gate SET health = ? WHERE id = ?", (blob, gate.id))
    _look_again(db, gate.id)


def occupy(db: sqlite3.Connection, now: float, name: str, flight: str, until: float) -> None:
    """Count a request among those in flight, or no more. What a dead process left goes with the next call."""
    gate = find(db, now, name)
    db.execute("DELETE FROM flight WHERE gate = ? AND (name = ? OR until <= ?)", (gate.id, flight, now))
    if until > now:
        db.execute("INSERT INTO flight (gate, name, until) VALUES (?, ?, ?)", (gate.id, flight, until))
    _look_again(db, gate.id)


def frees_at(db: sqlite3.Connection, now: float, gate: Gate, step: float) -> float:
    """The earliest time at which a full gate can be full no more, unless one of its requests is reported as ended."""
    (first,) = db.execute("SELECT min(until) FROM flight WHERE gate = ? AND until > ?", (gate.id, now)).fetchone()
    times = [] if first is None else [first]
    if not gate.health.prompt and (recent := gate.recent(now, step)):
        times.append(gate.last_at + LATELY * step - (recent - 1) * step)
    return float(min(times))


def cap(settings: CrawlSettings) -> int:
    """How many requests of a crawl may be in flight at one gate; 0: any number."""
    return settings.in_flight_per_host if settings.rate else 0


def _look_again(db: sqlite3.Connection, gate: int) -> None:
    """Something happened at the gate: the next claim works out which of its lanes are open."""
    db.execute("UPDATE lane SET look_at = 0 WHERE gate = ?", (gate,))


def _decoded(health: bytes) -> Health:
    try:
        return _health.decode(health)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"a host's health was written by another version of the crawler: {error}") from None
