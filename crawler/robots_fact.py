"""What the fleet keeps of an origin's robots.txt: one fact on the state. Pure."""

from __future__ import annotations

import zlib

import msgspec

FRESH = 24 * 3600.0
"""Seconds for which a copy is used without asking again, whatever its Cache-Control says (RFC 9309 2.4)."""

KEPT = 30 * 24 * 3600.0
"""Seconds for which the last good copy stands in while the host fails."""

MAX_COPY = 250_000
"""Bytes of a compressed copy; a fact may have 300 kB."""


class Unreachable(msgspec.Struct, frozen=True):
    """There are no rules to be had before `until`, so nothing of the host may be fetched.

    streak: failures in a row, 0 while the file is still awaited. kind: a failure kind, "status" or "awaited". error:
    one line.
    """

    until: float
    streak: int
    kind: str
    error: str


class Fact(msgspec.Struct, frozen=True, array_like=True):
    """What is known. `fetches` counts them; each has a marker of its own.

    copy: the last good file, compressed, b"" where there is none to be had; None before the first.
    """

    fetches: int = 0
    copy: bytes | None = None
    fresh_until: float = 0.0
    failure: Unreachable | None = None

    @property
    def file(self) -> bytes:
        """The last good file; b"" where there is none to be had."""
        return zlib.decompress(self.copy) if self.copy else b""

    def fresh(self, now: float) -> bool:
        """Whether there is a copy that need not be asked for again."""
        return self.copy is not None and self.fresh_until > now

    def renewed(self, body: bytes, now: float) -> Fact:
        """The fact after a fetch that brought this file, or b"" where there is none."""
        return Fact(self.fetches + 1, _pack(body), now + FRESH)

    def failed(self, failure: Unreachable) -> Fact:
        """The fact after a fetch that brought nothing; the copy is kept."""
        return Fact(self.fetches + 1, self.copy, self.fresh_until, failure)


def name(origin: str) -> str:
    """Name of an origin's fact."""
    return f"robots:{origin}"


def decode(value: bytes | None) -> Fact:
    """Read a fact; one of another version counts as none."""
    try:
        return msgspec.msgpack.decode(value, type=Fact) if value else Fact()
    except msgspec.MsgspecError:
        return Fact()


def encode(fact: Fact) -> bytes:
    return msgspec.msgpack.encode(fact)


def _pack(body: bytes) -> bytes:
    """Compress a file; one that does not compress is cut at a line end."""
    while len(packed := zlib.compress(body)) > MAX_COPY:
        body = body[: max(body.rfind(b"\n", 0, len(body) * MAX_COPY // len(packed)), 0)]
    return packed if body else b""
