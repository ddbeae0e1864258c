"""The table of backends that the contract suite runs over.

To plug one in: write a class that satisfies `Backend` in a module of its own beside this one, an async factory
`make(folder) -> Backend` that makes a fresh, empty state (or calls `pytest.skip` when a service it needs is not
there), and add a `Row` to `ROWS`. The suite opens as many handles as a test needs through `open`, moves time through
`advance`, takes the driver away with `break_driver`, and calls `close` at the end, which closes every handle that is
still open.

The suite asks for what the port's docstrings say. Where a backend honestly cannot give that, it lists a `Difference`
with its reason, and the tests that pin the stronger promise are skipped for it with that reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import pytest

from crawler.state.port import CrawlState
from crawler.state.sqlite import SqliteState


class Difference(StrEnum):
    """What a backend may keep of the contract only in a weaker form."""

    REAL_TIME = "real-time"
    """`advance` really waits: tests that would need more than ten seconds of it are skipped."""
    DUPLICATE_LEASE = "duplicate-lease"
    """A page may be handed out while another lease of it lives; only one settlement finishes it."""
    PARTIAL_CLAIM = "partial-claim"
    """A claim may answer fewer pages than are claimable (the suite then claims again), and in no order but priority."""
    APPROXIMATE_COUNTS = "approximate-counts"
    """`counts` may lag behind and says `exact=False`; `hosts` may be 0."""
    DELAYED = "delayed"
    """A page whose turn is far is out of reach until then: limits and hosts that are down meet it when it comes."""
    NO_RELEASE = "no-release"
    """`release` answers 0; the leases expire."""


class Backend(Protocol):
    """A fresh state that the handles of one test share."""

    @property
    def differences(self) -> Mapping[Difference, str]:
        """What this backend keeps in a weaker form only, each with its reason."""
        ...

    async def open(self, worker: str = "worker-1") -> CrawlState:
        """One more handle on the same state, as a process named `worker` would open it."""
        ...

    def now(self) -> float:
        """The time that the state's handles go by, Unix seconds."""
        ...

    async def advance(self, seconds: float) -> None:
        """Return when `now()` is `seconds` later."""
        ...

    async def break_driver(self) -> None:
        """From now on every request of the handles that are open fails inside the driver, for good."""
        ...

    async def close(self) -> None:
        """Close the handles that are still open and remove what was made."""
        ...


Factory = Callable[[Path], Awaitable[Backend]]


@dataclass(frozen=True)
class Row:
    """A backend in the table; `marks` are pytest's (a service that it needs)."""

    name: str
    make: Factory
    marks: tuple[pytest.MarkDecorator, ...] = ()


def needs(backend: Backend, *promises: Difference) -> None:
    """Skip the test, with the reason, on a backend that keeps one of `promises` in a weaker form."""
    for promise in promises:
        if promise in backend.differences:
            pytest.skip(f"{promise}: {backend.differences[promise]}")


class SqliteBackend:
    """An SQLite file, or one handle on a database in memory, under a clock that the test moves."""

    differences: Mapping[Difference, str] = {}

    def __init__(self, path: str) -> None:
        self._path = path
        self._time = 1_800_000_000.0
        self._handles: list[SqliteState] = []

    async def open(self, worker: str = "worker-1") -> CrawlState:

        if self._path == ":memory:" and self._handles:
            pytest.skip("a database in memory has one handle")
        state = await SqliteState.open(self._path, worker=worker, create=True, clock=self.now)
        self._handles.append(state)
        return state

    def now(self) -> float:
        return self._time

    async def advance(self, seconds: float) -> None:
        self._time += seconds

    async def break_driver(self) -> None:
        for handle in self._handles:
            await handle._database.read(lambda connection: connection.close())

    async def close(self) -> None:
        for handle in self._handles:
            await handle.close()


async def _sqlite_file(folder: Path) -> Backend:
    return SqliteBackend(str(folder / "state.sqlite"))


async def _sqlite_memory(_: Path) -> Backend:
    return SqliteBackend(":memory:")


async def _aws(folder: Path) -> Backend:
    from tests.contract.aws_backend import make

    return await make(folder)


async def _redis(folder: Path) -> Backend:
    from tests.contract.redis_backend import make

    return await make(folder)


ROWS: tuple[Row, ...] = (
    Row("sqlite-file", _sqlite_file),
    Row("sqlite-memory", _sqlite_memory),
    Row("redis", _redis),
    Row("aws", _aws, (pytest.mark.emulator,)),
)
