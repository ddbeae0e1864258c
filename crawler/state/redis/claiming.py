"""Claiming, so that no lease is left with nobody: not by an answer that was lost, not by a caller that went away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence

from crawler.errors import CrawlerError
from crawler.model import Lease
from crawler.state.redis import records
from crawler.state.redis.client import Server
from crawler.state.redis.clock import Clock

_LEAVE_SECONDS = 2.0


class Claimer:
    """`claim` of one state.

    Each claim has a number, which its pages remember beside the worker. A claim that got no answer may have handed
    out pages: the next one uses its number again and says so, and the script first takes back what is held under it.
    """

    def __init__(
        self, server: Server, clock: Clock, worker: str, give_back: Callable[[Sequence[Lease]], Awaitable[object]]
    ) -> None:
        self._server, self._clock, self._give_back = server, clock, give_back
        self._owner = records.owner(worker)
        self._numbers = itertools.count(int.from_bytes(os.urandom(3)))  # not those of an earlier life
        self._unanswered: list[int] = []
        self._leaving: set[asyncio.Task[None]] = set()

    async def claim(self, limit: int, crawl: str | None) -> list[Lease] | None:
        """At most `limit` leases; None when there is no such crawl."""
        if self._leaving:
            await asyncio.wait(self._leaving)
        handed = asyncio.ensure_future(self._claim(limit, crawl))
        try:
            return await asyncio.shield(handed)
        except asyncio.CancelledError:
            # Nobody will see these leases: give them back rather than let them block a stop until they expire.
            leaving = asyncio.create_task(self._undo(handed))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            raise

    async def close(self) -> None:
        """Finish what cancelled claims left to do, if that is soon."""
        if self._leaving:
            _, late = await asyncio.wait(self._leaving, timeout=_LEAVE_SECONDS)
            for task in late:
                task.cancel()

    async def _claim(self, limit: int, crawl: str | None) -> list[Lease] | None:
        again = bool(self._unanswered)
        number = self._unanswered.pop() if again else next(self._numbers)
        holder = self._owner + number.to_bytes(4, "little")
        try:
            reply = await self._server.run("claim", (limit, crawl, again), holder, repeated=(limit, crawl, True))
        except BaseException:
            self._unanswered.append(number)
            raise
        return None if reply is None else records.leases(reply, self._clock)

    async def _undo(self, handed: asyncio.Future[list[Lease] | None]) -> None:
        with contextlib.suppress(CrawlerError):  # then they expire
            if leases := await handed:
                await self._give_back(leases)
