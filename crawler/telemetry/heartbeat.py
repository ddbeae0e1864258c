"""A file that says that this process is alive by when it was last touched; a container's health check reads its age.

What it shows is that the event loop comes round, and nothing else. An AWS that does not answer must not look like a
worker that hangs: then every worker would be killed for it, and their successors with them. All else that a worker
waits for has a deadline of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

EVERY = 5.0
"""Seconds between two touches. A file untouched for minutes belongs to a process that is stuck."""


@asynccontextmanager
async def beating(file: Path | None, every: float = EVERY) -> AsyncIterator[None]:
    """Touch the file, if there is to be one, again and again while the block runs; it is there when the block begins.

    A file that cannot be touched is no reason to stop: the health check will say so.
    """
    if file is None:
        yield
        return
    _touch(file)
    beat = asyncio.create_task(_beat(file, every))
    try:
        yield
    finally:
        beat.cancel()


async def _beat(file: Path, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        _touch(file)


def _touch(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.touch()
