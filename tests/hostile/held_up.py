"""For how long what comes in from a hostile site keeps the event loop of a worker to itself.

In a process of its own, as a worker has one: in that of the tests a collection of everybody's garbage takes longer.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

from crawler.loop import Exit, Worker
from tests.faults.crawls import counts, seeded, state_in

BLOCKED = 0.25
"""Seconds for which nothing may keep the event loop to itself."""


def held_up(seed: str, folder: Path, *, done: int) -> float:
    """Crawl a site, of which at least `done` pages can be had; seconds of processor time.

    Other programs on the machine do not use those up. Raises CalledProcessError when the crawl does not end well.
    """
    arguments = [sys.executable, "-m", "tests.hostile.held_up", seed, str(folder), str(done)]
    return float(subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout)


async def _crawl(seed: str, folder: Path, done: int) -> float:
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.01)
            longest = max(longest, time.thread_time() - before)

    await seeded(folder, [seed], scope="any", max_attempts=1)
    async with state_in(folder, "w") as state:
        watching = asyncio.create_task(watch())
        assert await Worker(state, str(folder), name="w", until_complete=True).run() is Exit.COMPLETE
        watching.cancel()
    ledger = await counts(folder)
    assert ledger.done >= done
    assert ledger.outstanding == 0
    return longest


if __name__ == "__main__":
    print(asyncio.run(_crawl(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
