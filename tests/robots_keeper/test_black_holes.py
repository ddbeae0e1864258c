"""A whole crawl in which most hosts accept connections and never answer."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

from tests import command
from tests.robots_keeper.workers import until
from tests.servers import Peer, replies, serve

HOLES, WELL, PAGES = 40, 5, 20
HOST = re.compile(rb"\r\nHost: ([a-z0-9]+)\.")


async def black_hole(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


@pytest.mark.case("B09")
async def test_the_others_are_done_before_the_first_black_hole_is_given_up(tmp_path: Path) -> None:
    """With more black holes than the worker may hold leases, and as many pages at each of them as anywhere else."""
    async with serve(black_hole) as holes, serve(replies(b"ok")) as well:
        seeds = [
            holes.url(f"/{page}").replace("127.0.0.1", f"hole{n}.localhost")
            for page in range(PAGES)
            for n in range(HOLES)
        ]
        seeds += [
            well.url(f"/{page}").replace("127.0.0.1", f"well{n}.localhost")
            for page in range(PAGES)
            for n in range(WELL)
        ]
        (tmp_path / "seeds").write_text("\n".join(seeds))
        state = str(tmp_path / "out" / "state.sqlite")
        options = ("--allow-private", "--rate", "10", "--concurrency", "16", "--store", str(tmp_path / "out"))
        (tmp_path / "out").mkdir()
        seeded = await asyncio.to_thread(
            command.run, "seed", "--state", state, "--file", str(tmp_path / "seeds"), *options
        )
        assert seeded.returncode == 0, seeded.stderr
        worker = command.start("work", "--state", state, "--concurrency", "16")
        try:
            await until(lambda: len(well.requests) == WELL * (PAGES + 1) or len(holes.requests) > HOLES)
            asked = Counter(match[1] for head in holes.requests if (match := HOST.search(head)))
            assert len(well.requests) == WELL * (PAGES + 1)
            assert set(holes.targets) == {"/robots.txt"}
            assert set(asked.values()) == {1}
            assert holes.open == len(asked)
        finally:
            worker.kill()
            worker.communicate()
