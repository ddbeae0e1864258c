"""Undoing content codings while the body streams in (RFC 9110 8.4), with a cap on what comes out.

Made for what servers really send: a body cut short, junk behind its end, several members, a wrong checksum, a plain
body that is labelled as compressed. What can be read is kept, and it is said what is wrong with it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]
import zstandard
from isal import isal_zlib
from isal.igzip_lib import IsalError

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
"""What `Decoder` undoes; sent with every request, so that nothing depends on what happens to be installed."""

STEP = 64 * 1024
"""Decoded bytes made at a time, so that a bomb is noticed before it fills the memory."""

SLICE, BITE = 64, 4096
"""Encoded bytes given at a time to a decoder whose output has no bound or is lost in a failure; or can be had again."""

HEAD = 4
"""Bytes that tell whether a frame starts; fewer are held back."""

MOST_CODINGS = 4
"""Codings stacked on one body that are undone. More is an attack or nonsense: the body is left as it is."""

MOST_FRAMES = 10_000
"""Frames or members that one coding of a body is made of. Empty ones cost time and come to nothing."""

MAX_WINDOW = 8 * 1024 * 1024
"""Largest window that a zstd frame may ask for, in bytes (RFC 9659 3)."""

_TEXT_START = re.compile(rb"[\t\n\r\x20-\x7e]{32}")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


class Decoder:
    """Undoes the codings of one body, right to left.

    After `finish`: `decoded` is False when a coding is unknown or nothing could be decoded: the body is no text then.
    `truncated` is "length" when `limit` cut the decoded body, "disconnect" when it ended early or broke in the middle,
    else "". `full` says that nothing more is wanted.
    """

    def __init__(self, content_encoding: str | None, limit: int) -> None:
        self.decoded, self.truncated, self.full = True, "", False
        self._limit = limit
        self._size = 0
        self._codings: list[_Coding] = []
        if not content_encoding:
            return
        names = [name for name in re.split(r"[,\s]+", content_encoding.lower()) if name not in _IDENTITY]
        if len(names) > MOST_CODINGS or not all(name in _KNOWN for name in names):
            self.decoded = False
        else:
            self._codings = [_KNOWN[name]() for name in reversed(names)]

    def feed(self, chunk: bytes) -> bytes:
        """Decode what came; never makes more than the limit and a step."""
        if self.full:
            return b""
        if not self._codings:
            return self._keep(chunk)
        return b"".join(self._keep(piece) for piece in self._through(0, chunk))

    def finish(self) -> bytes:
        """The body has ended: hand out what was held back, and judge what came."""
        rest = b""
        for index in range(len(self._codings)):
            rest += b"".join(self._keep(piece) for piece in self._through(index, b"", last=True))
        if not self.full and any(coding.open or coding.damaged for coding in self._codings):
            self.truncated = "disconnect"
            self.decoded = self._size > 0 or not any(coding.damaged for coding in self._codings)
        return rest

    def _through(self, index: int, data: bytes, last: bool = False) -> Iterator[bytes]:
        if index == len(self._codings):
            yield data
            return
        coding = self._codings[index]
        for piece in coding.feed(data, last):
            # What lies between two codings is bounded as well: it could be endless and come to nothing.
            if coding.produced > self._limit + STEP and index + 1 < len(self._codings):
                self.full, self.truncated = True, "length"
            if self.full:
                return
            yield from self._through(index + 1, piece)
        self.full, self.truncated = (True, "length") if coding.crowded else (self.full, self.truncated)

    def _keep(self, piece: bytes) -> bytes:
        room = self._limit - self._size
        if len(piece) > room:
            self.full, self.truncated = True, "length"
            piece = piece[:room]
        self._size += len(piece)
        return piece


class _Damaged(Exception):
    """A frame cannot be decoded any further."""


class _Frame(ABC):
    """One compressed stream. `rest` is what was given beyond its end."""

    def __init__(self) -> None:
        self.fed: list[bytes] = []
        self.produced = 0
        self.ended = False
        self.rest = b""

    @abstractmethod
    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of about STEP bytes, of 2 MiB at the very most. Raises _Damaged."""


