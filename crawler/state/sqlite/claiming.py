"""Claiming: best rank first, hosts in turn, a turn at the gate with every lease.

A claim of n leases reads at most n lanes in claim order from an index, then the first pages of each: its cost follows
n, not the number of hosts or pages.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crawler.model import HOST_DOWN, MAX_PAGES_PER_HOST, Lease
from crawler.state.sqlite import gates, lanes, leasing, opening, records
from crawler.state.sqlite.gates import Gate
from crawler.state.sqlite.records import Crawl

_LANES = (
    f"SELECT lane.rank, lane.served, lane.id, lane.done, lane.leased, {gates.COLUMNS}"  # noqa: S608
    " FROM lane CROSS JOIN gate ON gate.id = lane.gate"
    " WHERE lane.crawl = :crawl AND lane.open = :open AND lane.rank IS NOT NULL"
    " ORDER BY lane.rank, lane.served LIMIT :limit"
)
_QUEUE = "SELECT rank, id FROM page WHERE phase = 0 AND lane = ? AND (rank, id) > (?, ?) ORDER BY rank, id LIMIT ?"
_PAGES = (
    "SELECT id, url, digest, rank, found_at, fence, failures, receives, coalesce("
    " (SELECT url FROM page AS p WHERE p.id = page.parent), (SELECT url FROM source WHERE id = -page.parent), '')"
    " FROM page WHERE id IN ({})"
)
_READ_AT_ONCE = 64
_FIRST = (-(1 << 62), 0)
ANY = float("inf")


@dataclass(slots=True)
class _Work:
    """A crawl in a claim: which limit ends it (then no gate counts), or how many more of its pages may be leased."""

    crawl: Crawl
    limit: str
    room: float
    interval: float
    cap: int
    lasts: float
    """Seconds."""

    @classmethod
    def of(cls, crawl: Crawl, now: float) -> _Work:
        settings, limit = crawl.settings, crawl.used_up(now)
        room = ANY if limit or settings.max_pages is None else settings.max_pages - crawl.done - crawl.leased
        return cls(crawl, limit, room, settings.interval, gates.cap(settings), settings.lease_seconds)

    def of_host(self, done: int, leased: int) -> tuple[str, float]:
        """The limit that ends the pages of one of its hosts, and how many more of them may be leased."""
        most = self.crawl.settings.max_pages_per_host
        if self.limit or most is None:
            return self.limit, ANY
        return (MAX_PAGES_PER_HOST, ANY) if done >= most else ("", most - done - leased)


@dataclass(slots=True)
class _Lane:
    """A lane in a claim: which limit ends it, or how many more of its pages may be leased; rank and id of its first
    pending page, and the queue of those behind it."""

    id: int
    work: _Work
    gate: Gate
    limit: str
    room: float
    head: tuple[int, int]
    queue: Iterator[tuple[int, int]]


_Order = list[tuple[int, int, int, _Lane]]
"""A heap by rank, then number of the lane's latest lease (then its id)."""

_Turn = tuple[int, _Work, Gate, float, float, str]
"""A page that is handed out: its row, crawl and gate; when it may start, the interval there, the limit that is up."""


