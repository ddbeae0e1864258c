"""Purge and a fresh start: asked for before anything goes, and nothing of another crawl goes with it."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests import command
from tests.broken_site import BrokenSite, broken_site

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--quiet", "--processes", "1")


@pytest.fixture
def site() -> Iterator[BrokenSite]:
    with broken_site({"/": "<a href=/a>1</a><a href=/b>2</a>", "/a": "a", "/b": "b"}) as site:
        yield site


def crawled(site: BrokenSite, out: Path, name: str, *more: str) -> None:
    result = command.run("crawl", site.url(), "--out", str(out), *MINE, "--crawl", name, *more)
    assert result.returncode == 0, result.stderr


def verified(out: Path, name: str) -> bool:
    return command.run("verify", "--state", str(out), "--crawl", name).returncode == 0


def on_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """Run a command whose standard input is a terminal at which `answer` is typed: exit code and what it said."""
    mine, theirs = pty.openpty()
    os.write(mine, answer.encode())
    result = subprocess.run(
        [*command.COMMAND, *arguments],
        stdin=theirs,
        capture_output=True,
        text=True,
        env=command.clean_environment(),
        timeout=60,
        check=False,
    )
    os.close(mine)
    os.close(theirs)
    return result.returncode, result.stdout + result.stderr


def test_purge_drops_one_crawl_and_keeps_its_output(site: BrokenSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("first", "second"):
        crawled(site, out, name)
    (folder,) = out.glob("crawls/*/*/*/first")
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    result = command.run("purge", "--yes", "--state", str(out), "--crawl", "first")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"crawl first is purged. Its output is kept: {folder}\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files
    gone = command.run("status", "--state", str(out), "--crawl", "first")
    assert gone.returncode == 2
    assert "there is no crawl 'first' on this state (it has: second)" in gone.stderr
    assert verified(out, "second")
    assert command.run("purge", "--yes", "--state", str(out), "--crawl", "first").returncode == 2
    last = command.run("purge", "--yes", "--state", str(out), "--json")
    assert msgspec.json.decode(last.stdout)["crawl"] == "second"


def test_purge_asks_and_drops_nothing_unless_told_yes(site: BrokenSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawled(site, out, "c1")
    unasked = command.run("purge", "--state", str(out))
    assert unasked.returncode == 2
    (line,) = unasked.stderr.splitlines()
    assert line.startswith("crawler: Drop the state of crawl c1 with 3 pages? Its output is kept: ")
    assert line.endswith("add --yes")
    code, _ = on_terminal("n\n", "purge", "--state", str(out))
    assert code == 130
    assert verified(out, "c1")
    code, said = on_terminal("y\n", "purge", "--state", str(out))
    assert code == 0
    assert "crawl c1 is purged" in said
    assert command.run("status", "--state", str(out)).returncode == 2


def test_purge_refuses_while_pages_are_being_fetched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with broken_site({"/": "<a href=/a>1</a><a href=/b>2</a>", "/a": "a", "/b": "b"}) as site:
        answer = site.hold("/a")
        process = command.start("crawl", site.url(), "--out", str(out), *MINE, "--crawl", "c1")
        command.wait_for(lambda: site.asked["/a"] and command.status("--state", str(out))["leased"])
        code, said = on_terminal("y\n", "purge", "--state", str(out))
        assert code == 2
        assert "stop them first, or add --yes" in said
        fresh = command.run("crawl", site.url(), "--out", str(out), *MINE, "--crawl", "c1", "--fresh", "--yes")
        assert fresh.returncode == 2
        assert "1 workers are alive; stop them before you start over" in fresh.stderr
        assert command.status("--state", str(out))["discovered"] == 3
        answer.set()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        assert verified(out, "c1")


def test_a_crawl_purged_under_its_workers_leaves_nothing_in_the_state(tmp_path: Path) -> None:
    state, out = str(tmp_path / "state.sqlite"), str(tmp_path / "out")
    with broken_site({"/": "<a href=/child>held</a>", "/child": "found by a page of a purged crawl"}) as site:
        answer = site.hold("/")
        seeded = command.run("seed", site.url(), "--state", state, "--store", out, "--allow-private", "--rate", "0")
        assert seeded.returncode == 0, seeded.stderr
        process = command.start("work", "--state", state, "--until-complete")
        command.wait_for(lambda: site.asked["/"])
        assert command.run("purge", "--state", state, "--yes").returncode == 0
        answer.set()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert "there is no crawl on this state yet" in command.run("status", "--state", state).stderr


def test_a_fresh_crawl_without_a_name_leaves_the_one_before_alone(site: BrokenSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("first", "second"):
        crawled(site, out, name)
    (first,) = out.glob("crawls/*/*/*/first.parquet")
    merged = first.read_bytes()
    site.asked.clear()
    result = command.run("crawl", site.url("/a"), "--out", str(out), *MINE, "--fresh", "--yes")
    assert result.returncode == 0, result.stderr
    assert site.asked["/a"] == 1
    assert not list(out.glob("crawls/*/*/*/second*"))
    assert first.read_bytes() == merged
    assert command.status("--state", str(out), "--crawl", "first")["done"] == 3
    latest = command.status("--state", str(out))
    assert latest["crawl"] not in ("first", "second")
    assert latest["done"] == 1


def test_a_fresh_crawl_that_cannot_begin_drops_nothing(site: BrokenSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawled(site, out, "c1")
    for wrong in ((), ("nonsense",), (site.url(), "--rate", "-1"), (site.url(), "--exclude", "(")):
        result = command.run("crawl", *wrong, "--out", str(out), "--fresh", "--yes")
        assert result.returncode == 2, wrong
        assert len(result.stderr.splitlines()) == 1
    assert verified(out, "c1")


def test_sweep_finds_nothing_in_a_sound_crawl(site: BrokenSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawled(site, out, "c1")
    result = command.run("sweep", "--state", str(out))
    assert (result.returncode, result.stdout) == (0, "0 pages queued again: none was left behind\n")
    answer = command.run("sweep", "--state", str(out), "--json")
    assert msgspec.json.decode(answer.stdout) == {"crawl": "c1", "queued": 0}
