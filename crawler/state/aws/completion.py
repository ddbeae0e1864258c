"""Completion: is there nothing left? The records decide; counters and queues only say when it is worth asking them.

Why a scan proves it. A page is found by one that is pending until its links are counted, or it is a seed. If a scan
finds no pending record although a page was added behind its back, that page's finder finished during the scan, so the
page was counted during the scan. The record is marked complete only if the counters stand as before the scan.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing

import msgspec

from crawler.model import Phase
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.dead_letters import DeadLetters
from crawler.state.aws.feeding import Feeding
from crawler.state.aws.queue import Queues
from crawler.state.aws.records import BY_REASON, counter
from crawler.state.aws.requeue import Requeue
from crawler.state.aws.table import Record, Visited

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 15.0, 900.0
"""Seconds between two scans of a crawl whose counters say that there is work, doubling from the one to the other."""

OTHERS_MESSAGES = 10.0
"""Seconds without a change for which messages of unknown crawls keep a crawl without outstanding pages open."""

SWEEP_AFTER = 60.0
"""Seconds for which all queues must have been empty and no counter moved before records without message are queued."""

SWEPT_AT_ONCE = 1_000


class Watch(msgspec.Struct):
    """What a process saw of a crawl that may be complete, in monotonic seconds."""

    counters: tuple[int, ...] = ()
    still_since: float = 0.0
    empty_since: float | None = None
    next_scan: float = 0.0
    pause: float = FIRST_PAUSE


class Completion:
    """Decides for one process."""

    def __init__(
        self,
        queues: Queues,
        visited: Visited,
        crawls: Crawls,
        requeue: Requeue,
        feeding: Feeding,
        dead_letters: DeadLetters,
    ) -> None:
        self._queues, self._visited, self._crawls = queues, visited, crawls
        self._requeue, self._feeding, self._dead_letters = requeue, feeding, dead_letters
        self._watches: dict[str, Watch] = {}
        self.sweep_after = SWEEP_AFTER
        self._clock: Callable[[], float] = time.monotonic

    async def complete(self, crawl: str) -> bool:
        """Whether nothing of the crawl is left; then its record says so, with exact counters."""
        seen = await self._crawls.paid(crawl)
        if seen.record.completed_at is not None:
            return True
        if seen.record.paused and seen.outstanding > 0:
            return False  # nothing is to be mended: empty queues are what a pause looks like
        watch = self._watch(crawl, seen)
        empty = (await self._queues.depth()).total == 0
        now = self._clock()
        if not empty:
            watch.empty_since = None
        elif watch.empty_since is None:
            watch.empty_since = now
        if not self._worth_a_scan(watch, seen, empty, now):
            return False
        if seen.outstanding:
            watch.next_scan, watch.pause = now + watch.pause, min(watch.pause * 2, LONGEST_PAUSE)
            if await self._dead_letters.try_to_drain():
                return False  # a page that kills its workers was what was missing; whoever asks next counts it
        sweeping = watch.empty_since is not None and now - max(watch.empty_since, watch.still_since) >= self.sweep_after
        return await self._decide(seen, sweeping and not seen.record.paused)

    def _watch(self, crawl: str, seen: Crawl) -> Watch:
        """What is known of a crawl, begun anew whenever a counter has moved."""
        watch = self._watches.setdefault(crawl, Watch())
        if watch.counters != seen.counters:
            watch = self._watches[crawl] = Watch(seen.counters, self._clock(), watch.empty_since, watch.next_scan)
        return watch

    @staticmethod
    def _worth_a_scan(watch: Watch, seen: Crawl, empty: bool, now: float) -> bool:
        if seen.outstanding == 0:
            # Messages are left: duplicates, another crawl's, or plain seeds, which may be of this one.
            return empty or now - watch.still_since >= OTHERS_MESSAGES
        # Counters drift only when a process died. With messages about, they had better be believed for longer.
        still = now - watch.still_since
        return now >= watch.next_scan and (empty or still >= LONGEST_PAUSE)

    async def _decide(self, seen: Crawl, sweeping: bool) -> bool:
        phases: Counter[Phase] = Counter()
        reasons: Counter[str] = Counter()
        gates: set[str] = set()
        waiting: list[Record] = []
        async with aclosing(self._visited.scan(seen.key)) as entries:
            async for entry in entries:
                phases[entry.phase] += 1
                gates.add(entry.gate)
                if entry.phase in BY_REASON:
                    reasons[counter(entry.phase, entry.reason)] += 1
                if entry.phase is Phase.PENDING:
                    if not sweeping:
                        return False
                    waiting.append(entry)
                    if len(waiting) == SWEPT_AT_ONCE:
                        break
        if waiting and await self._feeding.mend(seen):
            return False
        if waiting:
            # No message anywhere, nothing moved, and yet they are pending: a process died between record and queue.
            name, count = seen.record.id, len(waiting)
            log.warning("crawl %s: queued %d pages again that were recorded and on no queue", name, count)
            await self._requeue.send(seen, waiting)
            return False
        ended = {"done": phases[Phase.DONE], "skipped": phases[Phase.SKIPPED], "dead": phases[Phase.DEAD]}
        sums = {**ended, "discovered": sum(ended.values()), "hosts": len(gates), **reasons}
        return await self._crawls.complete(seen, sums)
