"""A small HTTP/1.1 server on loopback: GET only, keep-alive, an access log that a test can read while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer. `location` goes with a redirect, `coding` names the content coding of `body`."""

    status: int
    body: bytes = b""
    content_type: str = ""
    location: str = ""
    coding: str = ""
    chunked: bool = False

    @property
    def etag(self) -> str:
        """Entity tag of a page or file; "" for what is made while it is sent, in chunks."""
        return f'"{sha256(self.body).hexdigest()[:16]}"' if self.status == 200 and not self.chunked else ""


Respond = Callable[[str, str], Answer]
"""Answers a request by host (without port, lower case) and target."""

_HEAD_LIMIT = 64 * 1024


async def serve(
    listening: socket.socket, respond: Respond, *, ready: str, delay: float = 0.0, log: Path | None = None
) -> None:
    """Serve on a bound socket until SIGTERM or SIGINT, or until a pipe on stdin closes.

    Prints the line `ready` when it serves. `delay` is seconds before each answer. `log` gets one line a request (time
    of arrival, host, status, target), whole and at once; a reader may truncate it to begin anew. Connections still
    open at the end are cut.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        loop.add_reader(0, _read_stdin, stop)
    with contextlib.ExitStack() as opened:
        lines = opened.enter_context(log.open("a", buffering=1)) if log else None
        connections = _Connections(respond, delay, lines)
        listener = await asyncio.start_server(connections.serve, sock=listening, limit=_HEAD_LIMIT, backlog=1024)
        print(ready, flush=True)
        await stop.wait()
        listener.close()


def _read_stdin(stop: asyncio.Event) -> None:
    if not os.read(0, 4096):
        stop.set()


class _Connections:
    """Answers the requests of every connection, one after the other on each."""

    def __init__(self, respond: Respond, delay: float, log: TextIO | None) -> None:
        self._respond = respond
        self._delay = delay
        self._log = log

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # the client went away or never spoke HTTP
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read and answer one request; whether the connection stays open."""
        line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        arrived = time.time()
        method, _, target = line.rpartition(" ")[0].partition(" ")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
        host = headers.get("host", "").partition(":")[0].lower()
        answer = self._respond(host, target) if method == "GET" else Answer(405, content_type="text/plain")
        etag = answer.etag
        if etag and headers.get("if-none-match") == etag:
            answer = Answer(304)
        if self._delay:
            await asyncio.sleep(self._delay)
        if self._log is not None:
            # Before the answer, so that who has the answer finds its line.
            self._log.write(f"{arrived:.6f} {host} {answer.status} {target}\n")
        stays = method == "GET" and headers.get("connection", "").lower() != "close"
        writer.write(_encode(answer, etag, stays))
        await writer.drain()
        return stays


def _encode(answer: Answer, etag: str, stays: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}",
        f"Connection: {'keep-alive' if stays else 'close'}",
    ]
    if answer.status != 304:
        lines.append("Transfer-Encoding: chunked" if answer.chunked else f"Content-Length: {len(answer.body)}")
    if etag:
        lines.append(f"ETag: {etag}")
    if answer.content_type:
        lines.append(f"Content-Type: {answer.content_type}")
    if answer.location:
        lines.append(f"Location: {answer.location}")
    if answer.coding:
        lines.append(f"Content-Encoding: {answer.coding}")
    body = _chunks(answer.body) if answer.chunked else answer.body
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def _chunks(body: bytes) -> bytes:
    pieces = [body[start : start + 1000] for start in range(0, len(body), 1000)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))
