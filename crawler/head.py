"""The header section of a reply, read as leniently as browsers read it (RFC 9112 2-6).

Servers send lines without a colon, equal lengths twice, a length beside a transfer coding, bare line feeds. A parser
that gives up at one of them loses a page that everybody else gets. A section that is not regular is read here, and the
parser is shown no more of it than what frames the body; the connection is not used again then, because the two sides
may not agree on where the next reply begins.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from crawler.errors import FailureKind, FetchFailure

HEAD_BYTES = 256 * 1024
"""Size of a reply's header section, interim replies before it included, beyond which it is no HTTP."""

_END = re.compile(rb"\n\r?\n")

_REGULAR = re.compile(
    rb"HTTP/1\.[01] [1-9][0-9]{2}(?: [^\r\n\0]*+)?\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]++:[^\r\n\0]*+\r\n)*+\r\n"
)
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding):[ \t]*([^\r\n]*?)[ \t]*(?=\r\n)", re.IGNORECASE)
_STATUS_LINE = re.compile(
    rb"HTTP/([0-9]+)(?:\.([0-9]+))?[ \t]+([0-9]{3})(?![0-9])[ \t]*(.*)", re.IGNORECASE | re.DOTALL
)
_LENGTH = re.compile(rb"[0-9]{1,18}")
_BREAKS = re.compile(rb"[\r\0]")

CHUNK_LINE = 16 * 1024
"""Longest line with a chunk's size, its extensions included."""

_CHUNK = re.compile(rb"[ \t]*([0-9a-fA-F]{0,15})[ \t]*(?:;.*)?\r?", re.DOTALL)
_LINE_END = re.compile(rb"\r*")
_BAD = b"?\r\n"

Field = tuple[bytes, bytes]


class Head(NamedTuple):
    """A header section. `shown` is what the parser gets to see of it; `fields` are the header fields as received where
    that is less than all; `chunked` says that the body comes in chunks."""

    status: int
    shown: bytes
    fields: tuple[Field, ...] | None
    chunked: bool


def end_of_head(data: bytes | bytearray, start: int = 0) -> int:
    """Where the header section ends that begins at 0; -1 when its end has not come. Raises FetchFailure (PROTOCOL)
    when this is no reply at all. `start`: bytes known to contain no end."""
    if data[:5].upper() != b"HTTP/"[: len(data)]:
        raise _no_http(f"it begins with {bytes(data[:20])!r}")
    match = _END.search(data, max(0, start - 2))
    return match.end() if match else -1


def read(section: bytes) -> Head:
    """Read a whole header section. Raises FetchFailure (PROTOCOL) when nobody could tell what it means."""
    if _REGULAR.fullmatch(section):
        framing = _FRAMING.findall(section)
        if not framing:
            return Head(int(section[9:12]), section, None, False)
        if len(framing) == 1:
            name, value = framing[0]
            chunked = len(name) > len(b"content-length")
            if value.lower() == b"chunked" if chunked else _LENGTH.fullmatch(value):
                return Head(int(section[9:12]), section, None, chunked)
    return _mended(section)


def _mended(section: bytes) -> Head:
    lines = re.split(rb"\r*\n", section.rstrip(b"\r\n"))
    match = _STATUS_LINE.match(lines[0])
    if match is None:
        raise _no_http(f"its status line is {lines[0][:80]!r}")
    status = int(match[3])
    if status < 100:
        raise _no_http(f"there is no status {match[3].decode()}")
    fields = _fields(lines[1:])
    framing, chunked = _framing(fields)
    codings = [
        b"Content-Encoding: %b\r\n" % _BREAKS.sub(b"", value)
        for name, value in fields
        if name.lower() == b"content-encoding"
    ]
    version = b"1.0" if (int(match[1]), int(match[2] or 0)) < (1, 1) else b"1.1"
    status_line = b"HTTP/%b %b %b\r\n" % (version, match[3], _BREAKS.sub(b" ", match[4]))
    shown = b"".join((status_line, b"Connection: close\r\n", framing, *codings, b"\r\n"))
    return Head(status, shown, tuple(fields), chunked)


