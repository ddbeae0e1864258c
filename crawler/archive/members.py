"""Reading gzip files member by member (RFC 1952 2.2), whatever became of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from isal import isal_zlib

GZIP = 31
"""wbits: deflate in a gzip wrapper, checked by its CRC."""

DAMAGED = (cast(type[Exception], isal_zlib.error), EOFError)  # the stubs declare an instance
"""What reading a damaged member raises."""

_MAGIC = b"\x1f\x8b\x08"
_CHUNK = 16 * 1024
_WINDOW = 1024 * 1024


class Member(NamedTuple):
    """A stretch of a file: a whole member and its content; or bytes that are none, and `data` is None."""

    offset: int
    length: int
    data: bytes | None


def compress(data: bytes) -> bytes:
    """One gzip member, the same for the same bytes (no time in its header)."""
    return isal_zlib.compress(data, level=2, wbits=GZIP)


def members(file: BinaryIO) -> Iterator[Member]:
    """All members of a file in order. Damaged stretches are found by content, never skipped in silence."""
    offset = 0
    while (found := _read(file, offset)) is not None:
        if found.data is None:
            found = Member(offset, _next_whole(file, offset + 1) - offset, None)
        yield found
        offset += found.length


def _read(file: BinaryIO, offset: int) -> Member | None:
    """The member that begins at an offset; one without data when none does; None at the end of the file."""
    file.seek(offset)
    inflate = isal_zlib.decompressobj(wbits=GZIP)
    pieces: list[bytes] = []
    taken = 0
    while not inflate.eof:
        chunk = file.read(_CHUNK)
        if not chunk:
            return Member(offset, taken, None) if taken else None
        taken += len(chunk)
        try:
            pieces.append(inflate.decompress(chunk))
        except DAMAGED:
            return Member(offset, taken, None)
    return Member(offset, taken - len(inflate.unused_data), b"".join(pieces))


def _next_whole(file: BinaryIO, offset: int) -> int:
    """Where the next whole member begins, at or after an offset; the file's length when there is none."""
    while True:
        file.seek(offset)
        window = file.read(_WINDOW)
        at = window.find(_MAGIC)
        while at >= 0:
            candidate = _read(file, offset + at)
            if candidate is not None and candidate.data is not None:
                return offset + at
            at = window.find(_MAGIC, at + 1)
        if len(window) < _WINDOW:
            return offset + len(window)
        offset += len(window) - len(_MAGIC) + 1
