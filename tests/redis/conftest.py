"""Fixtures of the tests of the Redis state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.state.redis import RedisState
from tests.redis.making import Make, record
from tests.redis.relay import Relay, relaying
from tests.redis_server import RedisServer, bloom_module, running


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Open a state, make it and a crawl on it if they are new; all are closed at the end."""
    states: list[RedisState] = []

    async def made(address: str, worker: str = "w", **settings: Any) -> RedisState:
        state = await RedisState.open(address, worker=worker, create=True)
        states.append(state)
        await state.create(record(**settings))
        return state

    yield made
    for state in states:
        await state.close()


@pytest.fixture
def durable_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of the test's own that keeps every write."""
    # With "everysec" a busy disk makes it answer up to two seconds before it writes.
    with running(tmp_path / "redis", appendonly="yes", appendfsync="always") as server:
        yield server


@pytest.fixture(scope="module")
def bloom_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server with Bloom filters."""
    with running(tmp_path_factory.mktemp("bloom"), loadmodule=bloom_module(), appendonly="yes") as server:
        yield server


@pytest.fixture
async def relay(redis_server: RedisServer) -> AsyncIterator[Relay]:
    """A way to the common server on which answers can be lost."""
    async with relaying(redis_server.port) as made:
        yield made
