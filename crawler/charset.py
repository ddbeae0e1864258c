"""The character encoding of a body: HTML 13.2.3.2, with labels of the Encoding Standard."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import webencodings  # type: ignore[import-untyped]

PRESCAN = 1024
"""Bytes in which a document has to name its encoding (HTML 13.2.3.2)."""

SAMPLE = 8192
"""Bytes shown to the statistical guess, which is slow."""

_PARAMETER = re.compile(r""";\s*charset\s*=\s*(?:"([^"]*)"?|'([^']*)'?|([^;\s]*))""", re.IGNORECASE)
_IN_CONTENT = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^;\s"'][^;\s]*))""", re.IGNORECASE)
_XML = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*(?:"([^"]*)"|'([^']*)')[^>]*>""")

# One step of the prescan: a comment to its end, or the attributes of a tag, or a bogus comment.
_STEP = re.compile(
    rb"""<!(?=--).*?(?:-->|\Z) | </?([a-z]+)(?=[\s/>])((?:[^"'>]|"[^"]*"|'[^']*')*)> | <[!/?][^>]*>""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_ATTRIBUTE = re.compile(
    rb"""[\s/]*([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?""", re.VERBOSE
)

# What the prescan takes a label for that cannot be true, or not be meant.
_UNREADABLE = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}

# What is guessed at: the legacy encodings that pages without a label are written in.
_LEGACY = (
    "cp1252 cp1251 cp1250 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp874 koi8_r koi8_u iso8859_2 iso8859_5 iso8859_7 "
    "shift_jis euc_jp gb18030 big5 euc_kr"
)


class Encoding(NamedTuple):
    """An encoding of the standard: its name there, and how to use it."""

    name: str
    codec: codecs.CodecInfo


@lru_cache(maxsize=256)
def lookup(label: str) -> Encoding | None:
    """Find an encoding by one of its labels (Encoding Standard 4.2); None when the standard knows none."""
    found = webencodings.lookup(label)
    return Encoding(found.name, found.codec_info) if found is not None else None


def decode(body: bytes, content_type: str | None) -> tuple[str, str]:
    """Decode a document; return its text and the name of the encoding used. Never raises.

    A byte order mark counts before the label in the header, that before one in the first PRESCAN bytes, and that
    before a guess. A label that names no encoding of the standard is passed over. Errors become U+FFFD.
    """
    if body.startswith(codecs.BOM_UTF8):
        return body[3:].decode("utf-8", "replace"), "utf-8"
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        name = "utf-16le" if body.startswith(codecs.BOM_UTF16_LE) else "utf-16be"
        return body[2:].decode(name, "replace"), name
    encoding = header_encoding(content_type) or _prescan(body[:PRESCAN])
    if encoding is None:
        return _guess(body)
    if encoding.name == "utf-8":
        return body.decode("utf-8", "replace"), "utf-8"
    return encoding.codec.decode(body, "replace")[0], encoding.name


def header_encoding(content_type: str | None) -> Encoding | None:
    """Encoding named by a Content-Type field; None when it names none that exists."""
    match = _PARAMETER.search(content_type) if content_type else None
    return lookup(next(filter(None, match.groups()), "")) if match else None


def _prescan(head: bytes) -> Encoding | None:
    for attributes in _metas(head):
        label = attributes.get(b"charset")
        if label is None and attributes.get(b"http-equiv", b"").lower() == b"content-type":
            match = _IN_CONTENT.search(attributes.get(b"content", b"").decode("latin-1"))
            label = next(filter(None, match.groups()), "").encode("latin-1") if match else None
        if label is not None and (encoding := _declared(label)):
            return encoding
    match_xml = _XML.match(head)
    return _declared(match_xml[1] or match_xml[2] or b"") if match_xml else None


def _metas(head: bytes) -> Iterator[dict[bytes, bytes]]:
    """Attributes of each meta tag; of an attribute given twice, the first."""
    for step in _STEP.finditer(head):
        if step[1] is not None and step[0][1:2] != b"/" and step[1].lower() == b"meta":
            attributes: dict[bytes, bytes] = {}
            for name, double, single, bare in _ATTRIBUTE.findall(step[2]):
                attributes.setdefault(name.lower(), double or single or bare)
            yield attributes


def _declared(label: bytes) -> Encoding | None:
    """Encoding that a label inside the document stands for: it was readable as ASCII, so it is not UTF-16."""
    encoding = lookup(label.decode("latin-1"))
    instead = _UNREADABLE.get(encoding.name) if encoding is not None else None
    return lookup(instead) if instead is not None else encoding


def _guess(body: bytes) -> tuple[str, str]:
    """UTF-8 when the bytes allow it (but for a sequence cut at the end), else by statistics, else windows-1252."""
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError as error:
        whole = body[: error.start]
        if error.reason == "unexpected end of data" and not whole.isascii():
            return whole.decode(), "utf-8"
        start = max(0, error.start - SAMPLE // 8)
    # Few pages come this far, and the import takes longer than a hundred pages.
    from charset_normalizer import from_bytes

    matches = from_bytes(body[start : start + SAMPLE], cp_isolation=_LEGACY.split(), enable_fallback=False)
    best = matches.best()
    encoding = None
    # Latin encodings look alike; where the most common one will do, it is the one.
    if best is not None and not any("cp1252" in match.could_be_from_charset for match in matches):
        encoding = lookup(best.encoding.replace("_", "-"))
    encoding = encoding or Encoding("windows-1252", codecs.lookup("windows-1252"))
    return encoding.codec.decode(body, "replace")[0], encoding.name