class _Coding:
    """One coding of one body: plain text after all, or frames (the first `single` one) and perhaps junk behind them."""

    def __init__(self, starts: Callable[[bytes], bool], frame: Callable[[], _Frame], single: bool = False) -> None:
        self._starts, self._make, self._single = starts, frame, single
        self._frame: _Frame | None = None
        self._held = b""
        self._first, self._plain, self._over = True, False, False
        self._frames = 0
        self.crowded = False
        self.produced = 0
        self.damaged = False

    @property
    def open(self) -> bool:
        """Whether a frame has begun and not ended."""
        return self._frame is not None

    def feed(self, data: bytes, last: bool = False) -> Iterator[bytes]:
        """Decode; `last` says that nothing follows."""
        while not self._over:
            if self._frame is None and not self._plain:
                data, self._held = self._held + data, b""
                if len(data) < HEAD and not last:
                    self._held = data
                    return
                if data and self._starts(data):
                    self._frames += 1
                    if self._frames > MOST_FRAMES:
                        self._over = self.crowded = True
                        return
                    self._frame = self._make()
                elif self._first:
                    self._plain = True
                else:
                    self._over = True
                    return
            if not data:
                break
            if self._frame is None:
                yield from self._passed(data)
                return
            frame = self._frame
            try:
                for piece in frame.decode(data):
                    self.produced += len(piece)
                    yield piece
            except _Damaged:
                data = self._give_up(frame)
                continue
            if not frame.ended:
                break
            self._frame, self._first, self._over = None, False, self._single
            data = frame.rest
        if last and self._frame is not None and self._is_text(self._frame):
            yield from self._passed(self._give_up(self._frame))

    def _is_text(self, frame: _Frame) -> bool:
        """Whether nothing came out of the first frame because it is text, perhaps too short to be noticed at once."""
        return self._first and not frame.produced and _BINARY.search(b"".join(frame.fed)[:512]) is None

    def _passed(self, data: bytes) -> Iterator[bytes]:
        if data:
            self.produced += len(data)
            yield data

    def _give_up(self, frame: _Frame) -> bytes:
        """A frame broke: the first may have been plain text, a later one junk. Answers what is to be taken as plain."""
        self._frame = None
        if self._is_text(frame):
            self._plain = True
            return b"".join(frame.fed)
        self._over = True
        self.damaged = self._first or frame.produced > 0
        return b""


class _Inflate(_Frame):
    """A gzip member (RFC 1952), a zlib stream (RFC 1950) or bare deflate (RFC 1951)."""

    def __init__(self, gzip: bool) -> None:
        super().__init__()
        self._gzip = gzip
        self._stream: isal_zlib.Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._stream = isal_zlib.decompressobj(31 if self._gzip else 15 if _is_zlib(data) else -15)
        self.fed.append(data)
        while True:
            try:
                piece = self._stream.decompress(data, STEP)
            except IsalError:  # type: ignore[misc]  # its stub calls it an instance
                # The call that fails takes its output with it.
                yield from self._rescue(b"".join(self.fed))
                return
            if piece:
                self.produced += len(piece)
                yield piece
            if self._stream.eof:
                self.ended, self.rest = True, self._stream.unused_data
                return
            data = self._stream.unconsumed_tail
            if not data and len(piece) < STEP:
                return

    def _rescue(self, wire: bytes) -> Iterator[bytes]:
        """Decode again without checksums, and yield what is new; a wrong checksum is no damage. Where it breaks, once
        more, in small bites from there on."""
        for start in (_gzip_header(wire),) if self._gzip else (2, 0):
            careful = len(wire)
            while True:
                bites = _Bites(wire, start, careful)
                try:
                    for piece in bites.inflated():
                        bites.made += len(piece)
                        if bites.made > self.produced:
                            fresh, self.produced = piece[self.produced - bites.made :], bites.made
                            yield fresh
                    self.ended = bites.ended
                    break
                except IsalError:  # type: ignore[misc]  # its stub calls it an instance
                    if bites.at >= careful:
                        break
                    careful = bites.at
            if self.ended:
                return
            if self.produced:
                break
        raise _Damaged


