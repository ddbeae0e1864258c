"""This process in the fleet: its name, and the signals by which it is told to stop."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
from collections.abc import Callable


def worker_name() -> str:
    """A name unique in the fleet, fit for a file name: it begins the archive's segments."""
    host = "".join(c if c.isalnum() else "-" for c in socket.gethostname().lower())[:24]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def on_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on every SIGTERM and SIGINT from now on."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
