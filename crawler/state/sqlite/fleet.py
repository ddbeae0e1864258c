"""What the fleet knows beside the pages: scope, facts with an end, signs of life."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from crawler.model import Beat

LISTED = 3600.0
"""Seconds for which a worker that fell silent is kept."""

SWEPT_AT_ONCE = 20


def in_scope(db: sqlite3.Connection, crawl: int, sites: Sequence[str]) -> list[bool]:
    query = "SELECT 1 FROM scope WHERE crawl = ? AND site = ?"
    return [db.execute(query, (crawl, site)).fetchone() is not None for site in sites]


def recall(db: sqlite3.Connection, now: float, names: Sequence[str]) -> list[bytes | None]:
    query = "SELECT value FROM fact WHERE name = ? AND until > ?"
    rows = (db.execute(query, (_key(name), now)).fetchone() for name in names)
    return [row and row[0] for row in rows]


def remember(db: sqlite3.Connection, now: float, name: str, value: bytes, seconds: float, if_absent: bool) -> bool:
    """Keep a fact; each call also removes some that have ended, so that they never pile up."""
    db.execute(
        "DELETE FROM fact WHERE rowid IN (SELECT rowid FROM fact WHERE until <= ? LIMIT ?)", (now, SWEPT_AT_ONCE)
    )
    kept = db.execute(
        "INSERT INTO fact (name, value, until) VALUES (?1, ?2, ?3) ON CONFLICT (name)"
        " DO UPDATE SET value = ?2, until = ?3 WHERE NOT ?4 OR until <= ?5",
        (_key(name), value, now + seconds, if_absent, now),
    )
    return kept.rowcount == 1


def _key(name: str) -> bytes:
    """A fact's name as bytes, for it may hold anything."""
    return name.encode("utf-8", "surrogatepass")


def beat(db: sqlite3.Connection, now: float, sign: Beat) -> None:
    db.execute("DELETE FROM worker WHERE at <= ?", (now - LISTED,))
    db.execute(
        "INSERT OR REPLACE INTO worker (name, at, rate, held) VALUES (?, ?, ?, ?)",
        (sign.worker, sign.at, sign.rate, sign.held),
    )


def workers(db: sqlite3.Connection, now: float, within: float) -> list[Beat]:
    query = "SELECT name, at, rate, held FROM worker WHERE at > ? ORDER BY name"
    return [
        Beat(worker=name, at=at, rate=rate, held=held)
        for name, at, rate, held in db.execute(query, (now - within,)).fetchall()
    ]
