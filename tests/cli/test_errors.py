"""What ends a command: one line, its exit code, and a traceback for who asks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawler.archive.stores import open_store
from crawler.entrypoints.worker import checked_name
from crawler.errors import UsageError
from crawler.state.open import open_state
from tests import command

GONE = ("status", "--state", "gone.sqlite")


@pytest.mark.parametrize(
    ("more", "env"),
    [(("-vv",), {}), (("-v", "-v"), {}), ((), {"CRAWLER_VERBOSE": "2"})],
    ids=["-vv", "-v -v", "variable"],
)
def test_a_traceback_for_who_asks_for_it(more: tuple[str, ...], env: dict[str, str], tmp_path: Path) -> None:
    result = command.run(*GONE, *more, env=env, cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback (most recent call last)" in result.stderr
    assert "StateMissing" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("crawler: there is no crawl state")


def test_no_traceback_for_others(tmp_path: Path) -> None:
    result = command.run(*GONE, "-v", cwd=tmp_path)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [("--help",), ("status", "--json")])
def test_a_full_disk_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    place = ("--state", str(tmp_path / "state.sqlite"))
    assert command.run("seed", "https://a.example/", *place, "--store", str(tmp_path)).returncode == 0
    more = place if arguments[0] == "status" else ()
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*command.COMMAND, *arguments, *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=command.clean_environment(),
            timeout=60,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1] == "crawler: cannot write the output: No space left on device"


@pytest.mark.parametrize("address", ["aws:Crawler", "redis:localhost", "sqlite:state.sqlite", "aws:", "s3://b/state"])
async def test_a_state_that_is_misspelt_is_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="of no known form"):
        await open_state(address, worker="w", create=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["s3:bucket/x", "s3:/bucket", "file:here", ""])
def test_a_store_that_is_misspelt_is_no_folder(address: str) -> None:
    with pytest.raises(UsageError, match="--store"):
        open_store(address)


def test_a_workers_name_is_fit_for_a_file(tmp_path: Path) -> None:
    place = ("--state", str(tmp_path / "state.sqlite"), "--store", str(tmp_path / "out"))
    assert command.run("seed", "https://a.example/", *place).returncode == 0
    result = command.run("work", "--until-complete", *place, "--name", "../w")
    assert result.returncode == 2
    assert "--name '../w': use" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a/b", "a b", ".hidden", "", "x" * 101, "a\n"])
def test_other_names_are_not(name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        checked_name(name)
    assert checked_name("fetcher_1.eu-2") == "fetcher_1.eu-2"


def test_a_profile_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    env = {"AWS_PROFILE": "nowhere", "AWS_DEFAULT_REGION": "us-east-1"}
    place = ("--state", str(tmp_path / "state.sqlite"))
    assert command.run("seed", "https://a.example/", *place, "--crawl", "c").returncode == 0
    for arguments in (("status", "--state", "aws://S"), ("merge", "--crawl", "c", *place, "--store", "s3://bucket/x")):
        result = command.run(*arguments, env=env)
        assert result.returncode == 2
        (line,) = result.stderr.splitlines()
        assert line == "crawler: the AWS settings cannot be used: The config profile (nowhere) could not be found"


IMPORTING = """
import builtins, os, signal, sys

real = builtins.__import__

def importing(name, *more):
    if name == "crawler.entrypoints.cli":
        os.kill(os.getpid(), signal.{signal})
        raise AssertionError("still here")
    return real(name, *more)

builtins.__import__ = importing
from crawler.__main__ import main
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_before_the_command_is_imported_ends_it_as_any_other(name: str) -> None:
    program = IMPORTING.format(signal=name)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
