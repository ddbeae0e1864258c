"""Claiming: best rank first, hosts in turn, a turn at the gate with every lease.

A claim of n leases reads at most n lanes in claim order from an index, then the first pages of each: its cost follows
n, not the number of hosts or pages.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crawler.model import Lease
from crawler.state.sqlite import gates, lanes, leasing, records
from crawler.state.sqlite.gates import Gate
from crawler.state.sqlite.records import Crawl

_LANES = (
    "SELECT lane.rank, lane.served, lane.id, gate.id, gate.name, gate.next_at, gate.last_at, gate.interval"
    " FROM lane CROSS JOIN gate ON gate.id = lane.gate"
    " WHERE lane.crawl = ? AND lane.open = ? AND lane.rank IS NOT NULL ORDER BY lane.rank, lane.served LIMIT ?"
)
_QUEUE = "SELECT rank, id FROM page WHERE phase = 0 AND lane = ? AND (rank, id) > (?, ?) ORDER BY rank, id LIMIT ?"
_PAGE = (
    "SELECT url, digest, rank, found_at, fence, failures, receives, coalesce("
    " (SELECT url FROM page AS p WHERE p.id = page.parent), (SELECT url FROM source WHERE id = -page.parent), '')"
    " FROM page WHERE id = ?"
)
_FIRST = (-(1 << 62), 0)


@dataclass(slots=True)
class _Work:
    """A crawl in a claim: which limit ends it (then no gate counts), or how many more of its pages may be leased."""

    crawl: Crawl
    limit: str
    room: float

    @classmethod
    def of(cls, crawl: Crawl, now: float) -> _Work:
        limit, most = crawl.used_up(now), crawl.settings.max_pages
        return cls(crawl, limit, float("inf") if limit or most is None else most - crawl.done - crawl.leased)


@dataclass(slots=True)
class _Lane:
    """A lane in a claim: rank and id of its first pending page, and the queue of those behind it."""

    id: int
    work: _Work
    gate: Gate
    head: tuple[int, int]
    queue: Iterator[tuple[int, int]]


_Order = list[tuple[int, int, int, _Lane]]
"""A heap by rank, then number of the lane's latest lease (then its id)."""


def claim(db: sqlite3.Connection, now: float, worker: str, limit: int, name: str | None) -> list[Lease]:
    """Hand out at most `limit` pages whose gate opens within the horizon."""
    leasing.wake(db, now)
    gates.open_due(db, now)
    crawls = records.with_pending(db) if name is None else [records.find(db, name)]
    works = [_Work.of(crawl, now) for crawl in crawls]
    for work in works:
        if work.limit:
            leasing.end_delays(db, work.crawl.id)
    order = _in_order(db, works, limit)
    heapq.heapify(order)
    number = lanes.last_served(db)
    leases: list[Lease] = []
    served: dict[int, int] = {}
    moved: dict[int, Gate] = {}
    while order and len(leases) < limit:
        lane = order[0][-1]
        work, gate = lane.work, lane.gate
        if work.room < 1 or not (work.limit or gate.near(now)):
            heapq.heappop(order)
            continue
        start = now
        if not work.limit:
            start = gate.take(now, work.crawl.settings.interval)
            moved[gate.id] = gate
        leases.append(_lease(db, now, work, gate, lane.head[1], start))
        work.room -= 1
        number += 1
        served[lane.id] = number
        head = next(lane.queue, None)
        if head is None:
            heapq.heappop(order)
        else:
            lane.head = head
            heapq.heapreplace(order, (head[0], number, lane.id, lane))
    leasing.write(db, now, worker, leases)
    lanes.serve(db, served)
    for gate in moved.values():
        if gate.next_at > now:  # otherwise no interval paces it, and nothing changed
            gates.save(db, gate, now)
    return leases


def _in_order(db: sqlite3.Connection, works: Sequence[_Work], limit: int) -> _Order:
    """The lanes to claim from. The first `limit` of a crawl suffice: each has a page that is before those behind."""
    rows = [
        (work, row)
        for work in works
        if work.room >= 1
        for opened in ((1, 0) if work.limit else (1,))
        for row in db.execute(_LANES, (work.crawl.id, opened, limit)).fetchall()
    ]
    if not rows:
        return []
    share = -(-limit // len(rows))
    shared: dict[int, Gate] = {}
    order: _Order = []
    for work, (rank, number, id, *gate) in rows:
        queue = _queue(db, id, share + 1)
        head = next(queue, None)
        if head is None:  # a rank without a page can only come from outside; it must not stop the others
            lanes.refresh(db, [id])
            continue
        lane = _Lane(id, work, shared.setdefault(gate[0], Gate(*gate)), head, queue)
        order.append((rank, number, id, lane))
    return order


def _queue(db: sqlite3.Connection, lane: int, some: int) -> Iterator[tuple[int, int]]:
    last = _FIRST
    while rows := db.execute(_QUEUE, (lane, *last, some)).fetchall():
        yield from rows
        if len(rows) < some:
            return
        last = rows[-1]


def _lease(db: sqlite3.Connection, now: float, work: _Work, gate: Gate, page: int, start: float) -> Lease:
    url, digest, rank, found_at, fence, failures, receives, parent_url = db.execute(_PAGE, (page,)).fetchone()
    priority, depth = lanes.priority_and_depth(rank)
    return Lease(
        crawl=work.crawl.name,
        url=url,
        digest=digest,
        gate=gate.name,
        depth=depth,
        priority=priority,
        parent_url=parent_url,
        discovered_at=found_at,
        token=leasing.token(page, fence + 1, work.crawl.id),
        attempt=failures + 1,
        receives=receives + 1,
        start_at=start,
        expires_at=now + work.crawl.settings.lease_seconds,
        limit=work.limit,
    )
