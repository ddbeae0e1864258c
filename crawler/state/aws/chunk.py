"""Chunks: some pages of one crawl's run and gate in as few bytes as will do, since items are billed by the kilobyte.

Pure. What all pages of a chunk share is in it once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import msgspec

from crawler.errors import StateMismatch
from crawler.state.aws.records import Message

LARGEST = 200_000
"""Bytes of a chunk before it is compressed, unless it is of one page (DynamoDB takes items of 400 kB)."""


class _Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    url: str
    digest: bytes
    depth: int
    priority: int
    parent: str
    found: int
    lost: int


class _Chunk(msgspec.Struct, frozen=True, gc=False, array_like=True):
    crawl: str
    run: str
    gate: str
    found: float
    entries: list[_Entry]


_decoder = msgspec.msgpack.Decoder(_Chunk)


def pack(pages: Sequence[Message]) -> bytes:
    """Pages of one crawl's run and gate as bytes. When each was found is kept to the millisecond."""
    first = pages[0]
    entries = [
        _Entry(
            page.url,
            bytes.fromhex(page.digest),
            page.depth,
            page.priority,
            page.parent,
            round((page.found - first.found) * 1000),
            page.lost,
        )
        for page in pages
    ]
    chunk = _Chunk(first.crawl, first.run, first.gate, first.found, entries)
    return zlib.compress(msgspec.msgpack.encode(chunk), 9)


def unpack(packed: bytes) -> list[Message]:
    """The pages of a chunk; none of one that was emptied. Raises StateMismatch."""
    if not packed:
        return []
    try:
        chunk = _decoder.decode(zlib.decompress(packed))
    except (zlib.error, msgspec.DecodeError) as error:
        raise StateMismatch(f"a backlog was written by another version of the crawler: {error}") from None
    return [
        Message(
            crawl=chunk.crawl,
            run=chunk.run,
            url=entry.url,
            digest=entry.digest.hex(),
            gate=chunk.gate,
            depth=entry.depth,
            priority=entry.priority,
            parent=entry.parent,
            found=chunk.found + entry.found / 1000,
            lost=entry.lost,
        )
        for entry in chunk.entries
    ]


def cut(pages: Sequence[Message], most: int) -> Iterator[list[Message]]:
    """Cut into chunks of at most `most` pages and LARGEST bytes; order is kept."""
    chunk: list[Message] = []
    size = 0
    for page in pages:
        more = len(page.url) + len(page.parent) + 100
        if chunk and (len(chunk) == most or size + more > LARGEST):
            yield chunk
            chunk, size = [], 0
        chunk.append(page)
        size += more
    if chunk:
        yield chunk
