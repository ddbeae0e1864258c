"""Repair: dead pages made alive again, and a look for pages that no claim would find."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from crawler.state.sqlite import lanes, records
from crawler.state.sqlite.records import DEAD, DELAYED, PENDING, SUM_OF

_STUCK = (
    "SELECT id FROM page NOT INDEXED WHERE crawl = ?"
    " AND (phase NOT BETWEEN 0 AND 5 OR phase IN (1, 5) AND wakes_at IS NULL)"
)
_HIDDEN = (
    "SELECT (SELECT count(*) FROM page WHERE phase = 0 AND page.lane = lane.id) FROM lane WHERE crawl = ?1"  # noqa: S608
    f" AND (rank IS NOT {lanes.BEST} OR open = 0 AND look_at IS NULL AND (?2 IS NULL OR done + leased < ?2))"
)
_PHASES = "SELECT lane, phase, count(*) FROM page NOT INDEXED WHERE crawl = ? GROUP BY lane, phase"
_OF_LANES = ("pending", "leased", "done")


def revive(db: sqlite3.Connection, now: float, name: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
    """Make dead pages pending or delayed. Their history stays; their attempts are counted anew."""
    crawl = records.find(db, name).id
    queued: set[int] = set()
    moves = lanes.Changes(lanes.Moves)
    reasons: records.Reasons = Counter()
    answers = []
    for digest, at in pages:
        row = db.execute(
            "SELECT id, lane, reason FROM page INDEXED BY page_digest WHERE crawl = ? AND digest = ? AND phase = 4",
            (crawl, digest),
        ).fetchone()
        answers.append(row is not None)
        if row is None:
            continue
        page, lane, reason = row
        moves[lane].pending += 1
        reasons[crawl, DEAD, reason or ""] -= 1
        phase, wakes_at = (DELAYED, at) if at > now else (PENDING, None)
        db.execute(
            "UPDATE page SET phase = ?, wakes_at = ?, failures = 0, reason = NULL WHERE id = ?", (phase, wakes_at, page)
        )
        if phase == PENDING:
            queued.add(lane)
    lanes.refresh(db, queued)
    if revived := sum(answers):
        lanes.add_up(db, moves)
        records.add_up_reasons(db, reasons)
        records.add_up(db, crawl, now, Counter(dead=-revived, pending=revived))
        records.reopen(db, crawl)
    return answers


def astray(db: sqlite3.Connection, name: str) -> int:
    """How many pages of a crawl no claim would find, or no sum counts as outstanding. Reads every page."""
    crawl = records.find(db, name)
    stuck = db.execute(_STUCK, (crawl.id,)).fetchall()
    hidden = db.execute(_HIDDEN, (crawl.id, crawl.settings.max_pages_per_host)).fetchall()
    lacking, moves = _lacking(db, crawl.id)
    outstanding = sum(each.pending + each.leased for each in moves.values())
    unseen = len(stuck) + sum(int(count) for (count,) in hidden)
    return max(unseen, abs(lacking["pending"] + lacking["leased"]), abs(outstanding))


def mend(db: sqlite3.Connection, now: float, name: str) -> int:
    """Queue again what is astray, and make the sums say what the pages do; answers how many it was."""
    found = astray(db, name)
    if found:
        crawl = records.find(db, name).id
        db.executemany(
            "UPDATE page SET phase = 0, wakes_at = NULL, worker = NULL WHERE id = ?",
            db.execute(_STUCK, (crawl,)).fetchall(),
        )
        lanes.refresh(db, [lane for (lane,) in db.execute("SELECT id FROM lane WHERE crawl = ?", (crawl,)).fetchall()])
        lacking, moves = _lacking(db, crawl)
        lanes.add_up(db, moves)
        lanes.look_again(db, crawl)
        records.add_up(db, crawl, now, lacking)
        records.reopen(db, crawl)
    return found


def _lacking(db: sqlite3.Connection, crawl: int) -> tuple[Counter[str], lanes.Changes]:
    """What to add to the sums of a crawl and its lanes so that they say what its pages do.

    A page in no phase counts as pending.
    """
    counted: Counter[str] = Counter()
    moves = lanes.Changes(lanes.Moves)
    query = "SELECT id, -pending, -leased, -done FROM lane WHERE crawl = ?"
    moves.update((lane, lanes.Moves(*sums)) for lane, *sums in db.execute(query, (crawl,)).fetchall())
    for lane, phase, count in db.execute(_PHASES, (crawl,)).fetchall():
        name = SUM_OF.get(phase, "pending")
        counted["discovered"] += count
        counted[name] += count
        if name in _OF_LANES:
            setattr(moves[lane], name, getattr(moves[lane], name) + count)
    names = ("discovered", *dict.fromkeys(SUM_OF.values()))
    sums = db.execute(f"SELECT {', '.join(names)} FROM crawl WHERE id = ?", (crawl,)).fetchone()  # noqa: S608
    counted.subtract(dict(zip(names, sums, strict=True)))
    return counted, moves
