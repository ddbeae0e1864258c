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
from collections.abc import Callable

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def worker_name() -> str:
    """A name unique in the fleet, fit for a file name: it begins the archive's segments."""
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().lower())[:24]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def on_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on every SIGTERM and SIGINT from now on."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def tune_memory() -> None:
    """Fit the allocators to pages: bodies of some ten kB that come and go, and few cycles.

    glibc would give every freed body back to the system only to ask for it again: 7 to 10 % of a worker's CPU. Where
    there is no glibc nothing changes.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL("libc.so.6").mallopt
            for parameter, value in ((M_TRIM_THRESHOLD, 256 << 20), (M_MMAP_THRESHOLD, 32 << 20)):
                mallopt(parameter, value)
