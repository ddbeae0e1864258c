"""Put aside: a page whose turn is far is sent again with a delay, then its message is deleted.

Waiting for a host never holds a message: messages in flight are capped, and a lease that runs out counts as a
delivery. Pages of one host come back one after the other, as far apart as its gate will let them through.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from crawler.errors import StateUnavailable
from crawler.state.aws.gate import Gates
from crawler.state.aws.pacing import Pace
from crawler.state.aws.queue import LONGEST_DELAY, Outgoing, Queues
from crawler.state.aws.records import Message, encode, group, lane

log = logging.getLogger(__name__)

REMEMBERED = 50_000
"""Gates whose pages are spread over time, in memory."""


class Aside(msgspec.Struct, frozen=True, gc=False):
    """A page that is to be received again at `at` (Unix seconds), and the receipt of the message it came by."""

    page: Message
    receipt: str
    at: float


class PutAside:
    """What one process puts aside. `fleet_size` is how many processes do so: each takes its share of a gate's turns."""

    def __init__(self, queues: Queues, gates: Gates, fleet_size: Callable[[], int], clock: Callable[[], float]) -> None:
        self._queues, self._gates, self._fleet_size, self._clock = queues, gates, fleet_size, clock
        self._next: OrderedDict[str, float] = OrderedDict()

    def when(self, gate: str, pace: Pace) -> float:
        """When to look at one more page of a closed gate again: a hint, no turn is taken by it."""
        opens, step = self._gates.outlook(gate, pace)
        at = max(opens, self._next.pop(gate, 0.0))
        self._next[gate] = at + step * self._fleet_size()
        if len(self._next) > REMEMBERED:
            self._next.popitem(last=False)
        return at

    async def put(self, aside: Sequence[Aside], drop: Sequence[str]) -> None:
        """Send pages again, then delete their messages, and those of `drop`.

        If that fails or the process dies, the messages come back when their leases expire.
        """
        now = self._clock()
        try:
            refused = await self._queues.send([outgoing(entry.page, entry.at, now) for entry in aside])
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
