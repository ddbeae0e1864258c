"""The measuring server: many hosts on one port of 127.0.0.1, and a log of when each request came and went.

A process of its own, ahead of the others where the system permits it, so that its clock readings do not wait for what
it measures. Every path is a page. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TextIO

import msgspec

URGENT = -10
"""Nice value of the server's process."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How a host behaves.

    delay: seconds before each answer but the first `prompt` ones. silent: it takes requests and never answers.
    crawl_delay: seconds, written in its robots.txt. links: each page links to so many that nothing else links to.
    busy_after: so many requests are answered before it turns requests away with `busy_status` and a Retry-After; from
    `retry_after` seconds after the first of those on it answers again (None: it is never busy).
    """

    delay: float = 0.0
    prompt: int = 0
    silent: bool = False
    crawl_delay: float | None = None
    links: int = 0
    busy_after: int | None = None
    busy_status: int = 429
    retry_after: int = 5


class _Hosts:
    """What the hosts answer."""

    def __init__(self, behaviours: Mapping[str, Behaviour]) -> None:
        self._behaviours = behaviours
        self._asked: Counter[str] = Counter()
        self._busy_until: dict[str, float] = {}

    def _behaviour(self, host: str) -> Behaviour:
        return self._behaviours.get(host) or self._behaviours.get("*") or Behaviour()

    def delay(self, host: str) -> float:
        """Seconds that the answer to a host's new request takes; infinite when none will come."""
        behaviour = self._behaviour(host)
        self._asked[host] += 1
        if behaviour.silent:
            return math.inf
        return behaviour.delay if self._asked[host] > behaviour.prompt else 0.0

    def answer(self, host: str, target: str, now: float) -> tuple[int, bytes]:
        """Status and the whole answer to a request that came at `now`."""
        behaviour = self._behaviour(host)
        if behaviour.busy_after is not None and self._asked[host] > behaviour.busy_after:
            until = self._busy_until.setdefault(host, now + behaviour.retry_after)
            if now < until:
                return _answer(behaviour.busy_status, b"", f"Retry-After: {behaviour.retry_after}\r\n")
        if target == "/robots.txt":
            delay = behaviour.crawl_delay
            rules = "User-agent: *\n" + (f"Crawl-delay: {delay:g}\n" if delay is not None else "Allow: /\n")
            return _answer(200, rules.encode(), "Content-Type: text/plain\r\n")
        own = target.rstrip("/")
        links = "".join(f'<a href="{own}/{number}">{number}</a>' for number in range(behaviour.links))
        page = f"<!doctype html><title>{target}</title>{links}"
        return _answer(200, page.encode(), "Content-Type: text/html; charset=utf-8\r\n")


def _answer(status: int, body: bytes, fields: str) -> tuple[int, bytes]:
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    return status, head.encode("latin-1") + body


class _Connection(asyncio.Protocol):
    """One request after the other; a line of the log for each once it is answered, or its client has gone."""

    def __init__(self, hosts: _Hosts, log: TextIO, connections: set[_Connection]) -> None:
        self._hosts, self._log, self._connections = hosts, log, connections
        self._head = b""
        self._arrived = 0.0
        self._open: tuple[str, str] | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if not self._head:
            self._arrived = now
        self._head += data
        if self._open is not None or b"\r\n\r\n" not in self._head:
            return
        line, *fields = self._head.decode("latin-1").split("\r\n")
        self._head = b""
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        host = headers.get("host", "").partition(":")[0].lower()
        target = line.split(" ")[1]
        self._open = host, target
        delay = self._hosts.delay(host)
        if not delay:
            self._reply()
        elif delay < math.inf:
            self._waiting = asyncio.get_running_loop().call_later(delay, self._reply)

    def _reply(self) -> None:
        assert self._open is not None
        status, answer = self._hosts.answer(*self._open, self._arrived)
        # Before the answer, so that who has the answer finds its line, and no request that follows from it came first.
        self._note(status)
        self._transport.write(answer)

    def _note(self, status: int) -> None:
        if self._open is not None:
            host, target = self._open
            self._log.write(f"{self._arrived:.6f} {time.monotonic():.6f} {host} {status} {target}\n")
            self._open = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self.end()

    def end(self) -> None:
        """Write down what will not be answered any more."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._note(0)


async def serve(listening: socket.socket, behaviours: Mapping[str, Behaviour], log: Path) -> None:
    """Serve on a bound socket until SIGTERM, or until the pipe on stdin closes. Prints the port when it serves.

    `log` gets a line a request when it is over: when it came, when its answer left or its client went away (monotonic
    seconds), host, status (0: no answer), target.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(0, stop.set)  # nothing is ever written there: it has ended
    hosts = _Hosts(behaviours)
    with log.open("a", buffering=1) as lines:
        connections: set[_Connection] = set()
        server = await loop.create_server(lambda: _Connection(hosts, lines, connections), sock=listening, backlog=1024)
        print(listening.getsockname()[1], flush=True)
        await stop.wait()
        server.close()
        for connection in connections:
            connection.end()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pace.server", description="Note when requests come and go.")
    parser.add_argument("--log", type=Path, required=True, help="file that gets a line a request")
    parser.add_argument("--behaviours", default="{}", help="JSON: how hosts behave by name, '*' for all others")
    given = parser.parse_args()
    behaviours = msgspec.json.decode(given.behaviours, type=dict[str, Behaviour])
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, URGENT)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(serve(listening, behaviours, given.log))


if __name__ == "__main__":
    main()
