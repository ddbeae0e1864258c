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
from typing import Protocol

import msgspec

from crawler.errors import StateUnavailable
from crawler.state.aws.client import together
from crawler.state.aws.queue import BATCH, Queues, Received

REST = 9.0
"""Seconds for which a lane that was found empty is not asked again, unless something was sent to it from here; three
times as long each time."""

LONGEST_REST = 20.0
"""Seconds, times the number of workers: so often somebody of the fleet asks a lane that is always empty."""

POLL = 2
"""Seconds of a poll when no lane had anything. A claim waits no longer, and a stop waits for it."""

QUIET = 2
"""Polls in a row that found nothing, after which they become long."""

LONG_POLL = 20
"""Seconds of a long poll (SQS: 20 at most), which goes on while claims end."""

GRASP = 10
"""Seconds for which what a long poll brings is ours unless a claim takes it: what it brings when nobody waits any more
(a stop does not) comes back soon."""

PROMPT = 0.5
"""Seconds within which long polls that bring ten, two in a row, show that the lane is not empty any more."""

WIDEST = 8
"""Receives side by side."""

SHARE = 10
"""Every so many claims begin with the next lower lane."""

NORMAL = 1


class Source(Protocol):
    """Where claims get messages from: the lanes, or what was delivered."""

    until: float
    """Unix time until which pages may wait in hand for their turn."""

    def wake(self, number: int) -> None: ...

    async def receive(self, limit: int, wait: float) -> list[Received]: ...

    async def close(self) -> list[Received]: ...


class Lane(msgspec.Struct, gc=False):
    """A lane's recent past: until when it rests (monotonic), how long the next time, how many receives it can fill."""

    number: int
    rests_until: float = 0.0
    rest: float = 0.0
    width: int = 1


class Lanes:
    """Receives for one process; `fleet_size` is how many processes do so."""

    until = math.inf

    def __init__(self, queues: Queues, fleet_size: Callable[[], int]) -> None:
        self._queues, self._fleet_size = queues, fleet_size
        self._lanes = [Lane(number) for number in queues.distinct]
        self._claims = self._quiet = self._prompt = 0
        self._polling: asyncio.Task[list[Received]] | None = None
        self._elsewhere = False

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
        received = await self._polled()
        elsewhere, self._elsewhere = self._elsewhere, False
        for lane in self._order():
            normal, before = lane.number == self._queues.lane(NORMAL), len(received)
            if normal and (self._polling is not None or (self._quiet and not elsewhere)):
                continue  # polls tell what comes
            # A few pages more are not worth a request of their own: the next claim takes ten at its price.
            while time.monotonic() >= lane.rests_until and (not received or limit - len(received) >= BATCH):
                received += await self._wave(lane, limit - len(received))
            if len(received) > before:
                self._quiet, self._elsewhere = (0, self._elsewhere) if normal else (self._quiet, True)
        return received or await self._poll(limit, min(wait, POLL))

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
        lane.rest = 0.0 if received else min(max(REST, lane.rest * 3), LONGEST_REST * self._fleet_size())
        lane.rests_until = time.monotonic() + lane.rest
        return received

    async def _poll(self, limit: int, wait: float) -> list[Received]:
        """Wait for the normal lane: in a poll of its own, or a while for the long one, which does not end with a claim
        that something else ends sooner."""
        if LONG_POLL > POLL and (self._polling or self._quiet >= QUIET or wait < POLL):
            return await self._long_poll(wait)
        received = await self._queues.receive(self._queues.lane(NORMAL), min(limit, BATCH), math.floor(wait))
        if len(received) == BATCH:
            self._quiet = 0
            self.wake(NORMAL)
        elif not received:
            self._quiet += 1
        return received

    async def _long_poll(self, wait: float) -> list[Received]:
        """Wait a while for the long poll, which begins now unless it has."""
        if self._polling is None:
            self._polling = asyncio.create_task(self._queues.poll(self._queues.lane(NORMAL), LONG_POLL, GRASP))
            self._began = time.monotonic()
        await asyncio.wait({self._polling}, timeout=wait)
        return await self._polled()

    async def _polled(self) -> list[Received]:
        """What the long poll brought if it has ended, as far as it is still ours."""
        polled = self._polling
        if polled is None or not polled.done():
            return []
        self._polling = None
        received = await self._queues.grip(await polled)
        full = len(received) == BATCH and time.monotonic() - self._began < PROMPT
        self._prompt = self._prompt + 1 if full else 0
        if self._prompt > 1:
            self._quiet = self._prompt = 0
            self.wake(NORMAL)
        return received

    async def close(self) -> list[Received]:
        """Wait no longer; answers what nobody took."""
        if self._polling is None:
            return []
        polled, self._polling = self._polling, None
        polled.cancel()  # in vain for one that has ended
        with contextlib.suppress(asyncio.CancelledError, StateUnavailable):
            return await polled
        return []
