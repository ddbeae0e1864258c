"""Claim: from messages to leases. What may not start soon goes back to the queue with a delay, never by holding it.

    receive -> read records and gates (one batch) -> take turns -> send the rest again, delayed -> delete their messages

If the process dies anywhere here, its messages become visible again when their leases expire; between the last two
steps a page is on the queue twice, and whoever receives the second message drops it once the page has finished.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from crawler.errors import StateUnavailable
from crawler.model import HOST_DOWN, MAX_PAGES, MAX_PAGES_PER_HOST, MAX_TIME, Lease
from crawler.state.aws.client import together
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.gate import Gates
from crawler.state.aws.held import Held
from crawler.state.aws.intake import Intake, Job
from crawler.state.aws.lanes import Lanes
from crawler.state.aws.pacing import Pace, pace
from crawler.state.aws.putaside import Aside, PutAside
from crawler.state.aws.queue import Queues, Received
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import Message, decode
from crawler.state.aws.ticket import pk, ticket

log = logging.getLogger(__name__)

ELSEWHERE = 2
"""Seconds for which a page of a crawl that this worker does not serve is put aside."""

NEAR_LIMIT = 5
"""Seconds for which a page is put aside that may or may not fit under a limit once others have ended."""

OUTAGE = 10
"""Seconds for which pages are put aside when their records cannot be read."""

LONGEST_REST = 2.0
"""Seconds a claim rests at most after claims that found only closed gates."""


class Claiming:
    """Claims of one process."""

    def __init__(
        self,
        queues: Queues,
        lanes: Lanes,
        intake: Intake,
        crawls: Crawls,
        gates: Gates,
        held: Held,
        quotas: Quotas,
        aside: PutAside,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._lanes, self._intake, self._crawls = queues, lanes, intake, crawls
        self._gates, self._held, self._quotas, self._aside, self._clock = gates, held, quotas, aside, clock
        self._closed = 0
        self._running: set[asyncio.Task[list[Lease]]] = set()
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

    def _keep(self, task: asyncio.Task[list[Lease]]) -> None:
        if not task.cancelled() and task.exception() is None:
            self._unclaimed += task.result()

    async def close(self) -> None:
        """Give back what was received and never handed out: visible at once, though it counts as a delivery."""
        await asyncio.gather(*self._running, return_exceptions=True)
        leases, self._unclaimed = self._unclaimed, []
        try:
            await self._queues.change([ticket(lease).receipt for lease in leases], 0)
        except StateUnavailable as error:
            log.info("%d messages stay invisible until their leases expire: %s", len(leases), error)

    async def _claim(self, limit: int, crawl: str | None) -> list[Lease]:
        if crawl is not None:
            await self._crawls.known(crawl)
        if limit < 1:
            return []
        if self._closed:
            # Only closed hosts last time: the same again at once would send them round and round.
            await asyncio.sleep(min(LONGEST_REST, 0.1 * 2**self._closed))
        received = await self._lanes.receive(limit, patient=not self._closed)
        leases: list[Lease] = []
        aside: list[Aside] = []
        drop: list[str] = []
        try:
            leases, aside, drop = await self._sort(received, crawl)
        except StateUnavailable:
            # The tables are away. Left to expire, the messages would be dead letters after a few such deliveries.
            pages = [(decode(message.body), message) for message in received]
            jobs = [Job(page, message) for page, message in pages if isinstance(page, Message)]
            aside = [_aside(job, self._clock() + OUTAGE) for job in jobs]
            raise
        finally:
            await self._aside.put(aside, drop)
        self._closed = min(self._closed + 1, 10) if aside and not leases else 0
        return leases

    async def _sort(
        self, received: Sequence[Received], crawl: str | None
    ) -> tuple[list[Lease], list[Aside], list[str]]:
        """Leases, pages to put aside, and the receipts of messages that are for nobody."""
        live, drop = await self._intake.take(received)
        live.sort(key=lambda job: (job.page.priority, job.page.depth, job.page.found))
        now = self._clock()
        leases: list[Lease] = []
        aside: list[Aside] = []
        ready: dict[str, list[Job]] = defaultdict(list)
        for job in live:
            limit = self._limit(job.page, now)
            if crawl not in (None, job.page.crawl):
                aside.append(_aside(job, now + ELSEWHERE))
            elif limit:
                leases.append(self._lease(job, now, limit))
            elif job.page.not_before > now:
                aside.append(_aside(job, job.page.not_before))
            elif self._full(job.page, ready[job.page.crawl]):
                aside.append(_aside(job, now + NEAR_LIMIT))
            else:
                ready[job.page.crawl].append(job)
        for name, jobs in ready.items():
            starts = await self._turns(name, jobs)
            leases += [self._lease(job, starts[job.page.pk]) for job in jobs if job.page.pk in starts]
            wanted = self._pace(name)
            closed = [job for job in jobs if job.page.pk not in starts]
            end = self._end(name)
            aside += [_aside(job, min(end, self._aside.when(job.page.gate, wanted))) for job in closed]
        leases = await self._fit(leases)
        ids = {job.page.pk: job.received.id for job in live}
        for lease in leases:
            self._held.add(pk(lease), lease.gate, ids[pk(lease)], lease.expires_at)
        return leases, aside, drop

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

    def _limit(self, page: Message, now: float) -> str:
        """The limit that ends the page, "" for none."""
        seen = self._crawls.seen(page.crawl)
        if seen is None:
            return ""
        most = seen.record.settings.max_pages
        if now >= self._end(page.crawl):
            return MAX_TIME
        if most is not None and seen.done >= most:
            return MAX_PAGES
        if self._quotas.used_up(page):
            return MAX_PAGES_PER_HOST
        return HOST_DOWN if self._gates.down(page.gate) else ""

    def _full(self, page: Message, ready: Sequence[Job]) -> bool:
        """Whether what is held and `ready` may use a limit up: how many more fit is known once some have ended."""
        seen = self._crawls.seen(page.crawl)
        if seen is None:
            return True
        most = seen.record.settings.max_pages
        if most is not None and len(ready) >= most - seen.done - self._held.count(seen.key):
            return True
        return sum(job.page.gate == page.gate for job in ready) >= self._quotas.room(page)

    def _lease(self, job: Job, start_at: float, limit: str = "") -> Lease:
        interval, health = self._gates.told(job.page.gate, self._pace(job.page.crawl))
        return job.lease(start_at, limit, interval, health)

    def _end(self, crawl: str) -> float:
        """When the crawl's time is up: until then its pages may wait, and then they are to come back."""
        seen = self._crawls.seen(crawl)
        if seen is None or seen.record.settings.max_time is None:
            return float("inf")
        return seen.record.started_at + seen.record.settings.max_time

    def _pace(self, crawl: str) -> Pace:
        seen = self._crawls.seen(crawl)
        return pace(seen.record.settings) if seen is not None else Pace()

    async def _turns(self, crawl: str, jobs: Sequence[Job]) -> dict[str, float]:
        """Starts by pk, for the pages of one crawl whose turn is near: gates side by side, one write a gate."""
        by_gate: dict[str, list[str]] = defaultdict(list)
        for job in jobs:
            by_gate[job.page.gate].append(job.page.pk)
        wanted = self._pace(crawl)
        taken = await together([self._gates.take(gate, len(pks), wanted) for gate, pks in by_gate.items()])
        return {
            pk: start
            for pks, starts in zip(by_gate.values(), taken, strict=True)
            for pk, start in zip(pks, starts, strict=False)
        }


def _aside(job: Job, at: float) -> Aside:
    return Aside(msgspec.structs.replace(job.page, lost=job.receives - 1), job.received.receipt, at)