def _fields(lines: list[bytes]) -> list[Field]:
    """Header fields; a line that begins with white space goes on with the one before (RFC 9112 5.2), one without a
    colon or a name is nothing."""
    fields: list[Field] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and fields:
            name, value = fields[-1]
            fields[-1] = (name, b" ".join(filter(None, (value, line.strip(b" \t\r")))))
            continue
        name, colon, value = line.partition(b":")
        if colon and (name := name.strip(b" \t\r")):
            fields.append((name, value.strip(b" \t\r")))
    return fields


def _framing(fields: list[Field]) -> tuple[bytes, bool]:
    """The header line that frames the body, and whether it comes in chunks. A transfer coding overrides a length
    (RFC 9112 6.3); what is no number is no length, and the body goes on to the connection's end."""
    codings = b",".join(value for name, value in fields if name.lower() == b"transfer-encoding")
    names = [coding.strip(b" \t\r\0").lower() for coding in codings.split(b",")]
    names = [name for name in dict.fromkeys(names) if name not in (b"", b"identity")]
    if names:
        return b"Transfer-Encoding: %b\r\n" % b", ".join(names), names[-1] == b"chunked"
    pieces = (
        piece.strip(b" \t\r")
        for name, value in fields
        if name.lower() == b"content-length"
        for piece in value.split(b",")
    )
    lengths = {int(piece) for piece in pieces if _LENGTH.fullmatch(piece)}
    if len(lengths) > 1:
        raise _no_http("it has two lengths, " + " and ".join(map(str, sorted(lengths))))
    return b"Content-Length: %d\r\n" % lengths.pop() if lengths else b"", False


def _no_http(why: str) -> FetchFailure:
    return FetchFailure(FailureKind.PROTOCOL, f"the answer is no HTTP: {why}")


class Chunks:
    """Makes a chunked body regular while it comes in (RFC 9112 7.1): lines that end with a bare line feed, white space
    around sizes, a trailer section that is none. What is beyond mending is passed on for the parser to refuse.

    `unclear`: the body has ended and it is not sure that nothing of this reply follows.
    """

    def __init__(self) -> None:
        self.unclear = False
        self._held = b""
        self._left = 0
        self._behind = False
        """The end of the line behind a chunk's data is awaited."""
        self._over = False

    def feed(self, data: bytes) -> bytes:
        """What the parser is to see of `data`."""
        if self._over:
            return data
        shown: list[bytes] = []
        data, self._held = self._held + data, b""
        at = 0
        while at < len(data) and not self._over:
            if self._left:
                piece = data[at : at + self._left]
                shown.append(b"%x\r\n%b\r\n" % (len(piece), piece))
                at += len(piece)
                self._left -= len(piece)
                self._behind = not self._left
                continue
            end = data.find(b"\n", at)
            if end < 0:
                awaited = _LINE_END if self._behind else _CHUNK
                if len(data) - at < CHUNK_LINE and awaited.fullmatch(data, at):
                    self._held = data[at:]
                else:
                    shown.append(self._broken())
                break
            line, at = data[at:end], end + 1
            if not self._behind:
                shown.append(self._size(line, data[at:]))
            elif line.rstrip(b"\r"):
                shown.append(self._broken())
            else:
                self._behind = False
        return b"".join(shown)

    def _size(self, line: bytes, behind: bytes) -> bytes:
        """Take in the line with a chunk's size; what the parser is to see of it when no data follow."""
        match = _CHUNK.fullmatch(line)
        if match is None or not match[1]:
            return self._broken()
        self._left = int(match[1], 16)
        if self._left:
            return b""
        self._over = True
        self.unclear = behind != b"\r\n"
        return b"0\r\n\r\n"

    def _broken(self) -> bytes:
        """What makes the parser refuse the rest."""
        self._over = True
        return _BAD
