"""What workers tell adds up to the ledger, each begins and ends with a line, and nobody who reads it can stop them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from crawler import __version__
from crawler.loop import Exit, Worker
from crawler.telemetry.names import Fleet
from crawler.telemetry.report import Report, reported
from crawler.telemetry.stdout import Lines
from tests import command
from tests.faults.crawls import STATE, counts, seeded, state_in
from tests.local_site import DemoSite, demo_site_process
from tests.manners.crawls import HTML, site
from tests.servers import reply, serve
from tests.telemetry.emf_rules import metrics_of
from tests.telemetry.workers import BUDGET, ON, events, log_bytes, totals, work

pytestmark = pytest.mark.e2e


class Kept(Lines):
    """Keeps the lines that would go to standard output."""

    def __init__(self) -> None:
        self.dropped = 0
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> None:
        self.lines.append(line)

    def close(self) -> None:
        self.lines.append(b"closed")


async def ledger_agrees(folder: Path, told: Mapping[str, float], seeds: int) -> None:
    """What CloudWatch would show of a crawl that is complete."""
    ledger = await counts(folder)
    assert ledger.outstanding == 0
    assert told[Fleet.PAGES] == ledger.done + ledger.skipped + ledger.dead
    assert told[Fleet.SKIPPED] == ledger.skipped
    assert told[Fleet.DEAD] == ledger.dead
    assert told[Fleet.ROBOTS_BLOCKED] == ledger.skips.get("robots", 0)
    assert told[Fleet.DISCOVERED] == ledger.discovered - seeds


async def test_what_workers_tell_adds_up_to_the_ledger_also_when_one_is_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with demo_site_process(tmp_path, delay_ms=20) as demo:
        await seeded(out, demo.seeds, lease=120.0)
        first = command.start("work", "--state", str(out / STATE), "--concurrency", "4", env=ON)
        command.wait_for(lambda: len(demo.fetched()) > 40)
        first.terminate()
        told, errors = first.communicate(timeout=20)
        assert (first.returncode, errors) == (130, "")
        second = work(out)
        assert (second.returncode, second.stderr) == (0, "")
        answers = [request for request in demo.requests() if not request.is_robots]
    sums = totals([told, second.stdout])
    await ledger_agrees(out, sums, len(demo.seeds))
    for status, name in enumerate((Fleet.ANSWERED_2XX, Fleet.ANSWERED_3XX, Fleet.ANSWERED_4XX), start=2):
        assert sums[name] == sum(answer.status // 100 == status for answer in answers) > 0
    assert sums[Fleet.LATENCY] == len(answers)
    assert sums[Fleet.BYTES] > 0
    assert [event["why"] for out in (told, second.stdout) for event in events(out) if event["event"] == "stopped"] == [
        "stopped",
        "complete",
    ]


async def test_a_worker_says_that_it_begins_and_why_it_ends(tmp_path: Path, demo_site: DemoSite) -> None:
    await seeded(tmp_path / "out", demo_site.seeds)
    result = work(tmp_path / "out", "--name", "w1")
    started, *minutes, stopped = events(result.stdout)  # two minutes, where one ends while it works
    assert started == {
        "event": "started",
        "Stack": "sqlite",
        "worker": "w1",
        "version": __version__,
        "backend": "sqlite",
    }
    for minute in minutes:
        assert (minute["event"], minute["worker"], minute["version"]) == ("minute", "w1", __version__)
        assert minute["Workers"] == 1
        assert 10 < minute["Memory"] < 1000
    pages = sum(minute["Pages"] for minute in minutes)
    assert 0 < stopped.pop("seconds") < 60
    assert stopped == {
        "event": "stopped",
        "Stack": "sqlite",
        "worker": "w1",
        "why": "complete",
        "pages": pages,
    }
    assert log_bytes(result) <= BUDGET * pages
    # Shorter than what a pipe takes in one piece, so that nothing comes between its parts.
    assert max(map(len, result.stdout.splitlines())) < 4096


async def test_without_the_setting_nothing_is_told(tmp_path: Path, demo_site: DemoSite) -> None:
    await seeded(tmp_path / "out", demo_site.seeds[:1], max_pages=3)
    assert log_bytes(work(tmp_path / "out", env={"CRAWLER_METRICS": ""})) == 0


async def test_each_minute_tells_of_itself_alone(tmp_path: Path) -> None:
    kept = Kept()
    with demo_site_process(tmp_path, delay_ms=100) as demo:
        await seeded(tmp_path / "out", demo.seeds, concurrency=4, max_pages=100)
        async with state_in(tmp_path / "out", "w") as state:
            worker = Worker(state, "", name="w", until_complete=True, concurrency=4)
            report = Report(worker, "aws://My-Stack", "w")
            assert await reported(worker, report, kept, minute=0.5) is Exit.COMPLETE
    started, *minutes, stopped, closed = kept.lines
    assert len(minutes) > 2
    assert {json.loads(line)["Stack"] for line in (started, *minutes, stopped)} == {"My-Stack"}
    assert json.loads(started)["backend"] == "aws"
    times = [json.loads(line)["_aws"]["Timestamp"] for line in minutes]
    assert times == sorted(set(times))
    assert all(time % 500 == 0 for time in times)
    told = [metrics_of(line) for line in minutes]
    assert all(line[Fleet.WORKERS] == 1 for line in told)
    assert any(0 < line.get(Fleet.IN_FLIGHT, 0) <= 8 for line in told[:-1])
    assert Fleet.IN_FLIGHT not in told[-1]
    await ledger_agrees(tmp_path / "out", totals(line.decode() for line in minutes), len(demo.seeds))
    assert json.loads(stopped)["pages"] == sum(line[Fleet.PAGES] for line in told)
    assert closed == b"closed"


async def test_hosts_that_refuse_are_told_as_held_and_their_pages_as_retried(tmp_path: Path) -> None:
    """One says how long it wants to be left alone, the other does not."""

    def refuse(target: str, _: bytes) -> bytes:
        return reply(b"", *(["Retry-After: 3600"] if target == "/asks" else []), status="429 Too Many Requests")

    kept = Kept()
    async with serve(site(refuse)) as server:
        port = urlsplit(server.address).port
        await seeded(tmp_path, [f"http://{host}.localhost:{port}/{host}" for host in ("asks", "only")])
        async with state_in(tmp_path, "w") as state:
            worker = Worker(state, str(tmp_path), name="w")
            running = asyncio.create_task(reported(worker, Report(worker, "x.sqlite", "w"), kept))
            await asyncio.to_thread(command.wait_for, lambda: worker.hosts_held(0.0) == 2)
            worker.stop()
            await running
    told = totals(line.decode() for line in kept.lines)
    assert told[Fleet.HOSTS_HELD] == told[Fleet.ANSWERED_4XX] == told[Fleet.RETRIED] == 2
    assert told[Fleet.PAGES] == 0
    assert worker.hosts_held(time.time() + 3000) == 1


async def test_a_host_that_was_given_up_is_told_as_held(tmp_path: Path) -> None:
    await seeded(tmp_path, [f"http://127.0.0.2:9/{number}" for number in range(3)], max_attempts=1)
    result = await asyncio.to_thread(work, tmp_path)
    told = totals([result.stdout])
    assert told[Fleet.HOSTS_HELD] == 1
    assert told[Fleet.DEAD] == told[Fleet.PAGES] == 3


async def test_pages_that_a_stopped_worker_gives_back_are_told_as_deferred(tmp_path: Path) -> None:
    kept = Kept()
    page = reply(b"a page", HTML)
    async with serve(site(lambda _, __: page)) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(20)], rate=1.0)
        async with state_in(tmp_path, "w") as state:
            worker = Worker(state, str(tmp_path), name="w")
            running = asyncio.create_task(reported(worker, Report(worker, "x.sqlite", "w"), kept))
            await asyncio.to_thread(command.wait_for, lambda: worker.in_flight >= 2)
            worker.stop()
            assert await running is Exit.STOPPED
    told = totals(line.decode() for line in kept.lines)
    ledger = await counts(tmp_path)
    assert (told[Fleet.PAGES], ledger.pending) == (ledger.done, 20 - ledger.done)
    assert told[Fleet.DEFERRED] >= 2


async def test_a_worker_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    await seeded(tmp_path, [])

    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    async with state_in(tmp_path, "w") as state:
        monkeypatch.setattr(state, "claim", broken)
        worker = Worker(state, str(tmp_path), name="w")
        with pytest.raises(ZeroDivisionError):
            await reported(worker, Report(worker, "x.sqlite", "w"), kept)
    assert json.loads(kept.lines[-2])["why"] == "ZeroDivisionError"


def _full_pipe() -> tuple[int, int]:
    """A pipe whose reader does not read any more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writing, True)
    return reading, writing


