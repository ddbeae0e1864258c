"""A worker in a process of its own that a fault strikes at a chosen point.

A point is before or after a call that leaves the worker: of the state, of the store, to the disk, to the site. The
point after a call is the one at which it took effect and nobody has heard of it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from crawler.archive.disk import write_at
from crawler.archive.stores import open_store
from crawler.errors import StateUnavailable, StoreUnavailable
from crawler.fetch import Fetcher
from crawler.fetched import ParsedPage
from crawler.loop import Exit, Worker
from crawler.parse import parse
from crawler.url_key import Keys
from tests.faults.crawls import state_in

Fault = Literal["kill", "unavailable"]

POINTS = "points"
"""File in a crawl's folder: the points that were passed, one a line."""

_fork = multiprocessing.get_context("forkserver")
_fork.set_forkserver_preload(["pytest", __name__])


class Struck(OSError):
    """The disk refuses, once."""


class Boundary:
    """Counts the points that a worker passes; at one of them the fault strikes."""

    def __init__(self, log: Path, fault: Fault, at: int | None) -> None:
        self._fault, self._at, self._passed = fault, at, 0
        self._log = log.open("w", buffering=1)

    def point(self, name: str, error: type[Exception] | None) -> None:
        """A worker passes a point here. `error`: how the other side says that it is unavailable, if it can."""
        if error is None and self._fault != "kill":
            return
        self._log.write(name + "\n")
        self._passed += 1
        if self._passed - 1 != self._at:
            return
        if self._fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        assert error is not None
        raise error(f"{name}: unavailable")

    def around(self, name: str, call: Callable[..., Any], error: type[Exception] | None) -> Callable[..., Any]:
        """The call with a point on either side."""

        @functools.wraps(call)
        async def later(*args: Any, **more: Any) -> Any:
            self.point(f"before {name}", error)
            result = await call(*args, **more)
            self.point(f"after {name}", error)
            return result

        @functools.wraps(call)
        def now(*args: Any, **more: Any) -> Any:
            self.point(f"before {name}", error)
            result = call(*args, **more)
            self.point(f"after {name}", error)
            return result

        return later if inspect.iscoroutinefunction(call) else now


class Watched:
    """An object whose coroutine methods have points around them."""

    def __init__(self, inner: Any, name: str, boundary: Boundary, error: type[Exception]) -> None:
        self._inner, self._name, self._boundary, self._error = inner, name, boundary, error

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(attribute):
            return attribute
        return self._boundary.around(f"{self._name}.{name}", attribute, self._error)


class WatchedStore(Watched):
    """A store, and the segments made by it."""

    def segment(self, folder: str, name: str) -> Any:
        return Watched(self._inner.segment(folder, name), "segment", self._boundary, self._error)


class InProcess:
    """The parser without its process, which takes longer to start than these crawls last."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def parse(
        self,
        url: str,
        kind: str | None,
        body: bytes,
        x_robots: list[str],
        token: str,
        keys: Keys,
        *,
        with_simhash: bool = False,
    ) -> ParsedPage:
        return parse(body, kind, url, x_robots, token, keys, with_simhash=with_simhash)


async def strike(folder: Path, worker: str, fault: Fault = "kill", at: int | None = None) -> int:
    """Run a worker until the crawl in `folder` is complete or the fault at point number `at` ends it; its exit code."""
    process = _fork.Process(target=_run, args=(str(folder), worker, fault, at))
    process.start()
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, gone.set)
    try:
        async with asyncio.timeout(60):
            await gone.wait()
    finally:
        loop.remove_reader(process.sentinel)
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def points(folder: Path) -> list[str]:
    """The points that the last worker in a folder passed."""
    return (folder / POINTS).read_text().splitlines()


def _run(folder: str, worker: str, fault: Fault, at: int | None) -> None:
    boundary = Boundary(Path(folder) / POINTS, fault, at)
    replaced = {
        "crawler.loop.Parser": InProcess,
        "crawler.settle.GATHER": 0.005,
        # A robots.txt that a killed worker was fetching is waited for so long.
        "crawler.robots_keeper.MARKER": 0.1,
        "crawler.robots_keeper.POLL": 0.02,
        "crawler.archive.directory.write_at": boundary.around("disk.write", write_at, Struck),
        "crawler.contexts.Fetcher.get": boundary.around("fetch", Fetcher.get, None),
        "crawler.contexts.open_store": lambda address: WatchedStore(
            open_store(address), "store", boundary, StoreUnavailable
        ),
    }
    for name, stand_in in replaced.items():
        mock.patch(name, stand_in).start()

    async def work() -> Exit:
        async with state_in(Path(folder), worker) as state:
            watched: Any = Watched(state, "state", boundary, StateUnavailable)
            return await Worker(watched, folder, name=worker, concurrency=4, until_complete=True).run()

    sys.exit(0 if asyncio.run(work()) is Exit.COMPLETE else 130)
