"""Requests in flight at a host: so few that a slow one is not piled up on.

This process never has more than the cap at one host. Of the fleet's only the slow ones need to be known: turns are an
interval apart, so a request that ends within half of one meets no other. What takes longer is reported at the host's
gate, and its end too; a fast host costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from crawler.errors import StateUnavailable
from crawler.state.port import CrawlState

LEAST = 0.01
"""Seconds that a request may take in any case before it is reported."""

HELD = 10.0
"""Seconds for which a report holds, renewed when half of them are over: a process that was killed keeps its places at a
host for no longer than that."""

FREE: AbstractAsyncContextManager[None] = contextlib.nullcontext()
"""Where there is no rate there is nothing to wait for and nothing to report."""


class Flights:
    """One process's requests in flight, by gate."""

    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self._gates: dict[str, list[asyncio.Event]] = {}  # in flight first, then those that wait
        self._ending: set[asyncio.Task[None]] = set()

    def slot(self, gate: str, cap: int) -> AbstractAsyncContextManager[None]:
        """One of this process's `cap` requests at a host, waited for in order. `cap` 0: any number."""
        return self._slot(gate, cap) if cap else FREE

    def request(self, gate: str, start: float, interval: float) -> AbstractAsyncContextManager[None]:
        """Around a request whose turn at a gate was at `start` (Unix seconds), with `interval` seconds to the next (0:
        none is needed). Reports it once it has become slow, and that it has ended."""
        return self._request(gate, start, interval) if interval else FREE

    async def close(self) -> None:
        """Wait until the last reports are out."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _slot(self, gate: str, cap: int) -> AsyncIterator[None]:
        queue = self._gates.setdefault(gate, [])
        mine = asyncio.Event()
        queue.append(mine)
        try:
            if len(queue) > cap:
                await mine.wait()
            yield
        finally:
            place = queue.index(mine)
            del queue[place]
            if place < cap <= len(queue):
                queue[cap - 1].set()
            if not queue:
                del self._gates[gate]

    @contextlib.asynccontextmanager
    async def _request(self, gate: str, start: float, interval: float) -> AsyncIterator[None]:
        # Counted from the turn, as the state does, however late the request itself is.
        report = asyncio.create_task(self._report(gate, max(start + interval / 2 - time.time(), LEAST)))
        try:
            yield
        finally:
            # Not waited for: the page goes on. The report ends with its own word that the request has ended.
            report.cancel()
            self._ending.add(report)
            report.add_done_callback(self._ending.discard)

    async def _report(self, gate: str, after: float) -> None:
        await asyncio.sleep(after)
        flight = secrets.token_hex(6)
        try:
            while True:
                await self._tell(gate, flight, time.time() + HELD)
                await asyncio.sleep(HELD / 2)
        finally:
            await self._tell(gate, flight, 0.0)

    async def _tell(self, gate: str, flight: str, until: float) -> None:
        # A report that fails is as good as late: the host's own pace bounds what that can do.
        with contextlib.suppress(StateUnavailable):
            await self._state.occupy(gate, flight, until)
