"""What a fetch brought and what a parse found: the values that travel between the steps of a page's way."""

from __future__ import annotations

import msgspec


class Response(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An HTTP answer.

    `headers` are names and values as received, in order. `stored` is the body as it came, without transfer coding but
    with its content coding, cut at the limit; `body` is decoded (equal to `stored` where there was no coding or it is
    unknown). `truncated` is "" or WARC's word: "length" (a limit cut it), "disconnect" (it ended
    early) or "time" (it came too slowly).
    `reason` is Latin-1 text, `version` such as "HTTP/1.1".
    `decoded` is False when the content coding was unknown or damaged from the first byte: then the body is no text.
    """

    url: str
    status: int
    reason: str
    version: str
    headers: tuple[tuple[bytes, bytes], ...]
    stored: bytes
    body: bytes
    fetched_at: float
    elapsed: float
    ip: str = ""
    truncated: str = ""
    decoded: bool = True

    def header(self, name: bytes) -> str | None:
        """First value of a field, by its lower-case name, as Latin-1 text; None when absent."""
        size = len(name)
        for field, value in self.headers:
            if len(field) == size and field.lower() == name:
                return value.decode("latin-1").strip()
        return None

    def header_all(self, name: bytes) -> list[str]:
        """All values of a field, in order."""
        size = len(name)
        return [
            value.decode("latin-1").strip()
            for field, value in self.headers
            if len(field) == size and field.lower() == name
        ]


class Reference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An earlier record that a revisit record refers to (WARC 1.1 6.7).

    `uri`, `date`, `record_id` and `payload_digest` are what its WARC headers say. `file` is its WARC file, relative to
    the store; `offset` and `length` delimit its gzip member.
    """

    uri: str
    date: str
    record_id: str
    payload_digest: str
    file: str
    offset: int
    length: int


class Revisit(msgspec.Struct, frozen=True, gc=False):
    """What is known of a page that has not changed: the record that has its body, and the page as it would have come.

    Where the answer was 304, `page` is the earlier body under the earlier header fields, brought up to date by those
    of the answer (RFC 9111 3.2); else it is the answer itself.
    """

    reference: Reference
    page: Response


class Link(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A link that may be followed: the URL as it goes on the wire, and its digest."""

    url: str
    digest: bytes


class ParsedPage(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a parse found. `links` are distinct by digest, in document order, without those marked nofollow.

    `links_found` counts the anchors seen, `bad_links` those that could not be parsed as http(s) URLs.
    `failed` says in a word why there is nothing ("" when there is): "timeout", "crash".
    `simhash` is the similarity hash of the text (see `simhash.py`), where it was asked for and there is enough text.
    """

    links: tuple[Link, ...] = ()
    links_found: int = 0
    bad_links: int = 0
    title: str | None = None
    lang: str | None = None
    canonical_url: str | None = None
    charset: str | None = None
    noindex: bool = False
    nofollow: bool = False
    failed: str = ""
    simhash: int | None = None


class Extracted(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a user's function made of a page, as a JSON object; or in a line why there is nothing.

    `failed` is as in ParsedPage. `refused` says why the function cannot be had at all; `importable` is False when its
    module is to blame.
    """

    extra: str | None = None
    error: str = ""
    failed: str = ""
    refused: str = ""
    importable: bool = True
