"""What the command line says when it is used wrong: one line, exit 2, nothing made or lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.entrypoints.options import PerSecond
from tests import command

WRONG = {
    "no URL": (("crawl",), "URL"),
    "not a URL": (("crawl", "example.com"), "https://example.com/"),
    "a scheme that is not crawled": (("crawl", "ftp://example.com/"), "https://example.com/"),
    "a negative rate": (("crawl", "https://example.com/", "--rate", "-1"), "--rate"),
    "a rate that is no number": (("crawl", "https://example.com/", "--rate", "fast"), "--rate"),
    "a rate that is not finite": (("crawl", "https://example.com/", "--rate", "nan"), "--rate"),
    "a bad pattern": (("crawl", "https://example.com/", "--exclude", "("), "--exclude"),
    "a bad duration": (("crawl", "https://example.com/", "--max-time", "soon"), "2h"),
    "a user agent with a line break": (("crawl", "https://example.com/", "--user-agent", "a\nb"), "--user-agent"),
    "no processes": (("crawl", "https://example.com/", "--processes", "0"), "--processes"),
    "an unknown option": (("crawl", "https://example.com/", "--fast"), "--fast"),
    "an unknown command": (("crwal",), "crwal"),
    "a crawl name that is a path": (("crawl", "https://example.com/", "--crawl", "../x"), "--crawl"),
    "an address of no known form": (("status", "--state", "mysql://x/y"), "sqlite"),
    "status without a crawl": (("status",), "--state"),
    "status of a state that is not there": (("status", "--state", "gone.sqlite"), "gone.sqlite"),
    "verify of a state that is not there": (("verify", "--state", "gone.sqlite"), "gone.sqlite"),
    "merge of a state that is not there": (("merge", "--state", "gone.sqlite"), "gone.sqlite"),
    "work on a state that is not there": (("work", "--state", "gone.sqlite"), "gone.sqlite"),
    "dead letters of a state that is not there": (("dead", "list", "--state", "gone.sqlite"), "gone.sqlite"),
    "retrying without saying what": (("dead", "retry", "--state", "gone.sqlite"), "--all"),
    "retrying at no rate": (("dead", "retry", "--all", "--rate", "0", "--state", "gone.sqlite"), "5/s"),
    "retrying at an unknown rate": (("dead", "retry", "--all", "--rate", "5/d", "--state", "gone.sqlite"), "5/s"),
    "an unknown command for dead letters": (("dead", "revive"), "revive"),
    "showing no URL": (("dead", "show"), "URL"),
    "purging a state that is not there": (("purge", "--yes", "--state", "gone.sqlite"), "gone.sqlite"),
    "sweeping a state that is not there": (("sweep", "--state", "gone.sqlite"), "gone.sqlite"),
    "seeding from no file": (("seed", "--state", "new.sqlite", "--file", "gone.txt"), "gone.txt"),
    "seeding nothing": (("seed", "--state", "new.sqlite"), "--file"),
}


@pytest.mark.parametrize(("arguments", "names"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_one_line_and_exit_2(arguments: tuple[str, ...], names: str, tmp_path: Path) -> None:
    result = command.run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("crawler: ")
    assert names in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here first")
    result = command.run("crawl", "https://example.com/", "--out", str(tmp_path / "file" / "out"))
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "--out" in line
    assert (tmp_path / "file").read_text() == "here first"


def test_a_state_that_is_no_state_is_refused_and_kept(tmp_path: Path) -> None:
    notes = tmp_path / "state.sqlite"
    notes.write_text("my notes\n" * 1000)
    for arguments in (("status", "--state", str(notes)), ("crawl", "https://example.com/", "--out", str(tmp_path))):
        result = command.run(*arguments)
        assert result.returncode == 2
        assert "state.sqlite" in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert notes.read_text() == "my notes\n" * 1000


COMMANDS = ("crawl", "seed", "work", "status", "verify", "merge", "dead", "sweep", "purge")


def test_help_names_every_command_and_the_variables() -> None:
    top = command.run("--help").stdout
    for name in COMMANDS:
        assert f"  {name} " in top
    for path in (
        *((name,) for name in COMMANDS if name != "dead"),
        ("dead", "list"),
        ("dead", "show"),
        ("dead", "retry"),
    ):
        text = command.run(*path, "--help").stdout
        assert "CRAWLER_STATE" in text
        assert "CRAWLER_CRAWL" in text
    assert "CRAWLER_MAX_PAGES" in command.run("crawl", "--help").stdout


def test_the_variable_of_a_crawls_rate_does_not_set_the_rate_of_a_retry() -> None:
    assert "CRAWLER_RATE" in command.run("crawl", "--help").stdout
    assert "CRAWLER_RATE" not in command.run("dead", "retry", "--help").stdout


@pytest.mark.parametrize(
    ("text", "rate"), [("5", 5.0), ("5/s", 5.0), ("0.5/s", 0.5), ("300/m", 5.0), (" 90 / h ", 0.025)]
)
def test_rates_are_read_with_their_unit(text: str, rate: float) -> None:
    assert PerSecond().convert(text, None, None) == rate


def test_an_environment_variable_sets_an_option(tmp_path: Path) -> None:
    result = command.run("crawl", "https://example.com/", env={"CRAWLER_RATE": "-3"}, cwd=tmp_path)
    assert result.returncode == 2
    assert "rate" in result.stderr


def test_seeds_with_bad_lines_add_the_good_ones(tmp_path: Path) -> None:
    seeds = tmp_path / "urls.txt"
    seeds.write_bytes(b"# my list\n\nhttps://a.example/\nnonsense\nhttps://b.example/\xff\n https://c.example/x \n")
    state = str(tmp_path / "state.sqlite")
    result = command.run("seed", "--file", str(seeds), "--state", state)
    assert result.returncode == 0, result.stderr
    assert "3 seeds added" in result.stdout
    assert "nonsense" in result.stderr
    assert command.status("--state", state)["pending"] == 3
    again = command.run("seed", "https://a.example/", "--state", state)
    assert "0 seeds added, 1 known" in again.stdout


def test_without_a_name_the_latest_crawl_is_meant_and_named(tmp_path: Path) -> None:
    state = str(tmp_path / "state.sqlite")
    for name in ("first", "second"):
        assert command.run("seed", "https://a.example/", "--state", state, "--crawl", name).returncode == 0
    assert command.status("--state", state)["crawl"] == "second"
    assert command.status("--state", state, "--crawl", "first")["crawl"] == "first"
    unknown = command.run("status", "--state", state, "--crawl", "third")
    assert unknown.returncode == 2
    assert "first, second" in unknown.stderr


def test_a_state_without_a_crawl_has_nothing_to_show_or_drop(tmp_path: Path) -> None:
    state = str(tmp_path / "state.sqlite")
    assert command.run("seed", "https://a.example/", "--state", state, "--crawl", "c1").returncode == 0
    for arguments in (("dead", "list"), ("dead", "retry", "--all"), ("sweep",), ("purge", "--yes"), ("verify",)):
        result = command.run(*arguments, "--state", state, "--crawl", "c2")
        assert result.returncode == 2
        assert result.stderr == "crawler: there is no crawl 'c2' on this state (it has: c1)\n"
    assert command.status("--state", state)["pending"] == 1


def test_a_reader_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    state = str(tmp_path / "state.sqlite")
    assert command.run("seed", "https://a.example/", "--state", state).returncode == 0
    with command.start("status", "--json", "--state", state) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 130


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As in the worker's image, which has none to merge with."""
    hidden = "import sys\nsys.modules['pyarrow'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hidden)
    state = str(tmp_path / "state.sqlite")
    assert command.run("seed", "https://a.example/", "--state", state).returncode == 0
    result = command.run("merge", "--state", state, "--store", str(tmp_path), env={"PYTHONPATH": str(tmp_path)})
    assert result.returncode == 2
    assert "this needs pyarrow, which is not installed here: pip install" in result.stderr
    assert "internal fault" not in result.stderr
