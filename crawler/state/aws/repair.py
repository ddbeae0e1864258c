"""Repair: dead pages made alive again, records without message queued again, purged crawls removed."""

from __future__ import annotations

import itertools
import logging
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from crawler.model import Phase
from crawler.state.aws.adding import Unsent
from crawler.state.aws.backlog import Backlog
from crawler.state.aws.completion import SWEPT_AT_ONCE
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.dead_letters import DeadLetters
from crawler.state.aws.facts import Scope
from crawler.state.aws.feeding import Feeding
from crawler.state.aws.queue import Queues
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import counter, page_key
from crawler.state.aws.requeue import Requeue
from crawler.state.aws.table import Record, Visited

log = logging.getLogger(__name__)

ABANDONED = 60.0
"""Seconds after which a revival without its message counts as abandoned by a process that died."""


class Repair:
    """Repairs of one process."""

    def __init__(
        self,
        queues: Queues,
        visited: Visited,
        crawls: Crawls,
        scope: Scope,
        quotas: Quotas,
        lines: Backlog,
        requeue: Requeue,
        feeding: Feeding,
        dead_letters: DeadLetters,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._visited, self._crawls, self._scope = queues, visited, crawls, scope
        self._quotas, self._lines, self._requeue, self._feeding = quotas, lines, requeue, feeding
        self._dead_letters, self._clock = dead_letters, clock
        self._process, self._calls = uuid.uuid4().hex[:12], itertools.count()
        self._unsent: dict[str, Unsent] = {}

    async def revive(self, crawl: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
        """Make dead pages claimable again, each from its time on; False for one that is not dead.

            record pending, its message owed -> counters, crawl open -> send -> record: message sent

        Of many who revive a page one is told so. If the process dies before the last step, the page still counts as
        dead for whoever lists the dead; a minute later it can be revived as such. A sweep sends its message too.
        """
        seen = await self._crawls.read(crawl)
        times = {page_key(crawl, seen.run, digest): at for digest, at in reversed(pages)}
        now, stamp = self._clock(), f"{self._process}-{next(self._calls)}"
        known = await self._visited.read(list(times))
        dead = {pk: times[pk] for pk, entry in known.items() if entry.phase is Phase.DEAD}
        try:
            await self._visited.revive(dead, stamp, now)
            left = [entry for entry in known.values() if _owed(entry) and entry.ended < now - ABANDONED]
            await self._visited.take_over(left, stamp, now)
            known = await self._visited.read(list(times))
        except BaseException:
            self._unsent |= {pk: Unsent(stamp, counted=False) for pk in dead}
            raise
        # What an earlier call of ours revived and could not send is known by that call's stamp.
        adopted = {pk: self._unsent.pop(pk) for pk, entry in known.items() if self._ours(entry)}
        mine = {
            pk: known[pk] for pk, entry in known.items() if _owed(entry) and (entry.stamp == stamp or pk in adopted)
        }
        uncounted = [pk for pk in mine if (not adopted[pk].counted if pk in adopted else pk in dead)]
        if mine:
            reasons = Counter(counter(Phase.DEAD, mine[pk].reason) for pk in uncounted)
            fewer = {name: -count for name, count in reasons.items()}
            self._crawls.owe(seen.key, {"dead": -len(uncounted), **fewer})
            try:
                await self._crawls.pay(seen.key, reopen=True)
                await self._requeue.send(seen, list(mine.values()))
            except BaseException:
                self._unsent |= {pk: Unsent(entry.stamp, counted=True) for pk, entry in mine.items()}
                raise
        return [mine.pop(page_key(crawl, seen.run, digest), None) is not None for digest, _ in pages]

    def _ours(self, entry: Record) -> bool:
        unsent = self._unsent.get(entry.pk)
        return unsent is not None and unsent.stamp == entry.stamp

    async def sweep(self, crawl: str) -> int:
        """Queue again what is recorded as pending and on no queue; answers how many.

        Which pages have a message only empty queues tell: with messages about, nothing is known and nothing done.
        """
        await self._dead_letters.drain()
        seen = await self._crawls.paid(crawl)
        if seen.record.paused:
            log.info("not swept: the crawl is paused, and what is on no queue is parked")
            return 0
        if not await self._still(seen):
            return 0
        swept = await self._feeding.mend(seen)
        if swept:
            return swept  # whether anything else has no message only empty queues will tell
        async with aclosing(self._waiting(seen)) as batches:
            async for batch in batches:
                # Once the first are sent the queues are not empty any more; the scan meets each page once.
                if not swept and not await self._still(seen):
                    return 0
                if seen.record.completed_at is not None:
                    await self._crawls.pay(seen.key, reopen=True)
                await self._requeue.send(seen, batch)
                swept += len(batch)
        return swept

    async def _waiting(self, seen: Crawl) -> AsyncGenerator[list[Record], None]:
        """Pending records of a crawl, some at a time."""
        batch: list[Record] = []
        async with aclosing(self._visited.scan(seen.key, Phase.PENDING)) as entries:
            async for entry in entries:
                if entry.phase is Phase.PENDING:
                    batch.append(entry)
                if len(batch) == SWEPT_AT_ONCE:
                    yield batch
                    batch = []
        if batch:
            yield batch

    async def _still(self, seen: Crawl) -> bool:
        """Whether nothing is on any queue or in any worker's hands, and no counter has moved."""
        depth = await self._queues.depth()
        if depth.total:
            log.info("not swept: %d messages are on the queues, and any page may be among them", depth.total)
            return False
        if (await self._crawls.read(seen.record.id)).counters != seen.counters:
            log.info("not swept: the crawl's counters move, so somebody is at work")
            return False
        return True

    async def purge(self, crawl: str) -> None:
        """Drop a crawl. Its mark comes first: from then on its messages are dropped by whoever receives them.

        What workers add to it while they do not yet know goes under its own run, which no later crawl of that name
        looks at; purging once more removes that too.
        """
        run = await self._crawls.purge(crawl)
        if run:
            await self._visited.drop(crawl, run)
            await self._scope.drop(crawl, run)
            await self._lines.drop(crawl, run)
            await self._quotas.drop(crawl, run)


def _owed(entry: Record) -> bool:
    """Whether the record is a revived page's whose message has perhaps not been sent."""
    return entry.phase is Phase.PENDING and entry.revived > 0
