"""Repair: dead pages made alive again, and a look for pages that no claim would find."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from crawler.state.sqlite import lanes, records
from crawler.state.sqlite.records import DEAD, DELAYED, DONE, LEASED, PENDING, SKIPPED

_STUCK = (
    "SELECT id FROM page NOT INDEXED WHERE crawl = ?"
    " AND (phase NOT BETWEEN 0 AND 5 OR phase IN (1, 5) AND wakes_at IS NULL)"
)
_HIDDEN = (
    "SELECT (SELECT count(*) FROM page WHERE phase = 0 AND page.lane = lane.id) FROM lane WHERE crawl = ?"  # noqa: S608
    f" AND (rank IS NOT {lanes.BEST} OR open <> (SELECT open FROM gate WHERE gate.id = lane.gate))"
)
_PHASES = "SELECT phase, count(*) FROM page NOT INDEXED WHERE crawl = ? GROUP BY phase"
_SUMS = {PENDING: "pending", DELAYED: "pending", LEASED: "leased", DONE: "done", SKIPPED: "skipped", DEAD: "dead"}


def revive(db: sqlite3.Connection, now: float, name: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
    """Make dead pages pending or delayed. Their history stays; their attempts are counted anew."""
    crawl = records.find(db, name).id
    queued: set[int] = set()
    answers = []
    for digest, at in pages:
        row = db.execute(
            "SELECT id, lane FROM page INDEXED BY page_digest WHERE crawl = ? AND digest = ? AND phase = 4",
            (crawl, digest),
        ).fetchone()
        answers.append(row is not None)
        if row is None:
            continue
        page, lane = row
        phase, wakes_at = (DELAYED, at) if at > now else (PENDING, None)
        db.execute(
            "UPDATE page SET phase = ?, wakes_at = ?, failures = 0, reason = NULL WHERE id = ?", (phase, wakes_at, page)
        )
        if phase == PENDING:
            queued.add(lane)
    lanes.refresh(db, queued)
    if revived := sum(answers):
        records.add_up(db, crawl, now, Counter(dead=-revived, pending=revived))
        records.reopen(db, crawl)
    return answers


def astray(db: sqlite3.Connection, name: str) -> int:
    """How many pages of a crawl no claim would find, or no sum counts as outstanding. Reads every page."""
    crawl = records.find(db, name).id
    stuck = db.execute(_STUCK, (crawl,)).fetchall()
    hidden = sum(count for (count,) in db.execute(_HIDDEN, (crawl,)))
    lacking = _lacking(db, crawl)
    return max(len(stuck) + int(hidden), abs(lacking["pending"] + lacking["leased"]))


def mend(db: sqlite3.Connection, now: float, name: str) -> int:
    """Queue again what is astray, and make the sums say what the pages do; answers how many it was."""
    found = astray(db, name)
    if found:
        crawl = records.find(db, name).id
        db.executemany(
            "UPDATE page SET phase = 0, wakes_at = NULL, worker = NULL WHERE id = ?",
            db.execute(_STUCK, (crawl,)).fetchall(),
        )
        db.execute("UPDATE lane SET open = (SELECT open FROM gate WHERE gate.id = lane.gate) WHERE crawl = ?", (crawl,))
        lanes.refresh(db, [lane for (lane,) in db.execute("SELECT id FROM lane WHERE crawl = ?", (crawl,)).fetchall()])
        records.add_up(db, crawl, now, _lacking(db, crawl))
        records.reopen(db, crawl)
    return found


def _lacking(db: sqlite3.Connection, crawl: int) -> Counter[str]:
    """What to add to a crawl's sums so that they say what its pages do; a page in no phase counts as pending."""
    counted: Counter[str] = Counter()
    for phase, count in db.execute(_PHASES, (crawl,)).fetchall():
        counted["discovered"] += count
        counted[_SUMS.get(phase, "pending")] += count
    names = ("discovered", *dict.fromkeys(_SUMS.values()))
    sums = db.execute(f"SELECT {', '.join(names)} FROM crawl WHERE id = ?", (crawl,)).fetchone()  # noqa: S608
    counted.subtract(dict(zip(names, sums, strict=True)))
    return counted
