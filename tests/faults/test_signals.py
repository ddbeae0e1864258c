"""Signals to real workers: stopped at any moment, stopped twice, suspended beyond their leases."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from crawler.entrypoints import identity
from tests import command
from tests.faults.crawls import STATE, counts, finished_rows, seeded
from tests.local_site import demo_site_process
from tests.servers import Peer, reply, serve

SEEDS = range(3)
STOPS = 5
"""SIGTERMs for each seed."""

pytestmark = pytest.mark.e2e


@pytest.mark.case("F16")
@pytest.mark.parametrize("seed", SEEDS)
async def test_sigterm_at_any_moment_leaves_nothing_leased_and_costs_no_request(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    out = tmp_path / "out"
    with demo_site_process(tmp_path, delay_ms=30) as site:
        arguments = ("work", "--state", str(out / STATE), "--until-complete", "--concurrency", "4")
        await seeded(out, site.seeds, lease=120.0)
        for stop in range(STOPS):
            process = command.start(*arguments)
            # From before the first claim to the middle of many requests.
            more = moments.choice((0, 0, 1, 10, 30)) if stop else 0
            answered = len(site.requests()) + more
            command.wait_for(lambda: _handles_sigterm(process.pid))  # noqa: B023
            command.wait_for(lambda: len(site.requests()) >= answered)  # noqa: B023
            await asyncio.sleep(moments.uniform(0, 0.3))
            process.terminate()
            _, errors = process.communicate(timeout=20)
            assert (process.returncode, errors.strip()) == (130, "")
            assert (await counts(out)).leased == 0
            assert not list(out.rglob("*.open"))
        assert 0 < (await counts(out)).done < len(site.truth.fetched)
        last = command.run(*arguments)
        assert (last.returncode, last.stderr) == (0, "")
        assert set(site.fetched().values()) == {1}
        assert set(site.fetched()) == site.truth.fetched
    assert {site.canonical(row["url"]) for row in await finished_rows(out) if row["outcome"] == "done"} == set(
        site.truth.fetched
    )


async def test_two_signals_end_a_worker_within_seconds_and_nothing_stays_leased(tmp_path: Path) -> None:
    async def never(peer: Peer) -> None:
        while head := await peer.request():
            if b"/robots.txt" not in head:
                await peer.gone()
            await peer.send(reply(status="404 Not Found"))

    async with serve(never) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(20)], lease=120.0)
        process = command.start("work", "--state", str(tmp_path / STATE), "--concurrency", "8")
        await asyncio.to_thread(command.wait_for, lambda: len(server.targets) > 5)
        await asyncio.to_thread(command.told, process, signal.SIGTERM)
        process.terminate()
        # One signal alone would wait for answers that never come.
        _, errors = await asyncio.to_thread(process.communicate, timeout=30)
        assert (process.returncode, errors.strip()) == (130, "")
    ledger = await counts(tmp_path)
    assert (ledger.pending, ledger.leased, ledger.done) == (20, 0, 0)


async def test_a_worker_suspended_beyond_its_lease_changes_nothing_when_it_goes_on(tmp_path: Path) -> None:
    answer = asyncio.Event()

    async def site(peer: Peer) -> None:
        while head := await peer.request():
            target = head.split(b" ", 2)[1].decode()
            if target == "/slow" and server.targets.count("/slow") == 1:
                await answer.wait()
            body = b"<a href=/slow>s</a><a href=/1>1</a>" if target == "/" else b'<a href="/child">c</a>'
            status = "404 Not Found" if target == "/robots.txt" else "200 OK"
            await peer.send(reply(body, "Content-Type: text/html", status=status))

    async with serve(site) as server:
        await seeded(tmp_path, [server.url()])
        work = ("work", "--state", str(tmp_path / STATE), "--until-complete")
        first = command.start(*work, "--name", "first")
        async with asyncio.timeout(20):
            while (await counts(tmp_path)).done < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.to_thread(command.wait_for, lambda: "/slow" in server.targets)
        await asyncio.to_thread(_suspend, first, tmp_path / STATE)
        second = await asyncio.to_thread(command.run, *work, "--name", "second")
        assert (second.returncode, second.stderr) == (0, "")
        ledger = await counts(tmp_path)
        assert (ledger.done, ledger.outstanding) == (4, 0)
        answer.set()
        first.send_signal(signal.SIGCONT)
        _, errors = await asyncio.to_thread(first.communicate, timeout=20)
        assert (first.returncode, errors) == (0, "")
        assert Counter(server.targets) == {"/robots.txt": 1, "/": 1, "/1": 1, "/child": 1, "/slow": 2}
    rows = await finished_rows(tmp_path)
    assert len(rows) == 4
    assert sum(row["links_new"] for row in rows) == 3
    assert await counts(tmp_path) == ledger


INTERRUPTED = """
import os, signal
from crawler.entrypoints.identity import interrupt_on_stop_signals

interrupt_on_stop_signals()
try:
    os.kill(os.getpid(), signal.SIGTERM)
    print("not interrupted", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("once more", flush=True)
"""


def test_the_first_sigterm_interrupts_a_command_and_the_second_ends_it_wherever_it_is() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "interrupted\n", "")


def test_a_storm_of_signals_ends_a_worker_from_its_first_moment_on(tmp_path: Path) -> None:
    state = str(tmp_path / STATE)
    assert command.run("seed", "http://127.0.0.1:9/", "--state", state, "--contact", "a@b.example").returncode == 0
    for _ in range(3):
        process = command.start("work", "--state", state)
        command.wait_for(lambda: _handles_sigterm(process.pid))  # noqa: B023
        while process.poll() is None:
            process.terminate()
        _, errors = process.communicate()
        assert (process.returncode, errors.strip()) == (130, "")


async def test_the_systems_own_way_with_signals_is_never_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for the moment between two handlers: it would be the end of a worker that has not closed its state."""
    set_to: list[object] = []
    real, before = signal.signal, {number: signal.getsignal(number) for number in identity.STOP_SIGNALS}

    def set_handler(number: int, handler: Any) -> Any:
        set_to.append(handler)
        return real(number, handler)

    monkeypatch.setattr(signal, "signal", set_handler)
    monkeypatch.setattr(identity, "_told_to_stop", set())
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    stopped = asyncio.Event()
    try:
        with identity.on_stop_signals(stopped.set):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(stopped.wait(), 20)
    finally:
        for number, handler in before.items():
            real(number, handler)
    assert len(set_to) >= 4
    assert not {signal.SIG_DFL, signal.SIG_IGN} & set(set_to)


async def test_a_sigterm_that_was_lost_before_the_worker_listened_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_told_to_stop", {signal.SIGTERM})
    monkeypatch.setattr(identity, "interrupt_on_stop_signals", lambda: None)
    before, told = {number: signal.getsignal(number) for number in identity.STOP_SIGNALS}, []
    try:
        with identity.on_stop_signals(lambda: told.append(True)):
            assert told == [True]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handles_sigterm(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM by now."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")), 0)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


def _suspend(process: subprocess.Popen[str], state: Path) -> None:
    """Stop a worker where it does not hold the file's lock, as nobody could take over then before it goes on."""
    while True:
        os.kill(process.pid, signal.SIGSTOP)
        command.wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        db = sqlite3.connect(state, timeout=0, isolation_level=None)
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        except sqlite3.OperationalError:
            os.kill(process.pid, signal.SIGCONT)
        else:
            return
        finally:
            db.close()
