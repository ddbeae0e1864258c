"""The life of a lease: written, extended, settled, or given back when it expires.

A lease's token is the page's row, the fence that the claim raised, and the crawl's row, which is never used again
although pages' rows are, after a purge. It counts while the page is leased under that fence: after that every call with
it is LOST, whether the page was handed on, given back, finished, settled before or purged.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence

from crawler.model import Ending, Failure, Lease, Settled, Verdict
from crawler.state.sqlite import history, lanes, records
from crawler.state.sqlite.records import DEAD, DELAYED, DONE, PENDING, SKIPPED, SUM_OF

WOKEN_AT_ONCE = 1000
"""Expired leases, or due delays, that one claim handles at most, so that none holds the lock for long."""

_PHASES = {Ending.DONE: DONE, Ending.SKIPPED: SKIPPED, Ending.DEAD: DEAD}
_READ_AT_ONCE = 64
_LEASED = "SELECT id, fence, crawl, digest, lane, rank FROM page WHERE phase = 1 AND id IN ({})"
_FAILED = frozenset({Ending.RETRY, Ending.DEAD})

_Held = tuple[int, int, int, int]
"""Row, crawl, lane and rank of a leased page."""


def token(page: int, fence: int, crawl: int) -> str:
    """What a lease carries as its token."""
    return f"{page}.{fence}.{crawl}"


def write(db: sqlite3.Connection, now: float, worker: str, handed: Sequence[tuple[int, int, float]]) -> None:
    """Hand pending pages out, each as page, crawl and end of the lease. Their lanes are the caller's to serve."""
    db.executemany(
        "UPDATE page SET phase = 1, receives = receives + 1, worker = ?, wakes_at = ?, fence = fence + 1 WHERE id = ?",
        [(worker, expires_at, page) for page, _, expires_at in handed],
    )
    for crawl, count in Counter(crawl for _, crawl, _ in handed).items():
        records.add_up(db, crawl, now, Counter(leased=count, pending=-count))


def extend(db: sqlite3.Connection, now: float, leases: Sequence[Lease]) -> list[Settled]:
    """Make live leases last from now on."""
    lasts: dict[str, float] = {}
    answers = []
    for row, lease in zip(_held(db, leases), leases, strict=True):
        if row is not None:
            if lease.crawl not in lasts:
                lasts[lease.crawl] = records.find(db, lease.crawl).settings.lease_seconds
            db.execute("UPDATE page SET wakes_at = ? WHERE id = ?", (now + lasts[lease.crawl], row[0]))
        answers.append(Settled.LOST if row is None else Settled.SETTLED)
    return answers


def settle(db: sqlite3.Connection, now: float, endings: Sequence[tuple[Lease, Verdict]]) -> list[Settled]:
    """End leases that are still held."""
    changes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    reasons: records.Reasons = Counter()
    moves = lanes.Changes(lanes.Moves)
    settled: dict[int, tuple[object, ...]] = {}
    queued: set[int] = set()
    answers = []
    for row, (_, verdict) in zip(_held(db, [lease for lease, _ in endings]), endings, strict=True):
        if row is None or row[0] in settled:
            answers.append(Settled.LOST)
            continue
        page, crawl, lane, rank = row
        change, move = changes[crawl], moves[lane]
        phase, wakes_at, reason = _PHASES.get(verdict.ending, PENDING), None, None
        if phase == DONE:
            move.done += 1
        elif phase != PENDING:
            reason = history.text(verdict.reason)
            reasons[crawl, phase, reason] += 1
        else:
            move.pending += 1
            if verdict.at > now:
                phase, wakes_at = DELAYED, verdict.at
            else:
                queued.add(lane)
        if verdict.ending in _FAILED:
            history.append(db, page, Failure(now, verdict.reason, verdict.error))
        move.leased -= 1
        change["leased"] -= 1
        change[SUM_OF[phase]] += 1
        change["bytes"] += verdict.bytes
        settled[page] = phase, wakes_at, lanes.usual(rank), verdict.again, reason or None, page
        answers.append(Settled.SETTLED)
    db.executemany(
        "UPDATE page SET phase = ?, wakes_at = ?, rank = ?, receives = ?, worker = NULL, reason = ? WHERE id = ?",
        list(settled.values()),
    )
    lanes.refresh(db, queued)
    lanes.add_up(db, moves)
    records.add_up_reasons(db, reasons)
    for crawl, change in changes.items():
        records.add_up(db, crawl, now, change)
    return answers


