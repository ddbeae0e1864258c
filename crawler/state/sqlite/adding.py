"""Adding pages: the visited set and the frontier are one row, so that no page can be in one and not in the other."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from crawler.model import Added, Page
from crawler.state.sqlite import lanes, records
from crawler.state.sqlite.records import PENDING, SKIPPED

_LOOKED_UP_AT_ONCE = 64


def add(db: sqlite3.Connection, now: float, name: str, pages: Sequence[Page]) -> list[Added]:
    """Insert the pages that are absent. Their parents' redelivery needs no care: what is recorded is queued."""
    crawl = records.find(db, name).id
    asked = {page.digest for page in pages} | {page.parent.digest for page in pages if page.parent}
    parents = _parents(db, crawl, asked)
    lane_of: dict[str, int] = {}
    changes: Counter[str] = Counter()
    answers: list[Added] = []
    rows: list[tuple[object, ...]] = []
    for page in pages:
        parent = page.parent.digest if page.parent else None
        if parent is None and page.site:
            db.execute("INSERT OR IGNORE INTO scope (crawl, site) VALUES (?, ?)", (crawl, page.site))
        if page.digest in parents:
            answers.append(Added.AGAIN if parents[page.digest] == parent else Added.KNOWN)
            continue
        parents[page.digest] = parent
        if page.parent and parent not in parents:
            _keep_source(db, crawl, page.parent.digest, page.parent.url)
        lane = None
        if not page.skip:
            lane = lane_of.get(page.gate)
            if lane is None:
                lane, made = lanes.find(db, crawl, page.gate)
                lane_of[page.gate] = lane
                changes["hosts"] += made
        phase = SKIPPED if page.skip else PENDING
        changes["skipped" if page.skip else "pending"] += 1
        rank = lanes.rank(page.priority, page.depth)
        rows.append((crawl, page.digest, lane, rank, phase, now, parent, page.url, page.skip or None))
        answers.append(Added.NEW)
    if rows:
        changes["discovered"] = len(rows)
        db.executemany(
            "INSERT INTO page (crawl, digest, lane, rank, phase, found_at, parent, url, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        lanes.refresh(db, lane_of.values())
        records.add_up(db, crawl, now, changes)
        db.execute("UPDATE crawl SET completed_at = NULL WHERE id = ? AND completed_at IS NOT NULL", (crawl,))
    return answers


def _parents(db: sqlite3.Connection, crawl: int, digests: Iterable[bytes]) -> dict[bytes, bytes | None]:
    """The parents of those pages that are known. Most links of most pages are: this is the visited set's hot path."""
    found: dict[bytes, bytes | None] = {}
    asked = list(digests)
    for start in range(0, len(asked), _LOOKED_UP_AT_ONCE):
        some = asked[start : start + _LOOKED_UP_AT_ONCE]
        marks = ",".join("?" * len(some))
        query = f"SELECT digest, parent FROM page WHERE crawl = ? AND digest IN ({marks})"  # noqa: S608
        found.update(db.execute(query, (crawl, *some)).fetchall())
    return found


def _keep_source(db: sqlite3.Connection, crawl: int, digest: bytes, url: str) -> None:
    db.execute("INSERT OR IGNORE INTO source (crawl, digest, url) VALUES (?, ?, ?)", (crawl, digest, url))
