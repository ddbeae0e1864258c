"""A crawl of a hostile site by the real command, and what must be true of it afterwards."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests import command
from tests.hostile.site import HostileSite

MOST_MEMORY = 400 * 1024 * 1024
"""Bytes that the processes of a crawl may have resident together, what they share counted once."""

UNFIT = re.compile(r"Error\b|Exception|aiohttp|yarl|Errno|ssl:|Traceback|\bNone\b")


class Trial(NamedTuple):
    """How it went."""

    seconds: float
    memory: int
    outcomes: dict[str, int]


def crawl(site: HostileSite, out: Path, *options: str) -> Trial:
    """Crawl it all; raises AssertionError when a promise is broken."""
    began = time.monotonic()
    arguments = ["crawl", site.seed, "--out", str(out), "--scope", "any", "--rate", "0", "--allow-private"]
    process = command.start(*arguments, "--processes", "2", "--quiet", *options)
    memory = _Memory(process)
    output = "".join(process.communicate())
    peak = memory.peak()
    assert process.returncode == 0, output
    assert "internal fault" not in output
    assert "Traceback" not in output
    rows = {row["url"]: row for row in command.rows(out)}
    _check(site, rows)
    assert peak < MOST_MEMORY, f"{peak / 1e6:.0f} MB"
    verified = command.run("verify", "--state", str(out))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    outcomes: dict[str, int] = {}
    for row in rows.values():
        name = f"{row['outcome']} {row['reason'] or row['status']}"
        outcomes[name] = outcomes.get(name, 0) + 1
    return Trial(time.monotonic() - began, peak, outcomes)


def _check(site: HostileSite, rows: dict[str, dict[str, Any]]) -> None:
    """Every page that could be had is there, and what it says; no address was touched that must not be."""
    assert {url: rows.get(url, {}).get("digest") for url in site.good} == site.good
    assert {rows[url]["outcome"] for url in site.good} == {"done"}
    titles = {url: rows.get(url, {}).get("title") for url in site.kept}
    lost = {url: (title, site.answers(url), rows.get(url)) for url, title in titles.items() if title != site.kept[url]}
    assert not lost, lost
    assert not [url for url in site.kept if rows[url]["outcome"] != "done"]
    assert site.bad <= set(rows)
    assert {rows[url]["reason"] for url in site.forbidden} == {"robots"}
    assert not site.forbidden & set(site.asked)
    inside = [row for url, row in rows.items() if "169.254" in url or "fd00:" in url or "a9fe" in url]
    assert {row["outcome"] for row in inside} <= {"skipped"}, inside
    assert {row["reason"] for row in inside} <= {"private-address"}
    errors = {row["error"] for row in rows.values() if row["error"]}
    assert not [error for error in errors if UNFIT.search(error)]


class _Memory:
    """The most memory that a process and its descendants had resident (PSS), looked at five times a second."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._root = psutil.Process(process.pid)
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            total = 0
            try:
                for process in [self._root, *self._root.children(recursive=True)]:
                    total += process.memory_full_info().pss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            self._peak = max(self._peak, total)

    def peak(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak
