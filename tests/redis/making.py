"""Short ways to say what the tests of the Redis state say all the time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
from redis import Redis

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord
from crawler.state.redis import RedisState
from tests.contract.words import CRAWL
from tests.redis_server import RedisServer

START = 1000.0


def record(name: str = CRAWL, **settings: Any) -> CrawlRecord:
    """A record without a limit on the rate unless `settings` say so."""
    given = msgspec.convert({"rate": 0.0, **settings}, CrawlSettings)
    return CrawlRecord(id=name, started_at=START, settings=given)


class Make(Protocol):
    """What the fixture `make` is."""

    async def __call__(self, address: str, worker: str = "w", **settings: Any) -> RedisState: ...


@contextmanager
def direct(server: RedisServer, **options: Any) -> Iterator[Redis]:
    """A plain client, to look behind the state and to change the server."""
    with Redis(port=server.port, **options) as client:
        yield client


def name_of(address: str) -> str:
    """The name of the state at an address."""
    return address.rpartition("name=")[2]


def keys(client: Redis, address: str) -> set[str]:
    """The keys of a state, without their hash tag."""
    tag = f"{{{name_of(address)}}}:"
    return {key.decode("latin-1").removeprefix(tag) for key in client.scan_iter(tag.replace("{", "[{]") + "*")}
