"""The child side of `parser.py`: parses what comes in over a socket and answers in order, one body at a time.

Started as `python -m crawler.parser_process FD PARENT`. It keeps nothing but a memo of links and may be killed at any
moment. It ends when its socket does, and on Linux with its parent even while it is busy.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any

import msgspec

from crawler.fetched import ParsedPage
from crawler.parse import parse
from crawler.sitemap import Listing, listing
from crawler.url_key import keys_for

FRAME = Struct("!I")
"""Length of the message that follows, in both directions. An empty message from the child says that it is ready."""

ADDRESS_SPACE = 1536 * 1024 * 1024
"""Bytes of address space; a page that needs more ends this process and no other."""

LARGE = 2 * 1024 * 1024
"""Bytes of a page that hardly any has."""

_PR_SET_PDEATHSIG = 1


class Job(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page to parse: the arguments of `crawler.parse.parse`. Or a sitemap, of which body and URL count."""

    body: bytes
    content_type: str | None
    url: str
    x_robots: list[str]
    token: str
    sitemap: bool = False
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    with_simhash: bool = False


def main(fd: int, parent: int) -> None:
    """Serve until the socket ends."""
    confine(parent)
    serve(fd, msgspec.msgpack.Decoder(Job), _parse)


def serve(fd: int, decoder: msgspec.msgpack.Decoder[Any], answer: Callable[[Any], msgspec.Struct]) -> None:
    """Answer what comes in over a socket, in order, until it ends."""
    # Links live in the memo for long, and pages make no cycles: looking for some is wasted.
    gc.freeze()
    gc.set_threshold(50_000)
    encoder = msgspec.msgpack.Encoder()
    with socket.socket(fileno=fd) as sock, suppress(ConnectionError):
        sock.sendall(FRAME.pack(0))
        while header := _receive(sock, FRAME.size):
            (size,) = FRAME.unpack(header)
            job = decoder.decode(_receive(sock, size))
            try:
                message = encoder.encode(answer(job))
            except MemoryError:
                os._exit(1)  # what is left of the address space may not do for the next page either
            # At once, page by page: the parent blames the first unanswered page when this process dies.
            sock.sendall(FRAME.pack(len(message)) + message)
            if size > LARGE:
                del job, message
                _give_back()


def _give_back() -> None:
    """Give back to the system what a large page took. The room of others is kept: the next one needs it again."""
    with suppress(AttributeError, OSError):  # glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def _parse(job: Job) -> ParsedPage | Listing:
    keys = keys_for(job.keep, job.drop)
    try:
        if job.sitemap:
            return listing(job.body, job.url, time.time(), keys)
        return parse(job.body, job.content_type, job.url, job.x_robots, job.token, keys, with_simhash=job.with_simhash)
    except MemoryError:
        raise
    except Exception as error:
        # A fault of ours: the page fails like one that crashes the process, and the fault shows in the log.
        where = job.url.partition("?")[0][:200]
        print(f"crawler: cannot parse {where}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return Listing(failed="crash") if job.sitemap else ParsedPage(failed="crash")


def _receive(sock: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes; b"" when the other side is gone."""
    data = sock.recv(size, socket.MSG_WAITALL)
    if len(data) == size:
        return data
    parts = [data]
    missing = size - len(data)
    while data and missing:
        data = sock.recv(missing, socket.MSG_WAITALL)
        parts.append(data)
        missing -= len(data)
    return b"" if missing else b"".join(parts)


def confine(parent: int) -> None:
    """Bound this process, and make it the one that goes when memory is short. Best effort outside Linux."""
    # Ctrl-C and SIGTERM reach the whole process group: the parent drains, and needs this process to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")
        if os.getppid() != parent:  # it died before the line above could count
            os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
