"""Sitemaps made in memory, and the locations that are read of them."""

from __future__ import annotations

from datetime import UTC, datetime

from crawler.sitemap import read

NOW = datetime(2025, 6, 1, tzinfo=UTC).timestamp()
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n'
SPACE = b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


def many(middle: bytes = b"", count: int = 200, head: bytes = HEAD + SPACE) -> bytes:
    """A file of `count` pages with something in the middle of it."""
    entries = [b"<url>\n  <loc>https://example.com/%d</loc>\n</url>\n" % number for number in range(count)]
    return head + b"".join((*entries[: count // 2], middle, *entries[count // 2 :])) + b"</urlset>\n"


def locs(body: bytes) -> list[str]:
    return [loc for loc, _ in read(body, NOW).urls]


def extra(body: bytes) -> list[str]:
    """What was found beside the 200 pages of `many`, all of which must be there."""
    found = locs(body)
    pages = {f"https://example.com/{number}" for number in range(200)}
    assert pages <= set(found)
    return [loc for loc in found if loc not in pages]


def entry(loc: str) -> bytes:
    return f"<url><loc>{loc}</loc></url>".encode()
