"""The heartbeat file is young while the event loop comes round, whatever the state does, and ages when it hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest
from psutil import STATUS_STOPPED, Process

from crawler.loop import Worker
from crawler.telemetry import heartbeat
from crawler.telemetry.heartbeat import beating
from tests import command
from tests.faults.crawls import STATE, seeded, state_in

SHORT = 0.02
"""Seconds between touches."""


def touched(file: Path) -> int:
    return file.stat().st_mtime_ns


async def touched_again(file: Path) -> None:
    before = touched(file)
    await asyncio.to_thread(command.wait_for, lambda: touched(file) != before)


async def test_the_file_is_there_at_once_and_is_touched_again_and_again(tmp_path: Path) -> None:
    file = tmp_path / "heartbeat"
    async with beating(file, SHORT):
        assert file.exists()
        await touched_again(file)
        await touched_again(file)
    last = touched(file)
    await asyncio.sleep(SHORT * 10)
    assert touched(file) == last


async def test_a_loop_that_is_held_up_stops_touching_it(tmp_path: Path) -> None:
    file = tmp_path / "heartbeat"
    async with beating(file, SHORT):
        await touched_again(file)
        before = touched(file)
        threading.Event().wait(SHORT * 20)  # as a call that never comes back would
        assert touched(file) == before
        await touched_again(file)


async def test_a_file_that_cannot_be_touched_stops_nobody(tmp_path: Path) -> None:
    async with beating(tmp_path / "no" / "folder", SHORT):
        await asyncio.sleep(SHORT * 3)
    async with beating(None):
        pass


async def test_a_state_that_does_not_answer_is_no_reason_to_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await seeded(tmp_path, [])
    file, asked = tmp_path / "heartbeat", asyncio.Event()

    async def silent(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with state_in(tmp_path, "w") as state:
        for name in ("claim", "beat", "crawls"):
            monkeypatch.setattr(state, name, silent)
        worker = Worker(state, str(tmp_path), name="w")
        async with beating(file, SHORT):
            working = asyncio.create_task(worker.run())
            await asked.wait()
            for _ in range(5):
                await touched_again(file)
            worker.stop()
            worker.stop()
            await working


async def test_a_worker_touches_it_until_it_is_suspended(tmp_path: Path) -> None:
    await seeded(tmp_path, [])
    file = tmp_path / "heartbeat"
    worker = command.start("work", "--state", str(tmp_path / STATE), env={"CRAWLER_HEARTBEAT": str(file)})
    try:
        await asyncio.to_thread(command.wait_for, file.exists)
        worker.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(command.wait_for, lambda: Process(worker.pid).status() == STATUS_STOPPED)
        # Long ago: whoever touches it again shows.
        os.utime(file, (0, 0))
        await asyncio.sleep(heartbeat.EVERY * 1.2)
        assert touched(file) == 0
        worker.send_signal(signal.SIGCONT)
        await asyncio.to_thread(command.wait_for, lambda: touched(file) > 0)
    finally:
        worker.send_signal(signal.SIGCONT)
        worker.terminate()
        worker.communicate(timeout=20)
    assert worker.returncode == 130
