"""What a command and all its descendants cost: CPU, memory, time."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Cost:
    """`cpu` is user and system seconds of the process and of every descendant that was waited for, `rss` the largest
    sum of resident bytes of the tree that a sample saw, `wall` seconds, `code` the exit code."""

    cpu: float
    rss: int
    wall: float
    code: int


def run(command: Sequence[str], *, env: Mapping[str, str], output: Path) -> Cost:
    """Run a command to its end, with what it prints in `output`."""
    started = time.monotonic()
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
    memory = _Memory(process.pid)
    memory.start()
    try:
        # wait4 and not Popen.wait: only it tells the cost of this child apart from that of others.
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    finally:
        memory.stop()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(cpu, memory.largest, time.monotonic() - started, process.returncode)


class _Memory(threading.Thread):
    """Samples the resident memory of a process tree; pages that processes share count in each."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.largest = 0

    def run(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            with suppress(psutil.Error):
                root = psutil.Process(self._pid)
                tree = [root, *root.children(recursive=True)]
                self.largest = max(self.largest, sum(_resident(process) for process in tree))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
