"""A look of the janitor in a process of its own that is killed at a chosen point."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from crawler.archive.stores import open_store
from crawler.errors import StateUnavailable, StoreUnavailable
from crawler.janitor.look import Janitor
from tests.faults.victim import POINTS, Boundary, Watched
from tests.janitor.looking import opened

EVENTS = "events"
"""File in the folder: the events that were emitted, one a line."""

_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["pytest", "pyarrow", "pyarrow.compute", "pyarrow.parquet", __name__])


class WatchedStore(Watched):
    """A store with points around each file that is replaced, and before its new content takes the name."""

    @asynccontextmanager
    async def replace(self, name: str) -> AsyncIterator[Path]:
        what = name.partition(".")[2]
        self._boundary.point(f"before {what}", self._error)
        async with self._inner.replace(name) as path:
            yield path
            self._boundary.point(f"written {what}", self._error)
        self._boundary.point(f"after {what}", self._error)


async def strike(folder: Path, now: float, at: int | None) -> int:
    """Look at the state in `folder` at a time, until the end or until point number `at`; the process's exit code."""
    process = _fork.Process(target=_run, args=(str(folder), now, at))
    process.start()
    await asyncio.to_thread(process.join, 60)
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def points(folder: Path) -> list[str]:
    """The points that the last process passed."""
    return (folder / POINTS).read_text().splitlines()


def events(folder: Path) -> list[dict[str, Any]]:
    """The events that were emitted, by whichever process."""
    file = folder / EVENTS
    return [msgspec.json.decode(line) for line in file.read_text().splitlines()] if file.exists() else []


async def announce(folder: Path, detail: str) -> None:
    """Emit an event: what it names must be there."""
    told = msgspec.json.decode(detail)
    assert (folder / "out" / told["parquet"]).exists()
    assert (folder / "out" / told["summary"]).exists()
    with (folder / EVENTS).open("a") as file:
        file.write(detail + "\n")


def _run(name: str, now: float, at: int | None) -> None:
    folder = Path(name)
    boundary = Boundary(folder / POINTS, "kill", at)

    async def look() -> None:
        state = await opened(folder, lambda: now)
        watched: Any = Watched(state, "state", boundary, StateUnavailable)
        emit = boundary.around("event", lambda detail: announce(folder, detail), None)
        janitor = Janitor(
            watched, "aws://Stack", announce=emit, stop_workers=None, emit=lambda _: None, clock=lambda: now
        )
        found = await janitor.look(now + 900)
        assert found.faults == []
        await state.close()

    stores = lambda address: WatchedStore(open_store(address), "store", boundary, StoreUnavailable)  # noqa: E731
    with mock.patch("crawler.janitor.closing.open_store", stores), mock.patch("crawler.janitor.running.ASK_AGAIN", 0):
        asyncio.run(look())
    sys.exit(0)
