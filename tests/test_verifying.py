"""What `verify` shows of itself: progress on a terminal alone, and the cost of reading a table."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import msgspec
import pytest

from crawler.entrypoints.verifying import cost_line, scan_cost
from tests import command
from tests.broken_site import broken_site


def test_the_cost_of_a_scan_grows_with_the_table() -> None:
    assert scan_cost(0) == (0, 0.0)
    million = scan_cost(1_000_000)
    assert million.dollars == pytest.approx(0.0137, rel=0.01)
    assert scan_cost(10_000_000).dollars == pytest.approx(10 * million.dollars, rel=0.001)
    line = cost_line(million)
    assert "109,864 read units, 0.0137 dollars" in line
    assert "list price of November 2026" in line


def on_terminal(*arguments: str) -> str:
    """What a command writes to a standard error that is a terminal."""
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [*command.COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=command.clean_environment({"TERM": "xterm", "COLUMNS": "100"}),
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(mine, 4096)
            except OSError:  # how Linux says that the other side is closed
                piece = b""
            if not piece:
                break
            said += piece
        os.close(mine)
    assert process.returncode == 0, said
    return said.decode()


@pytest.mark.e2e
def test_progress_shows_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    with broken_site({"/": "<a href=/a>1</a>", "/a": "a"}) as site:
        crawled = command.run(
            "crawl", site.url(), "--out", out, "--rate", "0", "--allow-private", "--crawl", "c1", "--processes", "1"
        )
        assert crawled.returncode == 0, crawled.stderr
    piped = command.run("verify", "--state", out, "--crawl", "c1")
    assert (piped.returncode, piped.stderr) == (0, "")
    assert piped.stdout.splitlines()[0].startswith("ledger: 2 discovered = 2 done + ")
    report = msgspec.json.decode(command.run("verify", "--state", out, "--json").stdout)
    assert (report["crawl"], report["ok"], report["faults"], report["counts"]["done"]) == ("c1", True, [], 2)
    shown = on_terminal("verify", "--state", out, "--crawl", "c1")
    for step in ("ledger", "rows", "records", "merged"):
        assert step in shown
    assert on_terminal("verify", "--state", out, "--crawl", "c1", "--quiet") == ""
