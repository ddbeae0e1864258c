"""Ports for servers that are told theirs before they start."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack

LOWEST, MANY = 10_000, 12_000
"""Below what a system gives to outgoing connections (from 32,768 on), also 10,000 further on: one of those may take a
port between the moment that it is found free and the server's start, or while that is down."""


def free_port(*further: int) -> int:
    """A port of the loopback address that nobody uses, nor those so much `further` on. Others who ask at the same time
    will hardly get the same."""
    while True:
        port = LOWEST + secrets.randbelow(MANY)
        with ExitStack() as probes:
            try:
                for number in (port, *(port + more for more in further)):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
        return port
