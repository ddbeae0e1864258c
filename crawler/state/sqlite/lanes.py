"""Ranks, and lanes: the pages of one crawl behind one gate, and their sums."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crawler.state.sqlite import gates

_DEPTHS = 1 << 24
_RETURNED = 32 * _DEPTHS
"""What an expired lease is ahead of any page that was never handed out: more than the scale of priorities is long."""


@dataclass(slots=True)
class Moves:
    """What one transaction adds to the sums of a lane. `pending` includes delayed pages."""

    pending: int = 0
    leased: int = 0
    done: int = 0


Changes = defaultdict[int, Moves]
"""By lane."""

BEST = "(SELECT rank FROM page WHERE phase = 0 AND page.lane = lane.id ORDER BY page.rank LIMIT 1)"


def rank(priority: int, depth: int) -> int:
    """The place of a page in its crawl: the lower is claimed first, equal ones in order of discovery."""
    return priority * _DEPTHS + min(depth, _DEPTHS - 1)


def returned(number: int) -> int:
    """The rank of a page that comes back from an expired lease."""
    return usual(number) - _RETURNED


def usual(number: int) -> int:
    """The rank that the page had when it was found."""
    return number % _RETURNED


def priority_and_depth(number: int) -> tuple[int, int]:
    """What `rank` was made of."""
    return divmod(usual(number), _DEPTHS)


def find(db: sqlite3.Connection, now: float, crawl: int, gate: str) -> tuple[int, bool]:
    """The lane of a crawl behind the gate of that name, and whether it was made now."""
    query = "SELECT lane.id FROM gate CROSS JOIN lane ON lane.gate = gate.id WHERE gate.name = ? AND lane.crawl = ?"
    row = db.execute(query, (gate, crawl)).fetchone()
    if row is not None:
        return row[0], False
    db.execute("INSERT INTO lane (crawl, gate) VALUES (?, ?)", (crawl, gates.find(db, now, gate).id))
    return db.execute(query, (gate, crawl)).fetchone()[0], True


def refresh(db: sqlite3.Connection, lanes: Iterable[int]) -> None:
    """Bring the best rank up to date after pages of these lanes became pending."""
    db.executemany(f"UPDATE lane SET rank = {BEST} WHERE id = ?", [(lane,) for lane in lanes])  # noqa: S608


def grow(db: sqlite3.Connection, new: Mapping[int, int]) -> None:
    """Count new pages of lanes, pending ones, and bring the best rank up to date."""
    rows = [(count, lane) for lane, count in new.items()]
    db.executemany(f"UPDATE lane SET pending = pending + ?, rank = {BEST} WHERE id = ?", rows)  # noqa: S608


def add_up(db: sqlite3.Connection, changes: Mapping[int, Moves]) -> None:
    """Change the sums of lanes. A lane that only its sums keep closed is looked at again."""
    db.executemany(
        "UPDATE lane SET pending = pending + ?, leased = leased + ?, done = done + ?,"
        " look_at = CASE WHEN open = 0 AND look_at IS NULL THEN 0 ELSE look_at END WHERE id = ?",
        [(moves.pending, moves.leased, moves.done, lane) for lane, moves in changes.items()],
    )


def look_again(db: sqlite3.Connection, crawl: int) -> None:
    """Close the lanes of a crawl, for claims to work out some at a time which of them are open."""
    db.execute("UPDATE lane SET open = 0, look_at = 0 WHERE crawl = ?", (crawl,))


def last_served(db: sqlite3.Connection) -> int:
    """The number of the state's latest lease."""
    return int(db.execute("SELECT coalesce(max(served), 0) FROM crawl").fetchone()[0])


def serve(db: sqlite3.Connection, served: Sequence[tuple[int, int, int]]) -> None:
    """Write what a claim took from lanes, each as number of its latest lease, number of leases and lane."""
    db.executemany(
        f"UPDATE lane SET served = ?1, rank = {BEST}, pending = pending - ?2, leased = leased + ?2"  # noqa: S608
        " WHERE id = ?3",
        served,
    )
    if served:
        db.execute(
            "UPDATE crawl SET served = max(served, ?) WHERE id = (SELECT crawl FROM lane WHERE id = ?)",
            max((number, lane) for number, _, lane in served),
        )
