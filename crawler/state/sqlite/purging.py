"""Dropping a crawl in steps, so that no other process waits long for the lock.

    nothing can be claimed or added, leases are LOST, the sums are gone -> pages, lanes, sources, scope -> the record

The record goes last: if the process dies between two steps, `crawls` still shows it, and purging again goes on.
"""

from __future__ import annotations

import sqlite3

from crawler.state.sqlite.records import SUMS

STEP = 5000
"""Rows that one transaction looks at."""


def start(db: sqlite3.Connection, name: str) -> int | None:
    """Take a crawl out of service; its row, or None when there is none.

    What is leased is few, however large the crawl, and goes at once. The sums say that nothing is left to do.
    """
    row = db.execute("SELECT id FROM crawl WHERE name = ?", (name,)).fetchone()
    if row is None:
        return None
    db.execute("DELETE FROM reason WHERE crawl = ?", row)
    db.execute("DELETE FROM page WHERE phase = 1 AND wakes_at IS NOT NULL AND crawl = ?", row)
    db.execute(
        f"UPDATE crawl SET purged = 1, {', '.join(f'{name} = 0' for name in SUMS)} WHERE id = ?",  # noqa: S608
        row,
    )
    return int(row[0])


def pages(db: sqlite3.Connection, crawl: int, after: int) -> int | None:
    """Drop those of the next STEP pages that are the crawl's; what to pass as `after` next, None at the end."""
    (last,) = db.execute(
        "SELECT max(id) FROM (SELECT id FROM page WHERE id > ? ORDER BY id LIMIT ?)", (after, STEP)
    ).fetchone()
    db.execute("DELETE FROM page WHERE id > ? AND id <= ? AND +crawl = ?", (after, last, crawl))
    return None if last is None else int(last)


def rest(db: sqlite3.Connection, crawl: int) -> bool:
    """Drop STEP rows of what is left, and at last the record; True when that is gone."""
    for table, key in (("lane", "id"), ("source", "id"), ("scope", "site")):
        some = f"SELECT {key} FROM {table} WHERE crawl = ?1 LIMIT ?2"  # noqa: S608
        dropped = db.execute(f"DELETE FROM {table} WHERE crawl = ?1 AND {key} IN ({some})", (crawl, STEP))  # noqa: S608
        if dropped.rowcount:
            return False
    db.execute("DELETE FROM crawl WHERE id = ?", (crawl,))
    return True
