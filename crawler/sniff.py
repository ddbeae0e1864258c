"""Whether a body is HTML: the Content-Type, corrected by what the first bytes say (MIME Sniffing 5, 7)."""

from __future__ import annotations

import codecs
import re

from crawler.charset import header_encoding

HEAD = 1024
"""Bytes that are looked at."""

_HTML = frozenset(("text/html", "application/xhtml+xml"))
_UNKNOWN = frozenset(("", "unknown/unknown", "application/unknown", "*/*"))

_BINARY = (
    b"%PDF-", b"%!PS-Adobe-", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd", b"7z\xbc\xaf", b"Rar!",
    b"\x89PNG\r\n", b"GIF87a", b"GIF89a", b"\xff\xd8\xff", b"RIFF", b"OggS", b"ID3", b"\x1aE\xdf\xa3", b"\x7fELF",
    b"wOFF", b"wOF2",
)  # fmt: skip

_STARTS_HTML = re.compile(
    rb"""\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*
        <(?:!--|(?:!doctype\s+html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|meta)(?=[\s/>]))""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def essence(content_type: str | None) -> str:
    """`type/subtype` of a Content-Type field, in lower case, without parameters; "" when there is none.

    Of several in one field, where servers and proxies add their own, the first counts.
    """
    return content_type.partition(";")[0].partition(",")[0].strip().lower() if content_type else ""


def is_html(content_type: str | None, body: bytes) -> bool:
    """Whether to parse a body as HTML or XHTML. Never what is binary by its signature or by NUL bytes at its start."""
    head = body[:HEAD]
    kind = essence(content_type)
    if kind not in _HTML and kind not in _UNKNOWN:
        return False
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        head = head[2:].replace(b"\0", b"")
    elif (named := header_encoding(content_type)) is not None and named.name in ("utf-16le", "utf-16be"):
        head = head.replace(b"\0", b"")
    if head.startswith(_BINARY) or b"\0" in head:
        return False
    return kind in _HTML or _STARTS_HTML.match(head.removeprefix(codecs.BOM_UTF8)) is not None
