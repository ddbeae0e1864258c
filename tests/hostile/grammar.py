"""A grammar of broken HTTP: from a random source to what a server puts on the wire, byte by byte.

A reply is put together from an interim part, a status line, noise among the header fields, a content coding, a framing
and a document (`markup.py`). As long as a browser would show the page, a crawler must have it: `kept`.
"""

from __future__ import annotations

import functools
import gzip
import random
import zlib
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]
import zstandard

from tests.hostile.markup import MARKUP, NO_MARKUP


class Act(Enum):
    """What else a server does between bytes."""

    RESET = "reset"
    WAIT = "wait"
    """Until the client goes away."""
    TICK = "tick"
    """A pause in which what was sent arrives alone."""


class Reply(NamedTuple):
    """What is sent, in order, after which the connection is closed. `kept`: a browser would show the page. `flaky`:
    the first request for it is broken off instead."""

    steps: list[bytes | Act]
    kept: bool
    flaky: bool = False


OK = b"HTTP/1.1 200 OK\r\n"

INTERIM = [b""] * 6 + [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" * 3,
    b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 199 Odd\r\nno colon\r\n\r\n",
    b"\r\n\r\n",
]
STATUS_LINES = [OK] * 4 + [
    b"HTTP/1.1 200\r\n",
    b"HTTP/1.1  200  OK\r\n",
    b"http/1.1 200 ok\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.9 200 OK\r\n",
    b"HTTP/1.1 200 \xff\0\xfe\r\n",
    b"HTTP/1.1 200 OK\n",
    b"HTTP/1.1 299 " + b"y" * 10_000 + b"\r\n",
]
NOISE = [b""] * 4 + [
    b"no colon at all\r\n",
    b": no name\r\n",
    b"X Y: a\r\n",
    b"X : a\r\n",
    b"X\xff: \xfe\r\n",
    b"X: a\0b\r\n",
    b"X\0: b\r\n",
    b"X: a\rb\r\n",
    b"X: a\r\r\n",
    b"X: a\r\n folded\r\n\tagain\r\n",
    b"X: " + b"y" * 100_000 + b"\r\n",
    b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(2_000)),
    b"Set-Cookie: a{b}=1; Max-Age=" + b"9" * 400 + b"\r\nSet-Cookie: \xe9=\0\r\n",
    b'Last-Modified: never\r\nETag: "\xff\r\nDate: 32 Foo\r\nRetry-After: -5\r\n',
    b"Connection: \xff,, keep-alive, close\r\n",
    b"Connection: upgrade\r\nUpgrade: h2c\r\n",
    b"Keep-Alive: timeout=-1, max=x\r\n",
    b"Location: http://169.254.169.254/\r\n",
    b"X-Robots-Tag: ,;:\xff=\r\n",
    b"Trailer: X\r\nX: 1\nY: 2\n",
    b"HTTP/1.1 200 OK\r\n",
]


def _raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


Coding = tuple[bytes, Callable[[bytes], bytes]]