def claim(db: sqlite3.Connection, now: float, worker: str, limit: int, name: str | None) -> list[Lease]:
    """Hand out at most `limit` pages whose gate opens within the horizon."""
    leasing.wake(db, now)
    opening.due(db, now)
    crawls = records.with_pending(db) if name is None else [records.find(db, name)]
    works = [_Work.of(crawl, now) for crawl in crawls if not crawl.paused]
    for work in works:
        if work.limit:
            leasing.end_delays(db, work.crawl.id)
    order = _in_order(db, now, works, limit)
    heapq.heapify(order)
    number = lanes.last_served(db)
    turns: list[_Turn] = []
    served: dict[int, tuple[int, int, int]] = {}
    paced: dict[int, Gate] = {}  # took a turn: their lanes may have to wait now
    counted: dict[int, Gate] = {}  # a lane of theirs has less room under its limit
    while order and len(turns) < limit:
        lane = order[0][-1]
        work, gate = lane.work, lane.gate
        step = gate.step(work.interval)
        up = lane.limit or (HOST_DOWN if gate.down(now) else "")
        admitted = up or (gate.near(now) and not gate.full(now, step, work.cap))
        if not admitted or work.room < 1 or lane.room < 1:
            heapq.heappop(order)
            continue
        start = now
        if not up:
            start = gate.take(now, work.interval) if step else max(now, gate.opens_at)
            if step:
                paced[gate.id] = gate
        turns.append((lane.head[1], work, gate, start, step, up))
        work.room -= 1
        lane.room -= 1
        if lane.room != ANY:
            counted[gate.id] = gate
        number += 1
        served[lane.id] = number, served[lane.id][1] + 1 if lane.id in served else 1, lane.id
        head = next(lane.queue, None)
        if head is None:
            heapq.heappop(order)
        else:
            lane.head = head
            heapq.heapreplace(order, (head[0], number, lane.id, lane))
    leases = _leases(db, now, turns)
    leasing.write(db, now, worker, [(page, work.crawl.id, now + work.lasts) for page, work, *_ in turns])
    lanes.serve(db, list(served.values()))
    for gate in paced.values():
        gates.save(db, gate)
    opening.behind(db, now, (paced | counted).values())
    return leases


def _in_order(db: sqlite3.Connection, now: float, works: Sequence[_Work], limit: int) -> _Order:
    """The lanes to claim from. The first `limit` of a crawl suffice: each has a page that is before those behind."""
    rows = [
        (work, row)
        for work in works
        if work.room >= 1
        for opened in ((1, 0) if work.limit else (1,))
        for row in db.execute(_LANES, {"now": now, "crawl": work.crawl.id, "open": opened, "limit": limit}).fetchall()
    ]
    if not rows:
        return []
    share = -(-limit // len(rows))
    shared: dict[int, Gate] = {}
    order: _Order = []
    for work, (rank, number, id, done, leased, *columns) in rows:
        queue = _queue(db, id, share + 1)
        head = next(queue, None)
        if head is None:  # a rank without a page can only come from outside; it must not stop the others
            lanes.refresh(db, [id])
            continue
        gate = shared.get(columns[0])
        if gate is None:
            gate = shared[columns[0]] = Gate(*columns)
        lane = _Lane(id, work, gate, *work.of_host(done, leased), head, queue)
        order.append((rank, number, id, lane))
    return order


def _queue(db: sqlite3.Connection, lane: int, some: int) -> Iterator[tuple[int, int]]:
    last = _FIRST
    while rows := db.execute(_QUEUE, (lane, *last, some)).fetchall():
        yield from rows
        if len(rows) < some:
            return
        last = rows[-1]


def _leases(db: sqlite3.Connection, now: float, turns: Sequence[_Turn]) -> list[Lease]:
    """The leases of these pages, which `leasing.write` is about to hand out."""
    pages = {}
    for start in range(0, len(turns), _READ_AT_ONCE):
        ids = [turn[0] for turn in turns[start : start + _READ_AT_ONCE]]
        for id, *page in db.execute(_PAGES.format(",".join("?" * len(ids))), ids).fetchall():
            pages[id] = page
    leases = []
    for id, work, gate, start_at, interval, limit in turns:
        url, digest, rank, found_at, fence, failures, receives, parent_url = pages[id]
        priority, depth = lanes.priority_and_depth(rank)
        leases.append(
            Lease(
                crawl=work.crawl.name,
                url=url,
                digest=digest,
                gate=gate.name,
                depth=depth,
                priority=priority,
                parent_url=parent_url,
                discovered_at=found_at,
                token=leasing.token(id, fence + 1, work.crawl.id),
                attempt=failures + 1,
                receives=receives + 1,
                start_at=start_at,
                expires_at=now + work.lasts,
                limit=limit,
                interval=interval,
                health=gate.health,
            )
        )
    return leases
