"""`make fuzz`: mutated bodies through the decoder and the parser process for ten minutes.

    python -m tests.fuzz [SECONDS] [SEED]

Whatever raises, crashes the parser, or takes it or the decoder too long is kept in .cache/fuzz/, one file each, and
makes the exit status 1. There is no coverage to guide it: the readers are C code behind thin Python.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import random
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import zstandard

from crawler import robots, sitemap, sniff
from crawler.config import MIB
from crawler.decode import Decoder
from crawler.parser import Parser
from tests.hostile.markup import MARKUP, NO_MARKUP

FOUND = Path(".cache/fuzz")
SLOW = 1.0
"""Seconds of processor time for a body of some hundred kilobytes, beyond which a reader is no good."""

CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("br", lambda data: bytes(brotli.compress(data, quality=1))),
    ("zstd", zstandard.compress),
    ("gzip, br", lambda data: bytes(brotli.compress(gzip.compress(data, 1), quality=1))),
]
TOKENS = [
    *(
        b"<a href=",
        b"<base href=",
        b"<meta charset=",
        b"<script>",
        b"</script",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"<svg>",
    ),
    *(
        b"\0",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x1b$B",
        b"&#x10ffff;",
        b"http://[",
        b"//",
        b"<template>",
        b"<iframe srcdoc=",
    ),
    *(
        b"<urlset>",
        b"<loc>",
        b"<?xml encoding='",
        b"\n",
        b"'",
        b'"',
        b">",
        b"<",
        b"%",
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f\xfd",
    ),
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The data with a few changes of the kinds that find faults in readers."""
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 2, 10, 1000))
        match rng.randrange(6):
            case 0:
                changed[at : at + length] = b""
            case 1:
                changed[at:at] = rng.choice(TOKENS) * rng.choice((1, 1, 2, 1000))
            case 2:
                changed[at : at + length] = rng.randbytes(length)
            case 3:
                start = rng.randrange(len(changed) + 1)
                changed[at:at] = changed[start : start + length] * rng.choice((1, 3, 100))
            case 4 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case _:
                del changed[at + 50_000 :]
    return bytes(changed[:MIB])


def sample(rng: random.Random) -> tuple[str, str, bytes]:
    """A content coding, a content type and a body on the wire."""
    if rng.random() < 0.1:
        content_type, body = rng.choice(NO_MARKUP)
    else:
        content_type, body = rng.choice(MARKUP)(rng, "title", "http://good.example")
    name, pack = rng.choice(CODINGS)
    return name, content_type, mutated(rng, pack(mutated(rng, body[:200_000])))


async def read(parser: Parser, name: str, content_type: str, wire: bytes) -> str:
    """Decode and parse; what is wrong, or ""."""
    began = time.process_time()
    decoder = Decoder(name, 2 * MIB)
    pieces = [decoder.feed(wire[at : at + 65536]) for at in range(0, len(wire), 65536)]
    body = b"".join(pieces) + decoder.finish()
    if len(body) > 2 * MIB:
        return "the decoder went beyond its limit"
    sniff.is_html(content_type, body)
    robots.Robots.parse(body[: 500 * 1024], "bot").allowed("http://host.example/x")
    sitemap.read(body, 0.0)
    if (took := time.process_time() - began) > SLOW:
        return f"slow: {took:.1f} s"
    page = await parser.parse("http://host.example/", content_type, body, [content_type], "bot")
    return page.failed


async def fuzz(seconds: float, seed: int) -> int:
    """Run; the number of samples that something was wrong with."""
    rng = random.Random(seed)
    parser = Parser()
    await parser.start()
    until = time.monotonic() + seconds
    tried = found = 0
    try:
        while time.monotonic() < until:
            name, content_type, wire = sample(rng)
            tried += 1
            try:
                problem = await read(parser, name, content_type, wire)
            except Exception:
                problem = traceback.format_exc()
            if problem:
                found += 1
                FOUND.mkdir(parents=True, exist_ok=True)
                file = FOUND / hashlib.sha256(wire).hexdigest()[:16]
                file.write_bytes(f"{name}\n{content_type}\n{problem}\n\n".encode("utf-8", "replace") + wire)
                print(f"{file}: {problem.strip().splitlines()[-1]}", flush=True)
    finally:
        await parser.close()
    print(f"{tried} samples of seed {seed}, {found} with something wrong")
    return found


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(min(asyncio.run(fuzz(float(given[0]) if given else 600.0, int(given[1]) if given[1:] else 1)), 1))