CODINGS: list[Coding] = [(b"", bytes)] * 6 + [
    (b"identity", bytes),
    (b"none", bytes),
    (b"gzip", gzip.compress),
    (b"x-gzip", gzip.compress),
    (b"GZIP", gzip.compress),
    (b"deflate", zlib.compress),
    (b"deflate", _raw_deflate),
    (b"br", brotli.compress),
    (b"zstd", zstandard.compress),
    (b"gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    (b"deflate,br", lambda data: brotli.compress(zlib.compress(data))),
    (b"gzip", lambda data: gzip.compress(data[:50]) + gzip.compress(data[50:])),
    (b"gzip", lambda data: gzip.compress(data) + b"<!-- junk -->"),
    (b"gzip", lambda data: gzip.compress(data)[:-8] + b"\xff" * 8),
    (b"gzip", bytes),
    (b"br", bytes),
]


def _chunks(rng: random.Random, data: bytes, end: bytes = b"\r\n", last: bytes = b"0\r\n\r\n") -> bytes:
    pieces, at = [], 0
    while at < len(data):
        size = rng.choice((1, 10, 1000, 50_000))
        piece = data[at : at + size]
        pieces.append(b"%x" % len(piece) + rng.choice((b"", b"", b";x=y", b" ")) + end + piece + end)
        at += size
    return b"".join(pieces) + last


Framing = Callable[[random.Random, bytes], tuple[bytes, bytes]]
"""From a body to the framing header lines and the bytes behind the header section."""

FRAMINGS: list[Framing] = [
    lambda rng, data: (b"Content-Length: %d\r\n" % len(data), data),
    lambda rng, data: (b"Content-Length: %d\r\n" % len(data), data + b"junk behind"),
    lambda rng, data: (b"Content-Length: %d\r\n" % len(data) * 2, data),
    lambda rng, data: (b"Content-Length: %d, %d\r\n" % (len(data), len(data)), data),
    lambda rng, data: (b"content-length:%d\t \r\nContent-Length: zzz\r\n" % len(data), data),
    lambda rng, data: (b"Content-Length: -1\r\n", data),
    lambda rng, data: (b"Content-Length:\r\n", data),
    lambda rng, data: (b"", data),
    lambda rng, data: (b"Transfer-Encoding: identity\r\n", data),
    lambda rng, data: (b"Transfer-Encoding: chunked\r\n", _chunks(rng, data)),
    lambda rng, data: (b"Transfer-Encoding: CHUNKED\r\nContent-Length: 3\r\n", _chunks(rng, data)),
    lambda rng, data: (b"Transfer-Encoding: chunked\r\n", _chunks(rng, data, b"\n", b"0\n\n")),
    lambda rng, data: (b"Transfer-Encoding: chunked\r\n", _chunks(rng, data, last=b"0\r\nno colon\r\n\r\n")),
    lambda rng, data: (b"Transfer-Encoding: chunked\r\n", _chunks(rng, data, last=b"0\r\n")),
    lambda rng, data: (
        b"Transfer-Encoding: gzip, chunked\r\n",
        _chunks(rng, gzip.compress(data)),
    ),
]


def shown(rng: random.Random, title: str, good: str) -> Reply:
    """A page that a browser would show, in whatever state it comes."""
    content_type, body = rng.choice(MARKUP)(rng, title, good)
    coding, encode = rng.choice(CODINGS)
    if coding == b"br" and encode is bytes and body[:1] != b"<":
        coding = b""  # brotli has no mark of its own: only plain ASCII text under its name is known for what it is
    framing, data = rng.choice(FRAMINGS)(rng, encode(body))
    fields = [framing, *rng.sample(NOISE, rng.choice((0, 1, 3)))]
    if content_type:
        fields.append(f"Content-Type: {content_type}\r\n".encode())
    if coding:
        fields.append(b"Content-Encoding: %b\r\n" % coding)
    rng.shuffle(fields)
    if fields[0][:1] in b" \t":
        fields.reverse()
    wire = rng.choice(INTERIM) + rng.choice(STATUS_LINES) + b"".join(fields) + b"\r\n" + data
    return Reply(_in_pieces(rng, wire), kept=True, flaky=rng.random() < 0.05)


def _in_pieces(rng: random.Random, wire: bytes) -> list[bytes | Act]:
    if rng.random() < 0.6:
        return [wire]
    cuts = sorted(rng.randrange(len(wire)) for _ in range(rng.choice((1, 3, 10))))
    steps: list[bytes | Act] = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        steps += [wire[start:end], Act.TICK]
    return steps


@functools.cache
def _bomb(name: str) -> bytes:
    plain = {"zeros": bytes(80_000_000), "text": b"<p>bomb " * 10_000_000}[name]
    return zlib.compress(plain, 9)


def _length(body: bytes, fields: bytes = b"Content-Type: text/html\r\n", status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, fields, len(body), body)


def _alone(wire: bytes) -> list[bytes | Act]:
    return [wire]


BROKEN: list[list[bytes | Act]] = [
    [],
    [Act.RESET],
    [b"HTTP/1.1 20", Act.TICK, Act.RESET],
    [OK + b"X: "],
    [OK],
    [b"\r\n\r\n"],
    [b"<html>HTTP/0.9</html>"],
    [b"SSH-2.0-OpenSSH_9.2\r\n", Act.WAIT],
    [b"\x15\x03\x01\x00\x02\x02\x16"],
    [b"ICY 200 OK\r\n\r\n"],
    [b"HTTP/1.1 abc\r\n\r\n"],
    [b"HTTP/1.1 000 Zero\r\n\r\n"],
    [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Act.WAIT],
    [OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"],
    [OK + b"X: " + b"y" * 300_000],
    [b"HTTP/1.1 100 Continue\r\n\r\n" * 15_000],
    [OK + b"Content-Length: 99999\r\n\r\n" + b"x" * 1200],
    [OK + b"Content-Length: 99999\r\n\r\n" + b"x" * 1200, Act.TICK, Act.RESET],
    [OK + b"Content-Length: 99999\r\n\r\n"],
    [OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
    [OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", Act.WAIT],
    [OK + b"Transfer-Encoding: chunked\r\n\r\n<html>plain", Act.WAIT],
    [OK + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx"],
    [OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n"],
    [_length(b"\x01\x02", b"Content-Encoding: compress\r\nContent-Type: text/html\r\n")],
    [_length(b"\x1f\x8b\x08\x00" + b"\xff" * 500, b"Content-Encoding: gzip\r\n")],
    [_length(b"x", b"Content-Encoding: " + b"gzip, " * 50 + b"gzip\r\n")],
    [_length(b"\x28\xb5\x2f\xfd" + b"\xff" * 500, b"Content-Encoding: zstd\r\n")],
    *(_alone(_length(body, b"Content-Type: %b\r\n" % kind.encode())) for kind, body in NO_MARKUP),
    *(
        _alone(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location)
        for location in (
            b"",
            b"http://",
            b"http://[",
            b"exampleapp://x",
            b"http://a..b/",
            b"http://" + b"a" * 70 + b"/",
            b"http://169.254.169.254/latest/",
            b"http://[fd00:ec2::254]/",
            b"http://0xa9fea9fe/",
            b"javascript:x",
            b"/caf\xe9\0?\xff",
            b"?x=" + b"y" * 5_000,
            b"#",
            b"http://127.0.0.1:1/",
        )
    ),
    *(
        _alone(_length(b"", status=status))
        for status in (
            b"204 No",
            b"304 Not Modified",
            b"300 Choose",
            b"301 Moved",
            b"404 No",
            b"410 Gone",
        )
    ),
    [b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello"],
    [_length(b"busy", b"Retry-After: 0\r\n", b"500 Oops")],
    [_length(b"busy", b"Retry-After: 0\r\n", b"999 Denied")],
    [_length(b"busy", b"Retry-After: 0\r\n", b"504 " + b"x" * 5_000)],
]
"""Replies that are no page, and end at once."""


def broken(rng: random.Random, title: str, good: str) -> Reply:
    """Something a browser would show no page for."""
    if rng.random() < 0.02:
        body = _bomb(rng.choice(("zeros", "text")))
        return Reply([_length(body, b"Content-Type: text/html\r\nContent-Encoding: deflate\r\n")], kept=False)
    return Reply(list(rng.choice(BROKEN)), kept=False)


SLOW: list[list[bytes | Act]] = [
    [Act.WAIT],
    [b"HTTP/1.1 200 OK\r\n", Act.WAIT],
    [OK + b"Content-Length: 500\r\n\r\n", Act.WAIT],
    [OK + b"Content-Length: 500\r\n\r\nhello", Act.WAIT],
    [OK + b"\r\nhello", Act.WAIT],
    [OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Act.WAIT],
    [OK + b"Transfer-Encoding: chunked\r\n\r\n", *[piece for n in range(3000) for piece in (b"1\r\nx\r\n", Act.TICK)]],
    [OK + b"X: ", *[piece for n in range(3000) for piece in (b"y", Act.TICK)]],
]
"""Replies that do not end."""


def slow(rng: random.Random, title: str, good: str) -> Reply:
    """Something that a client has to give up."""
    return Reply(list(rng.choice(SLOW)), kept=False)
