"""Large bodies in hand: so few at a time that a process's memory is bounded, whatever servers send.

A small body costs nothing. One that grows beyond LARGE waits, with its connection, until there is room for it, and
keeps its place until its page has been parsed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

LARGE = 1024 * 1024
"""Bytes, received or decoded, beyond which a body is large."""

AT_ONCE = 3
"""Large bodies in hand of one process."""


class Room:
    """The room of one page's answers; give it back by leaving the block."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places, self.taken = places, False

    async def take(self) -> None:
        """Wait for a place, unless this page has one."""
        if not self.taken:
            await self._places.acquire()
            self.taken = True

    def leave(self) -> None:
        """Give the place back. Who has one waits for nothing that others have who wait for one."""
        if self.taken:
            self.taken = False
            self._places.release()

    def __enter__(self) -> Room:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()