@pytest.mark.parametrize("reader", ["blocked", "gone"])
async def test_a_reader_that_is_blocked_or_gone_stops_no_worker(
    tmp_path: Path, demo_site: DemoSite, reader: str
) -> None:
    out = tmp_path / "out"
    await seeded(out, demo_site.seeds)
    reading, writing = _full_pipe()
    if reader == "gone":
        os.close(reading)
    arguments = [*command.COMMAND, "work", "--state", str(out / STATE), "--until-complete"]
    worker = await asyncio.create_subprocess_exec(
        *arguments, stdout=writing, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=command.clean_environment(ON)
    )
    os.close(writing)
    _, errors = await asyncio.wait_for(worker.communicate(), 60)
    assert (worker.returncode, errors) == (0, b"")
    assert (await counts(out)).done == len(demo_site.truth.fetched)
    if reader == "blocked":
        os.close(reading)


async def test_a_site_that_fails_at_every_page_stays_within_the_budget(tmp_path: Path) -> None:
    pages = 300
    failing = reply(b"no", HTML, status="500 Internal Server Error")
    async with serve(site(lambda _, __: failing)) as server:
        seeds = [server.url(f"/{number}?token=s3cret") for number in range(pages)]
        await seeded(tmp_path, seeds, max_attempts=1, sitemaps=False)
        result = await asyncio.to_thread(work, tmp_path)
    assert result.returncode == 0
    told = totals([result.stdout])
    assert told[Fleet.DEAD] == told[Fleet.ANSWERED_5XX] == told[Fleet.PAGES] == pages
    assert log_bytes(result) <= BUDGET * pages
    assert "s3cret" not in result.stdout + result.stderr


FAULTY = """
import sys
from crawler.entrypoints.cli import main
from crawler.visit import Visitor

async def visit(self, lease):
    raise ValueError(f"cannot make anything of {lease.url}")

Visitor.visit = visit
main()
"""


async def test_a_fault_of_this_program_at_every_page_stays_within_the_budget(tmp_path: Path) -> None:
    pages = 300
    await seeded(tmp_path, [f"http://127.0.0.1:9/{number}?token=s3cret" for number in range(pages)], max_attempts=1)
    result = await asyncio.to_thread(
        subprocess.run,
        [command.COMMAND[0], "-c", FAULTY, "work", "--state", str(tmp_path / STATE), "--until-complete"],
        env=command.clean_environment(ON),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0
    assert totals([result.stdout])[Fleet.DEAD] == pages
    assert log_bytes(result) <= BUDGET * pages
    assert result.stderr.count("Traceback") == 1
    assert "more lines like: internal fault at one page" in result.stderr
    assert "s3cret" not in result.stdout + result.stderr
