"""Reads sitemaps and feeds as they are really served (sitemaps.org protocol; RSS 2.0, RSS 1.0, Atom RFC 4287). Pure.

It is no XML parser, on purpose. One that recovers from errors keeps going, but drops what it did not understand from
the URL at hand: a raw `&b`, an HTML entity, a byte of another encoding; the URL that is left belongs to no page. This
one looks for tags in decoded text and takes what stands between them. There are no entities to define and nothing to
load, so a DTD is harmless. It runs in the parser process (see `parser.py`), for a file may be large and hostile.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from html.entities import html5
from typing import NamedTuple

import msgspec

from crawler.charset import lookup
from crawler.decode import Decoder
from crawler.fetched import Link
from crawler.resolver import Resolver
from crawler.url_key import STANDARD, Keys

MAX_SIZE = 50 * 1024 * 1024
"""Bytes of a file, unpacked, that are read (sitemaps.org)."""

MAX_URLS = 50_000
"""URLs of a file that are taken (sitemaps.org); the others are counted."""

MAX_LOC = 64 * 1024
"""Characters of the longest URL that is passed on, so that it may be recorded as too long; a longer one is damage."""

MOST_PACKINGS = 2
"""How often a file may be packed by gzip, beside its Content-Encoding."""

HEAD = 1024
"""Characters that tell what a file is; and those of a tag that are looked at."""

DEEPEST = 64
"""Elements kept open in an entry; nothing that is looked for lies so deep."""

GZIP = b"\x1f\x8b"
_DECLARED = re.compile(rb"""\s*<\?xml[^<>]*?encoding\s*=\s*["']([^"'<>]*)""")
_LIST = re.compile(rb"<(?:[\w.-]+:)?(?:urlset|sitemapindex)[\s>]")
_LINE = re.compile(r"[^\r\n]+")
_START = re.compile(r"https?:|/", re.IGNORECASE)

# What opens, closes or interrupts text. No piece gives back what it took, so a search is linear in the text.
_TAG = re.compile(
    r"""<(?: (?P<end>/?) (?P<name>[^\s<>/"'=!?]++) (?P<rest>(?: [^<>"']++ | "[^<"]*+" | '[^<']*+' | ["'] )*+)>
           | !--.*?(?:-->|\Z)
           | !\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)
           | [!?][^<>]*+>
        )""",
    re.VERBOSE | re.DOTALL,
)

# An escape ends with its semicolon. Without one it is the parameter `&copy=1`, which must stay what it is.
_ESCAPE = re.compile(r"&(?:#[0-9]{1,8}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# Octets that are no UTF-8 go on the wire as they came; characters that XML forbids were put in by mistake.
_RAW = re.compile(r"[\udc80-\udcff]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")

_W3C = re.compile(
    r"""(\d{4}) (?:-(\d\d) (?:-(\d\d) (?:[T\ ](\d\d):(\d\d) (?::(\d\d) (?:[.,]\d+)? )?
        \s* (?: Z | ([+-])(\d\d):?(\d\d) )? )? )? )?""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)

EXTENSIONS = frozenset({"image", "video", "news", "xhtml", "mobile", "geo", "pagemap", "codesearch", "media"})
"""Prefixes whose elements are about a page and not the page, whether they are declared or not."""

_ROOTS = {"urlset": "urlset", "sitemapindex": "sitemapindex", "rss": "rss", "rdf": "rss", "feed": "atom"}
_ENTRIES = {
    "urlset": frozenset({"url", "sitemap"}),
    "sitemapindex": frozenset({"url", "sitemap"}),
    "rss": frozenset({"item"}),
    "atom": frozenset({"entry"}),
}
_FIELDS = {
    "urlset": {"loc": "loc", "lastmod": "at"},
    "sitemapindex": {"loc": "loc", "lastmod": "at"},
    "rss": {"link": "loc", "guid": "guid", "pubdate": "at", "date": "at"},
    "atom": {"updated": "at"},
}
_LEAVES = frozenset({"loc", "lastmod", "changefreq", "priority"})


class Sitemap(NamedTuple):
    """What a file says. `urls`: each as written, with its time of last change (Unix seconds, None: unknown).

    sitemaps: those that an index lists. damaged: entries whose URL cannot be read. beyond: URLs after the first
    MAX_URLS. kind: "urlset", "sitemapindex", "rss", "atom", "text", or "" for what is none of these.
    """

    urls: list[tuple[str, float | None]]
    sitemaps: list[str]
    damaged: int
    beyond: int
    kind: str


class Listing(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What a file from a URL says, ready for discovery: distinct links, and the wire URLs of an index's files.

    `failed` says in a word why there is nothing ("" when there is): "timeout", "crash".
    """

    links: tuple[Link, ...] = ()
    sitemaps: tuple[str, ...] = ()
    damaged: int = 0
    beyond: int = 0
    kind: str = ""
    failed: str = ""


def read(body: bytes, now: float) -> Sitemap:
    """Read a file. Never raises; what is no sitemap has no URLs. `now`: a later change than that is one of now."""
    text = _text(_unpacked(body)).strip("\ufeff \t\r\n\0")
    found = Sitemap([], [], 0, 0, "")
    if "<" in text[:HEAD]:
        return _Reader(text, now).read()
    damaged = beyond = 0
    for match in _LINE.finditer(text):
        line = match[0].strip()
        if line[:8].lower().startswith(("http://", "https://")) and len(line) <= MAX_LOC:
            if len(found.urls) < MAX_URLS:
                found.urls.append((_clean(line), None))
            else:
                beyond += 1
        elif line and not line.startswith("#"):
            damaged += 1
    return Sitemap(found.urls, [], damaged, beyond, "text") if found.urls else found


def listing(body: bytes, url: str, now: float, keys: Keys = STANDARD) -> Listing:
    """Read a file that came from `url` and resolve what it lists. Never raises."""
    found = read(body, now)
    link_at = Resolver(keys).at(url)
    links: dict[bytes, Link] = {}
    damaged = found.damaged
    for loc, _ in found.urls:
        link = link_at(loc)
        if link is None:
            damaged += 1
        else:
            links.setdefault(link.digest, link)
    files = [link_at(loc) for loc in found.sitemaps]
    return Listing(
        links=tuple(links.values()),
        sitemaps=tuple(dict.fromkeys(link.url for link in files if link is not None)),
        damaged=damaged + files.count(None),
        beyond=found.beyond,
        kind=found.kind,
    )


def is_list(body: bytes) -> bool:
    """Whether a body is plainly a list of pages or of sitemaps, by its root. Cheap."""
    return _LIST.search(body, 0, HEAD) is not None


def may_be_sitemap(body: bytes) -> bool:
    """Whether it is worth reading a body as one: it is markup, or packed. Cheap."""
    return body.startswith(GZIP) or body[:HEAD].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<")


def changed_at(text: str, now: float) -> float | None:
    """A time as Unix seconds, in a W3C Datetime's precisions or as in mail (RFC 5322); None for anything else.

    The earliest moment that it may mean; UTC where no zone is given. A time to come is now.
    """
    match = _W3C.fullmatch(text.strip())
    try:
        if match is None:
            moment = parsedate_to_datetime(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        else:
            year, month, day, hour, minute, second = (int(match[i] or (1 if i in (2, 3) else 0)) for i in range(1, 7))
            offset = timedelta(hours=int(match[8] or 0), minutes=int(match[9] or 0))
            zone = timezone(-offset if match[7] == "-" else offset)
            moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone)
        return min(moment.timestamp(), now)
    except (ValueError, OverflowError):
        return None


def _unpacked(body: bytes) -> bytes:
    """Undo gzip by what the bytes are, whatever the name or the type says."""
    for _ in range(MOST_PACKINGS):
        if not body.startswith(GZIP):
            break
        decoder = Decoder("gzip", MAX_SIZE)
        body = decoder.feed(body) + decoder.finish()
    return body[:MAX_SIZE]


def _text(body: bytes) -> str:
    """Decode by the byte order mark or the XML declaration, else as UTF-8. Bytes that are none become surrogates."""
    if body.startswith((codecs.BOM_UTF16_LE, b"<\0")):
        return body.decode("utf-16-le", "replace")
    if body.startswith((codecs.BOM_UTF16_BE, b"\0<")):
        return body.decode("utf-16-be", "replace")
    declared = _DECLARED.match(body.removeprefix(codecs.BOM_UTF8), 0, HEAD)
    encoding = lookup(declared[1].decode("latin-1")) if declared else None
    if encoding is None or encoding.name.startswith("utf-"):
        return body.decode("utf-8", "surrogateescape")
    return encoding.codec.decode(body, "replace")[0]


def _clean(loc: str) -> str:
    loc = _RAW.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", loc)
    return _CONTROLS.sub("", loc).strip()


class _Reader:
    """Walks over the tags of one file. An entry lasts until its end tag, the next entry or the end of the file."""

    def __init__(self, text: str, now: float) -> None:
        self._text, self._now = text, now
        self._found = Sitemap([], [], 0, 0, "")
        self._damaged = self._beyond = 0
        self._kind = ""
        self._entry = ""
        self._inner: list[str] = []
        self._field = ""
        self._fields: dict[str, str] = {}
        self._parts: list[str] = []

    def read(self) -> Sitemap:
        at = 0
        for tag in _TAG.finditer(self._text):
            end, name, rest, cdata = tag.groups()
            if self._field:
                self._parts.append(_ESCAPE.sub(_unescape, self._text[at : tag.start()]))
                if cdata is not None:
                    self._parts.append(cdata)
            at = tag.end()
            if name is None:
                continue
            prefix, _, name = name.lower().rpartition(":")
            if not self._kind:
                if name == "html":
                    break
                self._kind = _ROOTS.get(name, "")
            elif end:
                self._close(name)
            else:
                self._open(name, prefix in EXTENSIONS, rest)
        if self._entry:
            self._field = ""  # a text without end is cut
            self._finish()
        return Sitemap(self._found.urls, self._found.sitemaps, self._damaged, self._beyond, self._kind)

    def _open(self, name: str, extension: bool, rest: str) -> None:
        empty = rest.endswith("/")
        if name in _ENTRIES[self._kind] and not extension:
            self._finish()
            self._entry = name
            if name == "item" and (about := dict(_attributes(rest)).get("rdf:about")):
                self._fields["guid"] = about
            if empty:
                self._finish()
            return
        if not self._entry:
            return
        self._end_field()
        if self._inner and self._inner[-1] in _LEAVES:
            self._inner.pop()  # its end tag is missing
        if not self._inner and not extension:
            if self._kind == "atom" and name == "link":
                attributes = dict(_attributes(rest))
                if "alternate" in attributes.get("rel", "alternate").lower().split():
                    self._fields.setdefault("loc", attributes.get("href", "").strip())
            elif not empty and dict(_attributes(rest)).get("isPermaLink", "").lower() != "false":
                self._field = _FIELDS[self._kind].get(name, "")
        if not empty and len(self._inner) < DEEPEST:
            self._inner.append(name)

    def _close(self, name: str) -> None:
        if name in self._inner:
            while self._inner.pop() != name:
                pass
            if not self._inner:
                self._end_field()
        elif name == self._entry or name in _ROOTS:
            self._finish()

    def _end_field(self) -> None:
        """Keep the text of a field; of several the first that is not empty."""
        if self._field:
            text = "".join(self._parts).strip()
            if text and not self._fields.get(self._field):
                self._fields[self._field] = text
            self._field = ""
            self._parts.clear()

    def _finish(self) -> None:
        """The entry is over."""
        if not self._entry:
            return
        self._end_field()
        loc = _clean(self._fields.get("loc") or self._fields.get("guid", ""))
        if not _START.match(loc) or len(loc) > MAX_LOC:
            self._damaged += 1
        elif self._entry == "sitemap":
            if len(self._found.sitemaps) < MAX_URLS:
                self._found.sitemaps.append(loc)
            else:
                self._beyond += 1
        elif len(self._found.urls) < MAX_URLS:
            self._found.urls.append((loc, changed_at(self._fields.get("at", ""), self._now)))
        else:
            self._beyond += 1
        self._entry = ""
        self._inner.clear()
        self._fields.clear()
        self._parts.clear()


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for match in _ATTRIBUTE.finditer(text, 0, HEAD):
        yield match[1], _ESCAPE.sub(_unescape, match[2] if match[2] is not None else match[3])


def _unescape(match: re.Match[str]) -> str:
    escape = match[0]
    return html.unescape(escape) if escape[1] == "#" else html5.get(escape[1:], escape)
