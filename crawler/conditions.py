"""Conditional requests: what a validator may look like to be sent back, and what an answer 304 says. Pure.

A validator goes out as it came, byte for byte; what could be taken for something else is not sent at all.
"""

from __future__ import annotations

import re

from crawler.fetched import Response
from crawler.retry import http_date

LONGEST = 1024
"""Characters of an entity tag; a longer one may cost the request."""

DAY = 24 * 3600.0

# RFC 9110 8.8.3. Beyond it: spaces inside the quotes, and tags without quotes, which many servers compare as they
# stand. A bare `*` or a comma would make it a condition of another meaning (13.1.2).
_ETAG = re.compile(r'(?:W/)?"[\x20\x21\x23-\x7e\x80-\xff]*"|(?!\*$)[\x21\x23-\x2b\x2d-\x7e\x80-\xff]+')

_OF_THE_BODY = (b"content-", b"transfer-encoding", b"connection", b"keep-alive")
"""Fields (by how their names begin) that describe a message or its body: those of a 304 say nothing of the page."""


def conditions(etag: str | None, last_modified: str | None, fetched_at: float) -> tuple[tuple[str, str], ...]:
    """The fields that make a request conditional (RFC 9110 13.1.2, 13.1.3), from Latin-1 text; () without validators.

    A date later than the answer that it came with (by more than a day, for clocks that are off) is no date of a
    modification: a server that compares with it would never say again that its page has changed.
    """
    fields = []
    if etag is not None and (tag := _sendable(etag)) is not None:
        fields.append(("If-None-Match", tag))
    if last_modified is not None and (at := http_date(last_modified)) is not None and at <= fetched_at + DAY:
        fields.append(("If-Modified-Since", last_modified))
    return tuple(fields)


def _sendable(etag: str) -> str | None:
    """The text whose UTF-8 bytes, which the client writes, are the bytes received; None when there is none."""
    if len(etag) > LONGEST or _ETAG.fullmatch(etag) is None:
        return None
    try:
        return etag.encode("latin-1").decode()
    except UnicodeDecodeError:
        return None


def contradicts(etag: str | None, answer: Response) -> bool:
    """Whether a 304 names an entity tag of a page other than ours (RFC 9111 4.3.4).

    Compared weakly, and by their beginnings: compressing servers append to the tag of an answer, not to that of a 304.
    """
    theirs = answer.header(b"etag")
    if not etag or not theirs:
        return False
    ours, theirs = _opaque(etag), _opaque(theirs)
    return not ours.startswith(theirs) and not theirs.startswith(ours)


def _opaque(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')


def refreshed(fields: tuple[tuple[bytes, bytes], ...], answer: Response) -> tuple[tuple[bytes, bytes], ...]:
    """The header fields of a page after a 304: those of the answer replace the earlier ones of the same name (RFC 9111
    3.2), but for those that describe a body, which the answer has not."""
    news = [(name, value) for name, value in answer.headers if not name.lower().startswith(_OF_THE_BODY)]
    named = {name.lower() for name, _ in news}
    return (*(field for field in fields if field[0].lower() not in named), *news)
