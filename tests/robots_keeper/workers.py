"""Workers on one state, each with a robots keeper of its own, and the clock they go by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crawler.config import CrawlSettings
from crawler.fetch import Fetcher
from crawler.model import CrawlRecord
from crawler.robots import Robots
from crawler.robots_fact import Unreachable
from crawler.robots_keeper import RobotsKeeper
from crawler.state.port import CrawlState
from crawler.state.sqlite import SqliteState
from tests.servers import Peer, Script, Server

CRAWL = "crawl-1"
GATE = "127.0.0.1"
"""The gate of the servers: theirs alone."""
RULES = b"User-agent: *\nDisallow: /private\n"


class Clock:
    """Unix time that a test can move forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@asynccontextmanager
async def worker(
    path: Path | str,
    clock: Callable[[], float],
    name: str = "worker-1",
    *,
    wrap: Callable[[CrawlState], CrawlState] | None = None,
    **given: Any,
) -> AsyncIterator[tuple[RobotsKeeper, CrawlState]]:
    """One worker on the state at `path`, as its process would have it. `wrap`: what stands between it and the state."""
    settings = CrawlSettings(**{"rate": 0.0, "allow_private": True, "user_agent": "ExampleBot/1.0", **given})
    state = await SqliteState.open(str(path), worker=name, create=True, clock=clock)
    await state.create(CrawlRecord(id=CRAWL, started_at=clock(), settings=settings))
    try:
        fetcher = Fetcher(settings.user_agent, allow_private=settings.allow_private, concurrency=settings.concurrency)
        async with fetcher:
            keeper = RobotsKeeper(wrap(state) if wrap else state, fetcher, CRAWL, settings, name, clock)
            yield keeper, state
            await keeper.close()
    finally:
        await state.close()


async def asked(keeper: RobotsKeeper, server: Server, path: str = "/page") -> Robots | Unreachable:
    answer, _ = await keeper.rules(server.url(path), GATE, 0.0)
    return answer


def sequence(*steps: bytes) -> Script:
    """Answers the first request with the first of `steps` and so on; the last one for ever."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(steps[min(len(peer.server.requests), len(steps)) - 1])

    return script


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other tasks bring about; the test's time limit ends it."""
    while not condition():  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0.01)