def wake(db: sqlite3.Connection, now: float) -> None:
    """Make expired leases and due delays claimable, the longest due first."""
    _give_back(
        db,
        now,
        db.execute(
            "SELECT id, crawl, lane, rank FROM page WHERE phase = 1 AND wakes_at <= ? ORDER BY wakes_at LIMIT ?",
            (now, WOKEN_AT_ONCE),
        ).fetchall(),
    )
    _queue_delayed(
        db,
        db.execute(
            "SELECT id, lane FROM page WHERE phase = 5 AND wakes_at <= ? ORDER BY wakes_at LIMIT ?",
            (now, WOKEN_AT_ONCE),
        ).fetchall(),
    )


def end_delays(db: sqlite3.Connection, crawl: int) -> None:
    """Make delayed pages of a crawl that has reached a limit claimable, so that it need not wait to end."""
    _queue_delayed(
        db,
        db.execute(
            "SELECT id, lane FROM page WHERE phase = 5 AND wakes_at IS NOT NULL AND crawl = ? LIMIT ?",
            (crawl, WOKEN_AT_ONCE),
        ).fetchall(),
    )


def release(db: sqlite3.Connection, now: float, worker: str) -> int:
    """Give all leases of a worker back."""
    held = db.execute(
        "SELECT id, crawl, lane, rank FROM page WHERE phase = 1 AND wakes_at IS NOT NULL AND worker = ?", (worker,)
    ).fetchall()
    _give_back(db, now, held)
    return len(held)


def _held(db: sqlite3.Connection, leases: Sequence[Lease]) -> list[_Held | None]:
    """What pages are held under each of these leases; None where it is no longer so.

    A lease that expired while no worker claimed is still its holder's. The next claim of anyone ends it.
    """
    leased: dict[tuple[str, bytes], _Held] = {}
    pages = [int(lease.token.split(".", 1)[0]) for lease in leases]
    for start in range(0, len(pages), _READ_AT_ONCE):
        some = pages[start : start + _READ_AT_ONCE]
        for page, fence, crawl, digest, lane, rank in db.execute(_LEASED.format(",".join("?" * len(some))), some):
            leased[token(page, fence, crawl), digest] = page, crawl, lane, rank
    return [leased.get((lease.token, lease.digest)) for lease in leases]


def _give_back(db: sqlite3.Connection, now: float, held: Sequence[_Held]) -> None:
    """Leased pages become pending ahead of all others; `receives` stays, to tell that a holder failed."""
    db.executemany(
        "UPDATE page SET phase = 0, wakes_at = NULL, worker = NULL, rank = ? WHERE id = ?",
        [(lanes.returned(rank), page) for page, _, _, rank in held],
    )
    moves = lanes.Changes(lanes.Moves)
    for _, _, lane, _ in held:
        moves[lane].leased -= 1
        moves[lane].pending += 1
    lanes.refresh(db, moves)
    lanes.add_up(db, moves)
    for crawl, count in Counter(crawl for _, crawl, _, _ in held).items():
        records.add_up(db, crawl, now, Counter(leased=-count, pending=count))


def _queue_delayed(db: sqlite3.Connection, delayed: Sequence[tuple[int, int]]) -> None:
    db.executemany("UPDATE page SET phase = 0, wakes_at = NULL WHERE id = ?", [(page,) for page, _ in delayed])
    lanes.refresh(db, {lane for _, lane in delayed})
