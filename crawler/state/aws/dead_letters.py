"""The queues' own dead letters: messages received too often and never settled, since whoever had them died.

    receive -> write the pages' rows (durable) -> settle the pages as dead (mark finished, delete the messages)

Their pages end as dead in the record, like those whose attempts are used up, so that there is one place to look; and
with a row, like all pages. If the process dies between any two of these steps the messages come back: a page that has
not ended gets a second row, of which the merge takes one, and the message of one that has ended is only deleted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from crawler.errors import StoreError
from crawler.model import Lease, Settled, Verdict, dead
from crawler.state.aws.client import Refused
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.intake import Intake, Job
from crawler.state.aws.queue import BATCH, DEAD, Queues, Received
from crawler.state.aws.settling import Settling
from crawler.state.port import WriteRows

log = logging.getLogger(__name__)

WAIT = 1
"""Seconds of the long poll: only that asks all of a queue's servers."""

TOGETHER = 100
"""Messages whose rows are written together, for each write makes a file."""


class DeadLetters:
    """Drains for one process, for all crawls on the state. Without somebody to write rows it leaves all as it is."""

    def __init__(
        self,
        queues: Queues,
        intake: Intake,
        settling: Settling,
        crawls: Crawls,
        write_rows: WriteRows | None,
        home: str,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._intake, self._settling, self._crawls = queues, intake, settling, crawls
        self._write_rows, self._home, self._clock = write_rows, home, clock

    async def drain(self) -> int:
        """End the pages of all messages there; answers how many had not ended. Nothing where no such queue is known.

        StoreError: the rows of some could not be written; their messages come back when their leases expire.
        """
        if self._write_rows is None or not await self._queues.find_dead_letters():
            return 0
        ended, failure = 0, None
        while failure is None and (received := await self._receive()):
            jobs, drop = await self._intake.take(received)
            await self._queues.delete(drop)
            by_crawl: dict[str, list[Job]] = defaultdict(list)
            for job in jobs:
                by_crawl[job.page.crawl].append(job)
            for crawl, some in by_crawl.items():
                try:
                    ended += await self._end(crawl, some, self._write_rows)
                except StoreError as error:
                    failure = error  # the other crawls' archives may be fine
        if ended:
            log.warning("%d pages ended as dead: their workers died each time", ended)
        if failure is not None:
            raise failure
        return ended

    async def try_to_drain(self) -> int:
        """The same for those who may have no right to the queue, or to an archive."""
        try:
            return await self.drain()
        except Refused as error:
            log.info("the dead-letter queue stays as it is: %s", error)
        except StoreError as error:
            log.warning("dead letters stay on their queue: %s", error)
        return 0

    async def _receive(self) -> list[Received]:
        received: list[Received] = []
        while len(received) < TOGETHER and (more := await self._queues.receive(DEAD, BATCH, WAIT)):
            received += more
        return received

    async def _end(self, crawl: str, jobs: Sequence[Job], write_rows: WriteRows) -> int:
        """End pages of a crawl; says how many had not ended. Raises StoreError, and then none has."""
        if (seen := self._crawls.seen(crawl)) is None:
            return 0  # purged just now: whoever receives its messages next drops them
        now = self._clock()
        endings: list[tuple[Lease, Verdict]] = [(job.lease(now), dead("crash", _error(job.receives))) for job in jobs]
        await write_rows(seen.record, self._home, endings)
        return (await self._settling.settle(endings)).count(Settled.SETTLED)


def _error(receives: int) -> str:
    return f"received {receives} times, and each time its worker ended without settling it"
