"""The queues' own dead letters: messages received too often and never settled, since whoever had them died.

Their pages end as dead in the record, like those whose attempts are used up, so that there is one place to look.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from crawler.model import Settled, dead
from crawler.state.aws.client import Refused
from crawler.state.aws.intake import Intake
from crawler.state.aws.queue import BATCH, DEAD, Queues
from crawler.state.aws.settling import Settling

log = logging.getLogger(__name__)

WAIT = 1
"""Seconds of the long poll: only that asks all of a queue's servers."""


class DeadLetters:
    """Drains for one process, for all crawls on the state."""

    def __init__(self, queues: Queues, intake: Intake, settling: Settling, clock: Callable[[], float]) -> None:
        self._queues, self._intake, self._settling, self._clock = queues, intake, settling, clock

    async def drain(self) -> int:
        """End the pages of all messages there; answers how many had not ended. Nothing where no such queue is known.

        If the process dies here the messages come back, and those of pages that have ended are only deleted.
        """
        ended = 0
        if not await self._queues.find_dead_letters():
            return ended
        while received := await self._queues.receive(DEAD, BATCH, WAIT):
            jobs, drop = await self._intake.take(received)
            now = self._clock()
            endings = [(job.lease(now), dead("crash", _error(job.receives))) for job in jobs]
            answers = await self._settling.settle(endings)
            await self._queues.delete(drop)
            ended += answers.count(Settled.SETTLED)
        if ended:
            log.warning("%d pages ended as dead: their workers died each time", ended)
        return ended

    async def try_to_drain(self) -> int:
        """The same for those who may have no right to the queue."""
        try:
            return await self.drain()
        except Refused as error:
            log.info("the dead-letter queue stays as it is: %s", error)
        return 0


def _error(receives: int) -> str:
    return f"received {receives} times, and each time its worker ended without settling it"