class _Bites:
    """Deflate read from `start` of a stream; from `careful` on in bites so small that little is lost with one."""

    def __init__(self, wire: bytes, start: int, careful: int) -> None:
        self._wire, self._careful = wire, careful
        self._stream = isal_zlib.decompressobj(-15)
        self.at = start
        """Where the bite begins that is being read."""
        self.made = 0

    @property
    def ended(self) -> bool:
        """The stream's end was reached."""
        return self._stream.eof

    def inflated(self) -> Iterator[bytes]:
        """Pieces of at most STEP bytes. Raises IsalError where the stream is broken."""
        while self.at < len(self._wire) and not self.ended:
            end = self.at + (STEP if self.at < self._careful else SLICE)
            data = self._wire[self.at : end]
            while not self.ended:
                piece = self._stream.decompress(data, STEP)
                yield piece
                data = self._stream.unconsumed_tail
                if not data and len(piece) < STEP:
                    break
            self.at = end


def _gzip_header(wire: bytes) -> int:
    """Length of a gzip member's header (RFC 1952 2.3)."""
    flags, at = wire[3] if len(wire) > 3 else 0, 10
    if flags & 4:
        at += 2 + int.from_bytes(wire[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            at = wire.find(b"\0", at) + 1 or len(wire)
    return at + 2 if flags & 2 else at


class _Brotli(_Frame):
    """A brotli stream (RFC 7932)."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = brotli.Decompressor()

    def decode(self, data: bytes) -> Iterator[bytes]:
        self.fed.append(data)
        for at in range(0, len(data), BITE):
            try:
                yield from self._process(data[at : at + BITE])
            except brotli.error:
                # Junk behind the end makes the whole call fail. Come here again and go on byte by byte.
                before = b"".join(self.fed[:-1]) + data[:at]
                yield from self._rescue(before, data[at : at + BITE])
                return
            if self._stream.is_finished():
                self.ended = True
                return

    def _process(self, data: bytes) -> Iterator[bytes]:
        while True:
            piece: bytes = self._stream.process(data, output_buffer_limit=STEP)
            if piece:
                self.produced += len(piece)
                yield piece
            if len(piece) < STEP:
                return
            data = b""

    def _rescue(self, before: bytes, failing: bytes) -> Iterator[bytes]:
        known, self.produced, self._stream = self.produced, 0, brotli.Decompressor()
        bites = [before[at : at + STEP] for at in range(0, len(before), STEP)]
        bites += [failing[at : at + 1] for at in range(len(failing))]
        try:
            for bite in bites:
                for piece in self._process(bite):
                    if self.produced > known:
                        yield piece[-(self.produced - known) :]
                        known = self.produced
                if self._stream.is_finished():
                    self.ended = True
                    return
        except brotli.error:
            pass
        raise _Damaged


class _Zstd(_Frame):
    """A zstd frame (RFC 8878)."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()

    def decode(self, data: bytes) -> Iterator[bytes]:
        self.fed.append(data)
        for at in range(0, len(data), SLICE):
            try:
                piece = self._stream.decompress(data[at : at + SLICE])
            except zstandard.ZstdError:
                raise _Damaged from None
            if piece:
                self.produced += len(piece)
                yield piece
            if self._stream.eof:
                self.ended, self.rest = True, self._stream.unused_data + data[at + SLICE :]
                return


def _is_gzip(data: bytes) -> bool:
    return data[:2] == b"\x1f\x8b"


def _is_zlib(data: bytes) -> bool:
    """RFC 1950 2.2; servers also send bare deflate under the same name (RFC 9110 8.4.1.2)."""
    return data[0] & 0x8F == 8 and len(data) > 1 and (data[0] << 8 | data[1]) % 31 == 0


def _is_zstd(data: bytes) -> bool:
    """A frame or a skippable frame (RFC 8878 3.1.1, 3.1.2)."""
    return data[:4] == b"\x28\xb5\x2f\xfd" or (data[0] & 0xF0 == 0x50 and data[1:4] == b"\x2a\x4d\x18")


def _is_no_text(data: bytes) -> bool:
    """For codings without a magic number: whether this is not obviously plain."""
    return _TEXT_START.match(data) is None


_IDENTITY = frozenset({"", "identity", "none"})


def _gzip() -> _Coding:
    return _Coding(_is_gzip, lambda: _Inflate(gzip=True))


_KNOWN: dict[str, Callable[[], _Coding]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": lambda: _Coding(_is_no_text, lambda: _Inflate(gzip=False), single=True),
    "br": lambda: _Coding(_is_no_text, _Brotli, single=True),
    "zstd": lambda: _Coding(_is_zstd, _Zstd),
}
