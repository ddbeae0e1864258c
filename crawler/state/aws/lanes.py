"""Which lane to receive from, and how much at once: a page should not cost a request that finds nothing.

High lanes come first; now and then a low one does, so that it never starves. A lane found empty rests, longer each
time. Receives go out side by side once a lane has shown that it can fill them. When nothing comes, a long poll waits on
the normal lane while claims come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable

import msgspec

from crawler.state.aws.client import together
from crawler.state.aws.queue import BATCH, Queues, Received

REST = 3.0
"""Seconds for which a lane that was found empty is not asked again, unless something was sent to it from here; twice
as long each time."""

LONGEST_REST = 10.0
"""Seconds, times the number of workers: so often somebody of the fleet asks a lane that is always empty."""

POLL = 2
"""Seconds of a poll when no lane had anything. A claim waits no longer, and a stop waits for it."""

QUIET = 3
"""Polls in a row that found nothing, after which they become long."""

LONG_POLL = 20
"""Seconds of a long poll (SQS: 20 at most), which goes on while claims end."""

GRASP = 10
"""Seconds for which what a long poll brings is ours unless a claim takes it: what it brings when nobody waits any more
(a stop does not) comes back soon."""

PROMPT = 0.5
"""Seconds within which a long poll that brings something shows that the lane had not been empty."""

WIDEST = 8
"""Receives side by side."""

SHARE = 10
"""Every so many claims begin with the next lower lane."""

NORMAL = 1


class Lane(msgspec.Struct, gc=False):
    """A lane's recent past: until when it rests (monotonic), how long the next time, how many receives it can fill."""

    number: int
    rests_until: float = 0.0
    rest: float = 0.0
    width: int = 1


class Lanes:
    """Receives for one process; `fleet_size` is how many processes do so."""

    def __init__(self, queues: Queues, fleet_size: Callable[[], int]) -> None:
        self._queues, self._fleet_size = queues, fleet_size
        self._lanes = [Lane(number) for number in queues.distinct]
        self._claims = self._quiet = 0
        self._polling: asyncio.Task[list[Received]] | None = None

    def wake(self, number: int) -> None:
        """Something was sent to this lane."""
        for lane in self._lanes:
            if lane.number == self._queues.lane(number):
                lane.rests_until = lane.rest = 0.0

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """At most about `limit` messages, best lane first; waits up to `wait` seconds, POLL at most, for a first one.

        A poll may bring a few more than asked for: they are not worth a request of their own.
        """
        self._claims += 1
        received: list[Received] = []
        for lane in self._order():
            # A few pages more are not worth a request of their own: the next claim takes ten at its price.
            while self._awake(lane) and (not received or limit - len(received) >= BATCH):
                received += await self._wave(lane, limit - len(received))
        if received:
            self._quiet = 0
            return received
        return await self._poll(limit, min(wait, POLL))

    def _awake(self, lane: Lane) -> bool:
        # In quiet times the long poll tells what comes to the normal lane.
        polled = lane.number == self._queues.lane(NORMAL) and self._long
        return time.monotonic() >= lane.rests_until and not polled

    @property
    def _long(self) -> bool:
        return self._polling is not None or (self._quiet >= QUIET and LONG_POLL > POLL)

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
        lane.rest = 0.0 if received else min(max(REST, lane.rest * 2), LONGEST_REST * self._fleet_size())
        lane.rests_until = time.monotonic() + lane.rest
        return received

    async def _poll(self, limit: int, wait: float) -> list[Received]:
        """Wait for the normal lane."""
        if self._long:
            return await self._long_poll(wait)
        whole = math.floor(wait)
        if whole < POLL:
            # Something else is due sooner: a poll so short would find nothing too often.
            await asyncio.sleep(wait)
            return []
        received = await self._queues.receive(self._queues.lane(NORMAL), min(limit, BATCH), whole)
        self._quiet = 0 if received else self._quiet + 1
        if received:
            self.wake(NORMAL)
        return received

    async def _long_poll(self, wait: float) -> list[Received]:
        """Wait a while for the long poll, which begins now unless it has."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._queues.poll(self._queues.lane(NORMAL), LONG_POLL, GRASP))
            self._began = time.monotonic()
        await asyncio.wait({self._polling}, timeout=wait)
        if not self._polling.done():
            return []
        polled, self._polling = self._polling, None
        received = await self._queues.grip(polled.result())
        if received and time.monotonic() - self._began < PROMPT:
            self._quiet = 0
            self.wake(NORMAL)
        return received

    async def close(self) -> list[Received]:
        """Wait no longer; answers what nobody took."""
        if self._polling is None:
            return []
        polled, self._polling = self._polling, None
        if polled.done():
            return [] if polled.exception() else polled.result()
        polled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await polled
        return []
