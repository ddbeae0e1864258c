"""Adding pages: the visited set and the frontier are one row, so that no page can be in one and not in the other."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence

from crawler.model import Added, Page, Parent
from crawler.state.seen import SeenPages
from crawler.state.sqlite import lanes, records
from crawler.state.sqlite.records import PENDING, SKIPPED

SEED = 0
"""`page.parent` of a page without one."""

_LOOKED_UP_AT_ONCE = 64

Seen = SeenPages[tuple[int, bytes], int]
"""Crawl and digest of a page, and its `page.parent`."""


def add(db: sqlite3.Connection, now: float, name: str, pages: Sequence[Page], seen: Seen) -> list[Added]:
    """Insert the pages that are absent. Their parents' redelivery needs no care: what is recorded is queued."""
    crawl = records.find(db, name).id
    parents = _parents(db, crawl, {page.digest for page in pages}, seen)
    ids: dict[bytes, int] = {}
    lane_of: dict[str, int] = {}
    changes: Counter[str] = Counter()
    new: Counter[int] = Counter()
    reasons: records.Reasons = Counter()
    answers: list[Added] = []
    rows: list[tuple[object, ...]] = []
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM page").fetchone()
    for page in pages:
        parent = SEED
        if page.parent is None:
            if page.site:
                db.execute("INSERT OR IGNORE INTO scope (crawl, site) VALUES (?, ?)", (crawl, page.site))
        elif page.parent.digest in ids:
            parent = ids[page.parent.digest]
        else:
            parent = ids[page.parent.digest] = _id(db, crawl, page.parent)
        known = parents.get(page.digest)
        if known is not None:
            answers.append(Added.AGAIN if known == parent else Added.KNOWN)
            continue
        last += 1
        ids[page.digest] = last
        parents[page.digest] = parent
        lane = None
        if page.skip:
            reasons[crawl, SKIPPED, page.skip] += 1
        else:
            lane = lane_of.get(page.gate)
            if lane is None:
                lane, made = lanes.find(db, now, crawl, page.gate)
                lane_of[page.gate] = lane
                changes["hosts"] += made
            new[lane] += 1
        phase = SKIPPED if page.skip else PENDING
        changes["skipped" if page.skip else "pending"] += 1
        rank = lanes.rank(page.priority, page.depth)
        rows.append((last, crawl, page.digest, lane, rank, phase, now, parent, page.url, page.skip or None))
        answers.append(Added.NEW)
    if rows:
        changes["discovered"] = len(rows)
        db.executemany(
            "INSERT INTO page (id, crawl, digest, lane, rank, phase, found_at, parent, url, reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        lanes.grow(db, new)
        records.add_up_reasons(db, reasons)
        records.add_up(db, crawl, now, changes)
        records.reopen(db, crawl)
    return answers


def _parents(db: sqlite3.Connection, crawl: int, digests: Collection[bytes], seen: Seen) -> dict[bytes, int]:
    """The parents of those pages that are known. Most links of most pages are: this is the hot path."""
    found: dict[bytes, int] = {}
    asked: list[bytes] = []
    for digest in digests:
        parent = seen.get((crawl, digest))
        if parent is None:
            asked.append(digest)
        else:
            found[digest] = parent
    for start in range(0, len(asked), _LOOKED_UP_AT_ONCE):
        some = asked[start : start + _LOOKED_UP_AT_ONCE]
        marks = ",".join("?" * len(some))
        query = f"SELECT digest, parent FROM page WHERE crawl = ? AND digest IN ({marks})"  # noqa: S608
        for digest, parent in db.execute(query, (crawl, *some)):
            found[digest] = parent
            seen.put((crawl, digest), parent)
    return found


def _id(db: sqlite3.Connection, crawl: int, parent: Parent) -> int:
    """What `page.parent` holds for this parent: a page, or a source that is made if it is new."""
    row = db.execute("SELECT id FROM page WHERE crawl = ? AND digest = ?", (crawl, parent.digest)).fetchone()
    if row is not None:
        return int(row[0])
    query = "SELECT -id FROM source WHERE crawl = ? AND digest = ?"
    row = db.execute(query, (crawl, parent.digest)).fetchone()
    if row is None:
        source = (crawl, parent.digest, parent.url)
        db.execute("INSERT INTO source (crawl, digest, url) VALUES (?, ?, ?)", source)
        row = db.execute(query, source[:2]).fetchone()
    return int(row[0])
