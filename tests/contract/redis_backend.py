"""The Redis backend in the contract suite: a state of its own on a real server, under a clock that the test moves."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from crawler.state.port import CrawlState
from crawler.state.redis import RedisState, client
from tests.contract.backends import Backend, Difference
from tests.redis_server import RedisServer, running


@cache
def _server() -> RedisServer:
    """One server for all tests of the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running(Path(tempfile.mkdtemp(prefix="redis-")), appendonly="yes"))


class RedisBackend:
    """Handles on one state of the server."""

    differences: Mapping[Difference, str] = {}

    def __init__(self, server: RedisServer) -> None:
        self._address = server.address()
        self._time = 1_800_000_000.0
        self._handles: list[RedisState] = []
        self._patience = client.PATIENCE

    async def open(self, worker: str = "worker-1") -> CrawlState:
        state = await RedisState.open(self._address, worker=worker, create=True, clock=self.now)
        self._handles.append(state)
        return state

    def now(self) -> float:
        return self._time

    async def advance(self, seconds: float) -> None:
        self._time += seconds

    async def break_driver(self) -> None:
        client.PATIENCE = 0.02
        for handle in self._handles:
            pool = handle._server._redis.connection_pool
            pool.connection_kwargs["port"] = 1  # where nobody listens
            await pool.disconnect()
            pool.reset()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        client.PATIENCE = self._patience
        for handle in self._handles:
            await handle.close()


async def make(_: Path) -> Backend:
    return RedisBackend(_server())
