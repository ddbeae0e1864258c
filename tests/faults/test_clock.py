"""A worker whose clock is 90 seconds off, ahead or behind, beside one whose clock is right, on one SQLite file.

What holds there, where every process writes times of its own clock (`skew` is how far two clocks are apart):

- No page is lost or finished twice, and the crawl ends: leases, attempts and outcomes are no matter of clocks.
- A lease ends at most `skew` too early (its page is then fetched twice and the late settlement is lost) or too late.
- A gate lets through at most one horizon of turns (a second) more than its rate, when a clock that is ahead meets turns
  already handed out. After that the clock that is ahead alone gets turns until it stops; the others wait for `skew`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from crawler.state.sqlite.gates import HORIZON
from tests import command
from tests.faults.crawls import STATE, counts, finished_rows, seeded
from tests.local_site import demo_site_process
from tests.servers import Peer, reply, serve

RATE = 50.0

pytestmark = pytest.mark.e2e


def off_by(seconds: float, folder: Path) -> Mapping[str, str]:
    """An environment in which Python's clock is off."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
            import time
            right = time.time
            time.time = lambda: right() + {seconds}
        """)
    )
    return {"PYTHONPATH": str(folder)}


@pytest.mark.case("F12")
@pytest.mark.parametrize("seconds", [90, -90])
async def test_a_clock_that_is_off_loses_no_page_and_keeps_the_rate(tmp_path: Path, seconds: int) -> None:
    out = tmp_path / "out"
    with demo_site_process(tmp_path, pages=200) as site:
        await seeded(out, site.seeds, rate=RATE, pace_by="host", lease=30.0)
        work = ("work", "--state", str(out / STATE), "--until-complete", "--concurrency", "8")
        off = command.start(*work, "--name", "off", env=off_by(seconds, tmp_path / "clock"))
        right = command.start(*work, "--name", "right")
        for process in (off, right):
            _, errors = await asyncio.to_thread(process.communicate, timeout=60)
            assert (process.returncode, errors) == (0, "")
        assert set(site.fetched()) == site.truth.fetched
        requests = site.requests()
    for host in {request.host for request in requests}:
        times = sorted(request.at for request in requests if request.host == host)
        assert len(times) <= (times[-1] - times[0] + HORIZON) * RATE + 1
    await finished_rows(out)


async def test_a_lease_that_ends_early_by_a_wrong_clock_costs_a_request_and_no_page(tmp_path: Path) -> None:
    answer = asyncio.Event()

    async def site(peer: Peer) -> None:
        while head := await peer.request():
            if b"/robots.txt" in head:
                await peer.send(reply(status="404 Not Found"))
            else:
                if len(server.targets) == 2:
                    await answer.wait()
                await peer.send(reply(b"page", "Content-Type: text/html"))

    async with serve(site) as server:
        await seeded(tmp_path, [server.url()], lease=60.0)
        work = ("work", "--state", str(tmp_path / STATE), "--until-complete")
        right = command.start(*work, "--name", "right")
        await asyncio.to_thread(command.wait_for, lambda: "/" in server.targets)
        # To a clock that is a lease ahead the page's holder is long dead.
        ahead = await asyncio.to_thread(command.run, *work, env=off_by(90, tmp_path / "clock"))
        assert (ahead.returncode, ahead.stderr) == (0, "")
        ledger = await counts(tmp_path)
        answer.set()
        _, errors = await asyncio.to_thread(right.communicate, timeout=20)
        assert (right.returncode, errors) == (0, "")
        assert server.targets == ["/robots.txt", "/", "/"]
    assert await counts(tmp_path) == ledger
    (row,) = await finished_rows(tmp_path)
    assert row["outcome"] == "done"


async def test_no_lease_or_hold_lasts_longer_than_the_clock_is_off(tmp_path: Path) -> None:
    """A worker ahead of time dies: what it held comes back after its lease and its lead, as the file says."""
    never = asyncio.Event()

    async def site(peer: Peer) -> None:
        while head := await peer.request():
            if b"/robots.txt" not in head:
                await never.wait()
            await peer.send(reply(status="404 Not Found"))

    async with serve(site) as server:
        await seeded(tmp_path, [server.url()], lease=30.0)
        work = ("work", "--state", str(tmp_path / STATE))
        ahead = command.start(*work, env=off_by(90, tmp_path / "clock"))
        await asyncio.to_thread(command.wait_for, lambda: "/" in server.targets)
        ahead.kill()
        await asyncio.to_thread(ahead.communicate)
    with sqlite3.connect(tmp_path / STATE) as db:
        (ends,) = db.execute("SELECT max(wakes_at) FROM page").fetchone()
        (opens,) = db.execute("SELECT max(next_at) FROM gate").fetchone()
    db.close()
    assert time.time() < ends <= time.time() + 90 + 30
    assert opens <= time.time() + 90 + HORIZON
