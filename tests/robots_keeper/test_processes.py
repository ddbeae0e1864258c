"""Three processes on one state: each origin is asked once."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.command import clean_environment
from tests.redis_server import RedisServer
from tests.robots_keeper.workers import RULES
from tests.servers import Peer, reply, serve

ORIGINS = 12


async def ask(address: str, name: str, pages: list[str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.robots_keeper.asker", address, name, *pages),
        cwd=Path(__file__).parents[2],
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


@pytest.fixture(params=["sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state.sqlite")
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.address()


async def test_three_processes_ask_each_origin_once(address: str) -> None:
    everybody_there = asyncio.Event()
    connections = 0

    async def script(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        if connections == ORIGINS:
            everybody_there.set()
        # No file comes before all are asked for, so that every process meets origins that another one is fetching.
        await everybody_there.wait()
        while await peer.request():
            await peer.send(reply(RULES))

    async with serve(script) as server:
        pages = [server.url("/private").replace("127.0.0.1", f"h{n}.localhost") for n in range(ORIGINS)]
        outputs = await asyncio.gather(*(ask(address, f"worker-{n}", pages) for n in range(3)))
        asked = Counter(re.findall(rb"\r\nHost: (h\d+)\.", b"".join(server.requests)))
    assert set(asked.values()) == {1}
    assert len(asked) == ORIGINS
    assert all(output.splitlines() == [f"{page} False" for page in pages] for output in outputs)
