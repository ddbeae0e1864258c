"""Chunks: some pages of one crawl's run in as few bytes as will do, since items are billed by the kilobyte.

Pure. Pages of one gate are packed so that what all share is in it once. A mixture, of several gates, of pages that wait
for a later time or of feeders, is their messages' bodies, a line each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import msgspec

from crawler.errors import StateMismatch
from crawler.state.aws.records import Feed, Message, decode, encode

Entry = Message | Feed
"""What a chunk is made of."""

LARGEST = 200_000
"""Bytes of a chunk before it is compressed, unless it is of one page (DynamoDB takes items of 400 kB)."""


class _Page(msgspec.Struct, frozen=True, gc=False, array_like=True):
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
    entries: list[_Page]


_decoder = msgspec.msgpack.Decoder(_Chunk)


def pack(entries: Sequence[Entry]) -> bytes:
    """Pages and feeders of one crawl's run as bytes. When a page of one gate was found is kept to the millisecond."""
    pages = [entry for entry in entries if isinstance(entry, Message) and not entry.not_before]
    if len(pages) < len(entries) or len({page.gate for page in pages}) > 1:
        return zlib.compress("\n".join(map(encode, entries)).encode(), 9)
    first = pages[0]
    packed = [
        _Page(
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
    chunk = _Chunk(first.crawl, first.run, first.gate, first.found, packed)
    return zlib.compress(msgspec.msgpack.encode(chunk), 9)


def unpack(packed: bytes) -> list[Entry]:
    """What a chunk was made of; nothing of one that was emptied. Raises StateMismatch."""
    if not packed:
        return []
    try:
        raw = zlib.decompress(packed)
        if raw.startswith(b"{"):
            return [entry for line in raw.decode().splitlines() if isinstance(entry := decode(line), Entry)]
        chunk = _decoder.decode(raw)
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


def cut(entries: Sequence[Entry], most: int) -> Iterator[list[Entry]]:
    """Cut into chunks of at most `most` entries and LARGEST bytes; order is kept."""
    chunk: list[Entry] = []
    size = 0
    for entry in entries:
        more = 100 + (len(entry.url) + len(entry.parent) if isinstance(entry, Message) else len(entry.gate))
        if chunk and (len(chunk) == most or size + more > LARGEST):
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += more
    if chunk:
        yield chunk
