"""Claim: from messages to leases. What may not start yet waits in hand for a moment, else on the queue or in a backlog.

    receive -> read records and gates (one batch) -> take turns -> put the rest aside -> delete their messages

If the process dies anywhere here, its messages become visible again when their leases expire; between the last two
steps a page is on the queue twice, and whoever receives the second message drops it once the page has finished.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from crawler.errors import StateUnavailable
from crawler.model import Lease
from crawler.state.aws.client import together
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.feeding import Feeding
from crawler.state.aws.gate import Gates
from crawler.state.aws.held import Held
from crawler.state.aws.intake import Intake, Job
from crawler.state.aws.lanes import Source
from crawler.state.aws.limits import Limits
from crawler.state.aws.placing import Placing
from crawler.state.aws.putaside import Aside, PutAside
from crawler.state.aws.queue import BATCH, Queues, Received
from crawler.state.aws.records import Feed, Message, decode
from crawler.state.aws.room import Room
from crawler.state.aws.ticket import pk, ticket

log = logging.getLogger(__name__)

ELSEWHERE = 2
"""Seconds for which a page of a crawl that this worker does not serve is put aside."""

NEAR_LIMIT = 5
"""Seconds for which a page is put aside that may or may not fit under a limit once others have ended."""

OUTAGE = 10
"""Seconds for which pages are put aside when their records cannot be read."""

PARKING = 2.0
"""Seconds for which a claim goes on that finds only pages of paused crawls: others may lie behind them."""

BETWEEN = 0.5
"""Seconds for which claims that are for pages in hand ask no queue that had less than a batch: each request of theirs
would bring the few pages that were found since."""

LONGEST_REST = 2.0
"""Seconds a claim rests at most after claims that found only closed gates."""


class Claiming:
    """Claims of one process."""

    def __init__(
        self,
        queues: Queues,
        lanes: Source,
        intake: Intake,
        crawls: Crawls,
        gates: Gates,
        held: Held,
        limits: Limits,
        placing: Placing,
        feeding: Feeding,
        aside: PutAside,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._lanes, self._intake, self._crawls = queues, lanes, intake, crawls
        self._gates, self._held, self._limits, self._placing = gates, held, limits, placing
        self._feeding, self._aside, self._clock = feeding, aside, clock
        self._room = Room(queues.lease, clock)
        self._closed = 0
        self._ask_at = 0.0
        self._running: set[asyncio.Task[Any]] = set()
        self._unclaimed: list[Lease] = []

    async def claim(self, limit: int, crawl: str | None) -> list[Lease]:
        """Hand out at most `limit` pages. A cancelled claim goes on by itself: a receive cut off in flight would hide
        its messages for a whole lease. What it brings is kept for the next claim, or given back at the end."""
        if self._unclaimed:
            leases, self._unclaimed = self._unclaimed[:limit], self._unclaimed[limit:]
            return leases
        task = asyncio.create_task(self._claim(limit, crawl))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._keep)
            raise

    @property
    def idle(self) -> bool:
        """Whether nothing is in hand that was received and not handed out, and nothing is done beside the claims."""
        return not (self._running or self._unclaimed or self._room)

    def _keep(self, task: asyncio.Task[list[Lease]]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._unclaimed += task.result()

    async def close(self) -> None:
        """Give back what was received and never handed out: visible at once. What a claim brought that nobody waited
        for counts as delivered. Claims may follow all the same."""
        await asyncio.gather(*self._running, return_exceptions=True)
        polled = [message.receipt for message in await self._lanes.close()]
        leases, self._unclaimed = self._unclaimed, []
        await self._aside.put([_aside(job, self._clock()) for job in self._room.clear()], [])
        try:
            await self._queues.change([*polled, *(ticket(lease).receipt for lease in leases)], 0)
        except StateUnavailable as error:
            log.info("%d messages stay invisible until their leases expire: %s", len(leases), error)

    async def _claim(self, limit: int, crawl: str | None) -> list[Lease]:
        if crawl is not None:
            await self._crawls.known(crawl)
        if limit < 1:
            return []
        if self._closed and self._lanes.until == math.inf:
            # Only closed hosts last time: the same again at once would send them round and round.
            await asyncio.sleep(min(LONGEST_REST, 0.1 * 2**self._closed))
        ends = time.monotonic() + PARKING
        while True:
            leases, parked = await self._round(limit, crawl)
            if leases or not parked or time.monotonic() >= ends:
                return leases

    async def _round(self, limit: int, crawl: str | None) -> tuple[list[Lease], bool]:
        """Leases from what one receive brings, and of pages in hand; whether there were pages of paused crawls."""
        received = await self._receive(limit)
        pages = self._without_feeds(received)
        waiting = self._room.due()
        leases: list[Lease] = []
        aside: list[Aside] = []
        drop: list[str] = []
        try:
            leases, aside, drop = await self._sort(pages, waiting, limit, crawl)
        except StateUnavailable:
            # The tables are away. Left to expire, the messages would be dead letters after a few such deliveries.
            decoded = [(decode(message.body), message) for message in pages]
            jobs = [Job(page, message) for page, message in decoded if isinstance(page, Message)]
            aside = [_aside(job, self._clock() + OUTAGE) for job in [*jobs, *waiting]]
            raise
        finally:
            await self._aside.put(aside, drop)
        parked = [entry for entry in aside if self._crawls.paused(entry.page.crawl)]
        self._closed = min(self._closed + 1, 10) if len(aside) > len(parked) and not leases else 0
        return leases, bool(parked)

    async def _receive(self, limit: int) -> list[Received]:
        """Messages, if any come before pages in hand are to be looked at."""
        if not self._room.pause() and time.monotonic() < self._ask_at:
            return []
        received = await self._lanes.receive(limit, 0 if self._closed else self._room.pause())
        self._ask_at = 0.0 if len(received) >= BATCH or self._lanes.until < math.inf else time.monotonic() + BETWEEN
        return received

    def _without_feeds(self, received: Sequence[Received]) -> list[Received]:
        """The messages that are no feeders; what feeders ask for is done beside the claim."""
        decoded = [(decode(message.body), message) for message in received]
        feeds = [(content, message.receipt) for content, message in decoded if isinstance(content, Feed)]
        if feeds:
            task = asyncio.create_task(self._feeding.feed(feeds))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        return [message for content, message in decoded if not isinstance(content, Feed)]

    async def _sort(
        self, received: Sequence[Received], waiting: Sequence[Job], limit: int, crawl: str | None
    ) -> tuple[list[Lease], list[Aside], list[str]]:
        """Leases, pages to put aside, and the receipts of messages that are for nobody."""
        if not received and not waiting:
            return [], [], []
        new, drop = await self._intake.take(received, [job.page for job in waiting])
        live = self._together(waiting, new, drop)
        live.sort(key=lambda job: (job.page.priority, job.page.depth, job.page.found))
        now = self._clock()
        leases: list[Lease] = []
        aside: list[Aside] = []
        ready: dict[str, list[Job]] = defaultdict(list)
        room = limit
        for job in live:
            ended = self._limits.limit(job.page, now)
            if not self._crawls.runs(job.page.crawl, job.page.run):
                drop.append(job.received.receipt)
            elif self._crawls.paused(job.page.crawl):
                aside.append(_aside(job))
            elif crawl not in (None, job.page.crawl):
                aside.append(_aside(job, now + ELSEWHERE))
            elif room < 1:
                self._room.keep(job)
            elif ended:
                leases.append(self._lease(job, now, ended))
                room -= 1
            elif job.page.not_before > now:
                aside.append(_aside(job, job.page.not_before))
            elif self._limits.full(job.page, [other.page for other in ready[job.page.crawl]]):
                aside.append(_aside(job, now + NEAR_LIMIT))
            else:
                ready[job.page.crawl].append(job)
                room -= 1
        for name, jobs in ready.items():
            starts = await self._turns(name, jobs)
            leases += [self._lease(job, starts[job.page.pk]) for job in jobs if job.page.pk in starts]
            aside += self._closed_to([job for job in jobs if job.page.pk not in starts])
        leases = await self._fit(leases)
        ids = {job.page.pk: job.received.id for job in live}
        for lease in leases:
            self._held.add(pk(lease), lease.gate, ids[pk(lease)], lease.expires_at)
        return leases, aside, drop

    def _together(self, waiting: Sequence[Job], new: Sequence[Job], drop: list[str]) -> list[Job]:
        """Pages that wait here and new ones, each once; the receipts of second messages go to `drop`."""
        jobs = {job.page.pk: job for job in waiting}
        for job in new:
            known = jobs.get(job.page.pk) or self._room.take(job.page.pk)
            if known is not None and known.received.id != job.received.id:
                drop.append(job.received.receipt)
                job = known
            jobs[job.page.pk] = job  # of one message that came twice the later receipt is good
        return list(jobs.values())

    def _closed_to(self, jobs: Sequence[Job]) -> list[Aside]:
        """Of pages of one crawl whose gates are closed, those that cannot wait here."""
        before: Counter[str] = Counter()
        aside = []
        for job in jobs:
            gate = job.page.gate
            opens, step = self._placing.outlook(job.page.crawl, gate)
            look_at, _ = self._gates.outlook(gate, self._limits.pace(job.page.crawl))
            turn = (opens + before[gate] * step) / 1_000_000
            if turn > self._lanes.until or not self._room.admit(job, turn, look_at):
                aside.append(_aside(job))
            before[gate] += 1
        return aside

    async def _fit(self, leases: Sequence[Lease]) -> list[Lease]:
        """Make leases last as long as their crawl wants where that is not the queues' own time: one more request.

        If the process dies here the queues' own time counts.
        """
        by_seconds: dict[int, list[Lease]] = defaultdict(list)
        for lease in leases:
            by_seconds[self._crawls.lease(lease.crawl, self._queues.lease)].append(lease)
        fitted = by_seconds.pop(self._queues.lease, [])
        for seconds, some in by_seconds.items():
            now = self._clock()
            try:
                refused = await self._queues.change([ticket(lease).receipt for lease in some], seconds)
            except StateUnavailable as error:
                log.info("%d leases last %d s, not %d: %s", len(some), self._queues.lease, seconds, error)
                fitted += some
                continue
            for lease in some:
                ends = lease.expires_at if ticket(lease).receipt in refused else now + seconds
                fitted.append(msgspec.structs.replace(lease, expires_at=ends))
        return fitted

    def _lease(self, job: Job, start_at: float, limit: str = "") -> Lease:
        interval, health = self._gates.told(job.page.gate, self._limits.pace(job.page.crawl))
        return job.lease(start_at, limit, interval, health)

    async def _turns(self, crawl: str, jobs: Sequence[Job]) -> dict[str, float]:
        """Starts by pk, for the pages of one crawl whose turn is near: gates side by side, one write a gate."""
        by_gate: dict[str, list[str]] = defaultdict(list)
        for job in jobs:
            by_gate[job.page.gate].append(job.page.pk)
        wanted = self._limits.pace(crawl)
        taken = await together(
            [self._gates.take(gate, len(pks), wanted, by=self._lanes.until) for gate, pks in by_gate.items()]
        )
        return {
            pk: start
            for pks, starts in zip(by_gate.values(), taken, strict=True)
            for pk, start in zip(pks, starts, strict=False)
        }


def _aside(job: Job, at: float | None = None) -> Aside:
    return Aside(msgspec.structs.replace(job.page, lost=job.receives - 1), job.received.receipt, at)
