"""Deliveries: the messages of one event that Lambda hands to a function take the lanes' place; none are received.

    take -> the loop works on them as on any other -> left

Where a worker would delete a message, here it is only noted: Lambda deletes every message of the event that is not
among those left, so that costs nothing more. If the process dies before it has answered, all of them come back. Pages
that have ended are then dropped unfetched; of those that were sent again there are two messages, and whichever comes
after the page's end is dropped likewise.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

import msgspec

from crawler.errors import StateMismatch
from crawler.state.aws.queue import Queues, Received

LOOK = 0.2
"""Seconds that a claim waits at most when pages wait here for their turn: a stop waits for it."""


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message as it stands in an event of an SQS queue (`Records`)."""

    id: str = msgspec.field(name="messageId")
    receipt_handle: str = msgspec.field(name="receiptHandle")
    body: str
    attributes: dict[str, str]
    queue_arn: str = msgspec.field(name="eventSourceARN")


class Delivered:
    """The messages of one event at a time, a source of claims. Until `until` (Unix seconds) pages may wait here for
    their turn."""

    def __init__(self, queues: Queues, clock: Callable[[], float]) -> None:
        self._queues, self._clock = queues, clock
        self._waiting: list[Received] = []
        self._ids: dict[str, str] = {}
        self.until = 0.0

    def take(self, deliveries: Sequence[Delivery], until: float) -> None:
        """Begin with an event. Raises StateMismatch when it is not from the lanes.

        How long ago its messages were received Lambda does not say. Their visibility timeout is six times the
        function's own and more, so what is left of it is longer than the function may run.
        """
        expires_at = self._clock() + self._queues.lease
        self._waiting = [self._received(delivery, expires_at) for delivery in deliveries]
        self._ids = {
            received.receipt: delivery.id for received, delivery in zip(self._waiting, deliveries, strict=True)
        }
        self._queues.lend(self._ids)
        self.until = until

    @property
    def waiting(self) -> bool:
        """Whether some were not received yet."""
        return bool(self._waiting)

    def left(self) -> list[str]:
        """End with the event: the ids of its messages that are to stay on their queues."""
        ids, self._ids, self._waiting = self._ids, {}, []
        return [ids[receipt] for receipt in self._queues.take_back()]

    def _received(self, delivery: Delivery, expires_at: float) -> Received:
        lane = self._queues.number(delivery.queue_arn.rpartition(":")[2])
        if lane is None:
            raise StateMismatch(f"a message came from {delivery.queue_arn}, which is no lane of this crawl state")
        receives = int(delivery.attributes["ApproximateReceiveCount"])
        return Received(delivery.id, f"{lane}:{delivery.receipt_handle}", delivery.body, receives, expires_at)

    # ---------------------------------------------------------------- in the lanes' place

    def wake(self, number: int) -> None:
        """What is sent to a lane comes in an event of its own."""

    async def receive(self, limit: int, wait: float) -> list[Received]:  # noqa: ARG002 - what does not fit waits here
        """All of them at once: they are read together, and each host's turns are taken in one write."""
        received, self._waiting = self._waiting, []
        if not received and math.isfinite(wait):
            await asyncio.sleep(min(wait, LOOK))
        return received

    async def close(self) -> list[Received]:
        """What no claim came to take."""
        waiting, self._waiting = self._waiting, []
        return waiting
