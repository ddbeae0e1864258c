"""Put aside: a page whose turn is far is sent again with a delay, one of a paused crawl is parked; then its message is
deleted.

Waiting long for a host never holds a message: messages in flight are capped, and a lease that runs out counts as a
delivery.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

import msgspec

from crawler.errors import StateUnavailable
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.parking import Parking
from crawler.state.aws.placing import Placing
from crawler.state.aws.queue import LONGEST_DELAY, Outgoing, Queues
from crawler.state.aws.records import Message, encode, group, lane

log = logging.getLogger(__name__)


class Aside(msgspec.Struct, frozen=True, gc=False):
    """A page that is to be received again at `at` (Unix seconds; None: when its turn is near, if its crawl is paused
    not before the pause ends), and the receipt of the message it came by."""

    page: Message
    receipt: str
    at: float | None = None


class PutAside:
    """What one process puts aside."""

    def __init__(
        self, queues: Queues, placing: Placing, parking: Parking, crawls: Crawls, clock: Callable[[], float]
    ) -> None:
        self._queues, self._placing, self._parking, self._crawls = queues, placing, parking, crawls
        self._clock = clock

    async def put(self, aside: Sequence[Aside], drop: Sequence[str]) -> None:
        """Send pages again, then delete their messages, and those of `drop`.

        If that fails or the process dies, the messages come back when their leases expire.
        """
        now = self._clock()
        placed = [(entry.page, entry.at) for entry in aside if entry.at is not None]
        waiting = [entry.page for entry in aside if entry.at is None]
        try:
            await self._parking.park([page for page in waiting if self._crawls.paused(page.crawl)])
            going = [page for page in waiting if not self._crawls.paused(page.crawl)]
            placed += await self._placing.place(going, again=True)
            refused = await self._queues.send([outgoing(page, at, now) for page, at in placed])
            if refused:
                log.warning("SQS refused %d pages that it had held before: they stay where they are", len(refused))
                return
            await self._queues.delete([*drop, *(entry.receipt for entry in aside)])
        except StateUnavailable as error:
            log.info("%d pages come back when their leases expire: %s", len(aside) + len(drop), error)


def outgoing(page: Message, at: float, now: float) -> Outgoing:
    """The message by which a page is received not before `at`: longer waits than a queue can delay take several."""
    wait = math.ceil(max(0.0, at - now))
    later = msgspec.structs.replace(page, not_before=at if wait > LONGEST_DELAY else 0.0)
    return Outgoing(lane(page.priority), encode(later), group(page.gate), min(wait, LONGEST_DELAY))
