"""Whole crawls of one small server by a worker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from crawler.loop import Exit, Worker
from tests.faults.crawls import finished_rows, seeded, state_in
from tests.servers import Peer, Script, reply

HTML = "Content-Type: text/html"
NO_RULES = reply(b"", status="404 Not Found")

Answer = Callable[[str, bytes], bytes]
"""What a site answers: from a request's target and head to a whole reply."""


def site(answer: Answer) -> Script:
    """A site without rules whose pages are made by `answer`."""

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            target = head.split(b" ", 2)[1].decode()
            await peer.send(NO_RULES if target == "/robots.txt" else answer(target, head))

    return script


def redirect(to: str, *headers: str, status: str = "302 Found") -> bytes:
    return reply(b"", f"Location: {to}", *headers, status=status)


async def work(folder: Path, name: str = "w") -> Exit:
    """Let one worker run until the crawl in the folder is complete."""
    async with state_in(folder, name) as state, asyncio.timeout(60):
        return await Worker(state, str(folder), name=name, until_complete=True).run()


@asynccontextmanager
async def working(folder: Path) -> AsyncIterator[None]:
    """A worker at work while the block runs."""
    async with state_in(folder, "w") as state:
        worker = Worker(state, str(folder), name="w")
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            worker.stop()
            await running


async def crawled(folder: Path, *seeds: str, **settings: Any) -> dict[str, dict[str, Any]]:
    """The rows, by URL, of a crawl from these seeds that ended sound."""
    await seeded(folder, seeds, **settings)
    assert await work(folder) is Exit.COMPLETE
    return {row["url"]: row for row in await finished_rows(folder)}
