"""Run the real command in a process of its own, as a user's shell would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet as pq

COMMAND = [sys.executable, "-m", "crawler"]


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of the crawler or of an AWS account, and with output
    buffered as it is for most people: a full disk is then met late."""
    others = ("CRAWLER_", "AWS_", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, **(extra or {})}


def run(
    *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=110,
        check=False,
    )


def start(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command; its output is collected."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=clean_environment(env),
    )


def status(*arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """`status --json`, parsed."""
    result = run("status", "--json", *arguments, env=env)
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = msgspec.json.decode(result.stdout)
    return answer


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Poll until a condition holds; its value. Fails the test when it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {seconds} s: {condition}")


def told(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal, and wait until it was handled: two that come at once are one. Python handles it between two of its
    steps, so that is done when the process has gone to sleep once more, or has ended."""
    before = psutil.Process(process.pid).num_ctx_switches().voluntary
    process.send_signal(number)
    wait_for(lambda: process.poll() is not None or psutil.Process(process.pid).num_ctx_switches().voluntary > before)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The `crawler work` processes that a `crawler crawl` process keeps."""
    try:
        children = psutil.Process(process.pid).children()
        return [child for child in children if "work" in child.cmdline()]
    except psutil.NoSuchProcess:
        return []


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of the one Parquet file below a folder."""
    (file,) = folder.glob("crawls/*/*/*/*.parquet")
    found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return found
