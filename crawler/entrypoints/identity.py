"""This process in the fleet: its name, its memory, and the signals by which it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from crawler.entrypoints.shell import STOPPED

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def worker_name() -> str:
    """A name unique in the fleet, fit for a file name: it begins the archive's segments."""
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().lower())[:24]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


_told_to_stop: set[int] = set()
"""Signals that have come. No lock is in it: a handler may interrupt itself."""


def interrupt_on_stop_signals() -> None:
    """Let SIGTERM do what Ctrl-C does, so that a command ends the same way by either: KeyboardInterrupt. The next
    SIGTERM ends the process at once."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)
    sys.unraisablehook = _complain


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a handler
    if number in _told_to_stop:  # another exception might come to where the first was caught and nobody expects one
        os._exit(STOPPED)
    _told_to_stop.add(number)
    raise KeyboardInterrupt


def _complain(lost: sys.UnraisableHookArgs) -> None:
    """Say that an exception was lost where none is let out; of an interrupt that is noted there is nothing to say."""
    if not (_told_to_stop and lost.exc_type is KeyboardInterrupt):
        sys.__unraisablehook__(lost)


def leave_at_once(code: int) -> NoReturn:
    """Leave with this code, without the interpreter's own farewell: if an interrupt met it while a module was being
    imported, that ends the process by SIGINT, whoever caught the exception. Further signals change nothing."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


@contextmanager
def on_stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on every SIGTERM and SIGINT while the block runs, and for a SIGTERM that came before and was lost:
    where KeyboardInterrupt is raised nobody can know, and some places let no exception out.

    One handler takes the other's place, at both ends. Those of the loop itself would not do: when they are removed a
    signal kills the process, until there is a handler again.
    """
    loop, told = asyncio.get_running_loop(), bool(_told_to_stop)

    def call(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a handler
        _told_to_stop.add(number)
        loop.call_soon_threadsafe(stop)

    for number in STOP_SIGNALS:
        signal.signal(number, call)
    if told:
        stop()
    try:
        yield
    finally:
        interrupt_on_stop_signals()


def tune_memory() -> None:
    """Fit the allocators to pages: bodies of some ten kB that come and go, and few cycles.

    glibc would give every freed body back to the system only to ask for it again: 7 to 10 % of a worker's CPU. Bodies
    of more than a megabyte are given back at once all the same. Where there is no glibc nothing changes.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL("libc.so.6").mallopt
            for parameter, value in ((M_TRIM_THRESHOLD, 256 << 20), (M_MMAP_THRESHOLD, 1 << 20)):
                mallopt(parameter, value)
