"""The ledger: every page of a crawl, read in steps, so that a reader of a large crawl holds up nobody."""

from __future__ import annotations

import sqlite3

from crawler.model import PageState, Phase
from crawler.state.sqlite import history, lanes, records
from crawler.state.sqlite.records import DEAD, DELAYED, DONE, LEASED, PENDING, SKIPPED

_PHASES = {
    PENDING: Phase.PENDING,
    LEASED: Phase.LEASED,
    DONE: Phase.DONE,
    SKIPPED: Phase.SKIPPED,
    DEAD: Phase.DEAD,
    DELAYED: Phase.PENDING,
}

# Dead pages are few and have an index. Of other phases the rows in between are passed over, in order of the file.
_SOME = {
    None: "NOT INDEXED WHERE true",
    Phase.PENDING: "NOT INDEXED WHERE page.phase IN (0, 5)",
    Phase.LEASED: "NOT INDEXED WHERE page.phase = 1",
    Phase.DONE: "NOT INDEXED WHERE page.phase = 2",
    Phase.SKIPPED: "NOT INDEXED WHERE page.phase = 3",
    Phase.DEAD: "INDEXED BY page_dead WHERE page.phase = 4",
}
_PAGES = (
    "SELECT page.id, digest, url, phase, reason, history, page.rank, failures, found_at,"
    " (SELECT name FROM lane JOIN gate ON gate.id = lane.gate WHERE lane.id = page.lane),"
    " coalesce((SELECT digest FROM page AS p WHERE p.id = page.parent),"
    " (SELECT digest FROM source WHERE id = -page.parent))"
    " FROM page {} AND page.crawl = ? AND page.id > ? ORDER BY page.id LIMIT ?"
)


def pages(
    db: sqlite3.Connection, name: str, phase: Phase | None, after: int, limit: int
) -> tuple[int, list[PageState]]:
    """The next pages of a crawl in order of discovery, and what to pass as `after` for those behind them."""
    rows = db.execute(_PAGES.format(_SOME[phase]), (records.find(db, name).id, after, limit)).fetchall()
    return (rows[-1][0] if rows else after), [_state(*row[1:]) for row in rows]


def _state(
    digest: bytes,
    url: str,
    phase: int,
    reason: str | None,
    blob: bytes | None,
    rank: int,
    attempts: int,
    found_at: float,
    gate: str | None,
    parent: bytes | None,
) -> PageState:
    failures = history.decoded(blob)
    return PageState(
        digest=digest,
        url=url,
        phase=_PHASES[phase],
        reason=reason or "",
        error=failures[-1].error if phase == DEAD and failures else "",
        gate=gate or "",
        depth=lanes.priority_and_depth(rank)[1],
        attempts=attempts,
        discovered_at=found_at,
        parent=parent,
        failures=failures,
    )
