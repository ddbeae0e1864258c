"""Ranks, and lanes: the pages of one crawl behind one gate."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from crawler.state.sqlite import gates

_DEPTHS = 1 << 24
_RETURNED = 32 * _DEPTHS
"""What an expired lease is ahead of any page that was never handed out: more than the scale of priorities is long."""

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


def find(db: sqlite3.Connection, crawl: int, gate: str) -> tuple[int, bool]:
    """The lane of a crawl behind the gate of that name, and whether it was made now."""
    query = "SELECT lane.id FROM gate CROSS JOIN lane ON lane.gate = gate.id WHERE gate.name = ? AND lane.crawl = ?"
    row = db.execute(query, (gate, crawl)).fetchone()
    if row is not None:
        return row[0], False
    row = (crawl, gates.find(db, gate).id)
    db.execute("INSERT INTO lane (crawl, gate, open) SELECT ?, id, open FROM gate WHERE id = ?", row)
    return db.execute(query, (gate, crawl)).fetchone()[0], True


def refresh(db: sqlite3.Connection, lanes: Iterable[int]) -> None:
    """Bring the best rank up to date after pages of these lanes became pending."""
    db.executemany(f"UPDATE lane SET rank = {BEST} WHERE id = ?", [(lane,) for lane in lanes])  # noqa: S608


def last_served(db: sqlite3.Connection) -> int:
    """The number of the state's latest lease."""
    return int(db.execute("SELECT coalesce(max(served), 0) FROM crawl").fetchone()[0])


def serve(db: sqlite3.Connection, numbers: Mapping[int, int]) -> None:
    """Write the number of each lane's latest lease, and its best rank now."""
    served = [(number, lane) for lane, number in numbers.items()]
    db.executemany(f"UPDATE lane SET served = ?, rank = {BEST} WHERE id = ?", served)  # noqa: S608
    if served:
        db.execute(
            "UPDATE crawl SET served = max(served, ?) WHERE id = (SELECT crawl FROM lane WHERE id = ?)", max(served)
        )
