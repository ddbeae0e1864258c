"""The crawlers that ours is measured beside, as modules to run. SEED and OUT come from the environment.

Importing the package makes names under localhost resolve to 127.0.0.1 in this process (RFC 6761 6.3), which not every
system's resolver does. The lookup stays where the peer makes it, in its resolver's threads.
"""

from __future__ import annotations

import socket
from typing import Any

_getaddrinfo, _gethostbyname = socket.getaddrinfo, socket.gethostbyname


def _loopback(host: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    return "127.0.0.1" if isinstance(name, str) and name.lower().endswith(".localhost") else host


def _lookup(host: Any, *arguments: Any, **named: Any) -> Any:
    return _getaddrinfo(_loopback(host), *arguments, **named)


def _lookup_by_name(host: Any) -> Any:
    return _gethostbyname(_loopback(host))


socket.getaddrinfo, socket.gethostbyname = _lookup, _lookup_by_name
