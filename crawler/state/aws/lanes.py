"""Which lane to receive from, and how much at once: a page should not cost a request that finds nothing.

High lanes come first; now and then a low one does, so that it never starves. A lane found empty rests for a moment.
Receives go out side by side once a lane has shown that it can fill them.
"""

from __future__ import annotations

import time

import msgspec

from crawler.state.aws.client import together
from crawler.state.aws.queue import BATCH, Queues, Received

REST = 3.0
"""Seconds for which a lane that was found empty is not asked again, unless something was sent to it from here."""

POLL = 2
"""Seconds of the long poll when no lane had anything. A stop waits for it."""

WIDEST = 8
"""Receives side by side."""

SHARE = 10
"""Every so many claims begin with the next lower lane."""


class Lane(msgspec.Struct, gc=False):
    """A lane's recent past: until when it rests (monotonic), and how many receives it can fill."""

    number: int
    rests_until: float = 0.0
    width: int = 1


class Lanes:
    """Receives for one process."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._lanes = [Lane(number) for number in queues.distinct]
        self._claims = 0

    def wake(self, number: int) -> None:
        """Something was sent to this lane."""
        for lane in self._lanes:
            if lane.number == self._queues.lane(number):
                lane.rests_until = 0.0

    async def receive(self, limit: int, *, patient: bool) -> list[Received]:
        """At most `limit` messages, best lane first; if `patient`, waits up to POLL seconds for a first one."""
        self._claims += 1
        received: list[Received] = []
        for lane in self._order():
            # A few pages more are not worth a request of their own: the next claim takes ten at its price.
            while time.monotonic() >= lane.rests_until and (not received or limit - len(received) >= BATCH):
                received += await self._wave(lane, limit - len(received))
        if not received:
            normal = self._queues.lane(1)
            received = await self._queues.receive(normal, min(limit, BATCH), POLL if patient else 0)
            if received:
                self.wake(1)
        return received

    def _order(self) -> list[Lane]:
        """All lanes, best first; in turn each lower lane is put first for one claim in SHARE."""
        lanes = list(self._lanes)
        turn, rest = divmod(self._claims, SHARE)
        if rest == 0 and len(lanes) > 1:
            lanes.insert(0, lanes.pop(1 + turn % (len(lanes) - 1)))
        return lanes

    async def _wave(self, lane: Lane, room: int) -> list[Received]:
        """Some receives side by side. A lane that filled less than half of them is asked once at a time again."""
        sizes = [min(BATCH, room)] * max(1, min(lane.width, room // BATCH))
        batches = await together([self._queues.receive(lane.number, size, 0) for size in sizes])
        received = [message for batch in batches for message in batch]
        if len(received) * 2 >= sum(sizes):
            lane.width = min(lane.width * 2, WIDEST)
        else:
            lane.width = 1
        if not received:
            lane.rests_until = time.monotonic() + REST
        return received
