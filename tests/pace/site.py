"""Runs the measuring server in a process of its own and reads its log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.pace.server import Behaviour


class Request(msgspec.Struct, frozen=True):
    """One request as the server saw it, in monotonic seconds. `left`: when the answer left or the client went away.
    `status` is 0 when there was no answer."""

    arrived: float
    left: float
    host: str
    status: int
    target: str

    @property
    def is_robots(self) -> bool:
        return self.target == "/robots.txt"


class MeasuredSite:
    """A running measuring server. Every name under localhost is a host of it."""

    def __init__(self, port: int, log: Path) -> None:
        self.port = port
        self._log = log

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.port}{path}"

    def requests(self) -> list[Request]:
        """The requests that are over so far, by arrival; all of them once the server has ended."""
        text = self._log.read_text()
        lines = (line.split(" ", 4) for line in text[: text.rfind("\n") + 1].splitlines())
        found = [Request(float(at), float(left), host, int(code), path) for at, left, host, code, path in lines]
        return sorted(found, key=lambda request: request.arrived)


@contextmanager
def measured_site(folder: Path, behaviours: Mapping[str, Behaviour] | None = None) -> Iterator[MeasuredSite]:
    """Serve hosts that behave as said, by name or "*", until the block ends; the log is `requests.log` in `folder`."""
    log = folder / "requests.log"
    log.touch()
    text = msgspec.json.encode(dict(behaviours or {})).decode()
    command = [sys.executable, "-m", "tests.pace.server", "--log", str(log), "--behaviours", text]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            assert port, "the measuring server did not start"
            yield MeasuredSite(int(port), log)
        finally:
            process.terminate()
