"""What a page says: its links, title and directives. Pure: bytes and headers in, a ParsedPage out.

It runs in the parser process (see `parser.py`), because hostile markup can keep it busy for minutes or crash it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from html import escape
from itertools import chain

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawler import charset
from crawler.depth import capped
from crawler.directives import directives, has_nofollow
from crawler.fetched import Link, ParsedPage
from crawler.page_fields import MAX_LANG, canonical_url, language
from crawler.resolver import Resolver
from crawler.simhash import simhash, visible_text
from crawler.slices import slices
from crawler.sniff import essence, is_html
from crawler.url_key import STANDARD, Keys
from crawler.urls import MAX_HREF, encode_query, resolve

MAX_TITLE = 1000
"""Characters kept of a title."""

MAX_LINKS_SIZE = 8 * 1024 * 1024
"""Characters of all links of a page together; a page can multiply its size by a long base URL. The rest is not
followed."""

MAX_NESTED = 2
"""How deep iframe documents given in place (srcdoc) are followed."""

# One walk over the tree finds everything, in document order. A type selector matches in every namespace.
_WALK = "a, area, link, meta, base, title, frame, iframe"

# What link elements have to be, to be followed.
_BESIDE = frozenset(("next", "prev", "previous"))
_FOLLOWED = _BESIDE | {"alternate"}
_PAGE_TYPES = frozenset(("", "text/html", "application/xhtml+xml"))

# HTML 4.2.5.3, shared declarative refresh steps. No group is possessive: Python before 3.11.5 would take the `url` off
# a target `urls`.
_REFRESH = re.compile(
    r"""\s*+(?:[0-9][0-9.]*+|\.[0-9.]*+)(?=[;,\s])\s*+[;,]?\s*+(?:url\s*+=\s*+)?(?:"([^"]*)|'([^']*)|(.*))""",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)

# XHTML closes any element by a slash. An HTML parser would take the rest of the page for the content of these.
_SELF_CLOSED = re.compile(r"<(script|style|title|textarea|iframe|noframes|a)\b([^<>]*)/>", re.IGNORECASE)

# Text of XHTML in which nothing is markup.
_CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)

# Crawls of one worker that tell pages apart alike share the memo of links.
_resolver = lru_cache(maxsize=4)(Resolver)


@dataclass(slots=True)
class _Found:
    """What one walk over a document collects; nothing is resolved yet, because a late base holds for early links."""

    seen: int = 0
    hrefs: list[str] = field(default_factory=list)
    base: str | None = None
    canonical: str | None = None
    title: str | None = None
    lang: str | None = None
    default_lang: str | None = None
    robots: list[str] = field(default_factory=list)
    inner: list[_Found] = field(default_factory=list)


def parse(
    body: bytes,
    content_type: str | None,
    url: str,
    x_robots: Iterable[str],
    token: str,
    keys: Keys = STANDARD,
    *,
    with_simhash: bool = False,
) -> ParsedPage:
    """Parse a body that came from `url`; `x_robots` are the X-Robots-Tag fields, `token` our product token.

    What is not HTML has no links, and its charset is None. A link to the page itself is left out. `with_simhash` costs
    as much as all the rest or more: 0.2 ms for 700 words, 1 ms for 4,000.
    """
    if not is_html(content_type, body):
        noindex, nofollow = directives(x_robots, token)
        return ParsedPage(noindex=noindex, nofollow=nofollow)
    text, encoding = charset.decode(body, content_type)
    if essence(content_type) == "application/xhtml+xml":
        text = _SELF_CLOSED.sub(r"<\1\2></\1>", _CDATA.sub(lambda section: escape(section[1]), text))
    shown: list[str] | None = [] if with_simhash else None
    found = _walk(text, token.lower(), shown=shown)
    noindex, nofollow = directives(chain(x_robots, found.robots), token)
    links, bad = ((), 0) if nofollow else _links(found, url, encoding, keys)
    return ParsedPage(
        links=links,
        links_found=found.seen,
        bad_links=bad,
        title=found.title,
        lang=found.lang,
        canonical_url=canonical_url(encode_query(found.canonical or "", encoding), _base(found, url, encoding)),
        charset=encoding,
        noindex=noindex,
        nofollow=nofollow,
        simhash=None if shown is None else simhash(" ".join(shown)),
    )


def _walk(text: str, token: str, nested: int = 0, shown: list[str] | None = None) -> _Found:
    """Walk over a document; `shown` takes in its visible text."""
    found = _Found()
    for piece in slices(text):
        tree = LexborHTMLParser(capped(piece), options=LexborDocumentOptions.WO_EVENTS)
        _take_in(found, tree, token, nested)
        if shown is not None:
            shown.append(visible_text(tree))
    return found


def _take_in(found: _Found, tree: LexborHTMLParser, token: str, nested: int) -> None:
    if tree.root is not None and found.lang is None:
        attributes = tree.root.attributes
        found.lang = (attributes.get("lang") or attributes.get("xml:lang") or "").strip()[:MAX_LANG] or None
    for node in tree.css(_WALK):
        tag, attributes = node.tag, node.attributes
        if tag in ("a", "area"):
            name = "href" if "href" in attributes or not _is_foreign(node) else "xlink:href"  # SVG 2, 16.1.5
            if name in attributes:
                found.seen += 1
                if "rel" not in attributes or not has_nofollow(attributes["rel"]):
                    found.hrefs.append(attributes[name] or "")
        elif tag in ("frame", "iframe"):
            if "src" in attributes:
                found.seen += 1
                found.hrefs.append(attributes["src"] or "")
            if attributes.get("srcdoc") and nested < MAX_NESTED:
                inner = _walk(attributes["srcdoc"] or "", token, nested + 1)
                found.seen += inner.seen
                if not directives(inner.robots, token)[1]:
                    found.inner.append(inner)
        elif tag == "title":
            if found.title is None and not _is_foreign(node):
                found.title = " ".join(node.text()[: 100 * MAX_TITLE].split())[:MAX_TITLE]
        elif tag == "base":
            if found.base is None and "href" in attributes and not _is_foreign(node):
                found.base = attributes["href"] or ""
        elif tag == "link":
            _link(found, attributes)
        else:
            _meta(found, attributes, token)
    found.lang = found.lang or found.default_lang


def _link(found: _Found, attributes: dict[str, str | None]) -> None:
    """Take in a link element: a page before or after this one, or this page in another language or for other screens,
    is a link; style sheets, feeds and the like are none."""
    rel = (attributes.get("rel") or "").lower().replace(",", " ").split()
    if not _FOLLOWED.isdisjoint(rel):
        page = essence(attributes.get("type")) in _PAGE_TYPES and "stylesheet" not in rel
        if "href" in attributes and (page or not _BESIDE.isdisjoint(rel)):
            found.seen += 1
            if "nofollow" not in rel:
                found.hrefs.append(attributes["href"] or "")
    if "canonical" in rel and found.canonical is None:
        found.canonical = attributes.get("href")


def _meta(found: _Found, attributes: dict[str, str | None], token: str) -> None:
    content = attributes.get("content") or ""
    if (attributes.get("name") or "").strip().lower() in ("robots", token):
        found.robots.append(content)
    pragma = (attributes.get("http-equiv") or "").strip().lower()
    if pragma == "refresh" and (match := _REFRESH.match(content)):
        found.seen += 1
        found.hrefs.append(next(filter(None, match.groups()), ""))
    elif pragma == "content-language" and found.default_lang is None:
        found.default_lang = language(content)


def _is_foreign(node: LexborNode) -> bool:
    """Whether the node belongs to a drawing or a formula, where other elements have the same names."""
    parent = node.parent
    while parent is not None and parent.tag not in ("svg", "math", "foreignObject", "annotation-xml", "body"):
        parent = parent.parent
    return parent is not None and parent.tag in ("svg", "math")


def _links(found: _Found, url: str, encoding: str, keys: Keys) -> tuple[tuple[Link, ...], int]:
    """Resolve what was found; return distinct links in order of appearance, and how many could not be resolved."""
    resolver = _resolver(keys)
    links: dict[bytes, Link] = {}
    bad = size = 0
    for base, coded_in, hrefs in _documents(found, url, encoding):
        for link in resolver.links(hrefs, base, coded_in):
            if link is None or len(link.url) > MAX_HREF:
                bad += 1
            elif link.digest not in links and size < MAX_LINKS_SIZE:
                links[link.digest] = link
                size += len(link.url)
    links.pop(keys.digest(url), None)
    return tuple(links.values()), bad


def _documents(found: _Found, url: str, encoding: str) -> Iterator[tuple[str, str, list[str]]]:
    """Base URL, encoding and hrefs of a document, then of those given in place inside it (HTML 2.4.2)."""
    base = _base(found, url, encoding)
    yield base, encoding, found.hrefs
    for inner in found.inner:
        yield from _documents(inner, base, "utf-8")


def _base(found: _Found, url: str, encoding: str) -> str:
    return (resolve(encode_query(found.base, encoding), url) if found.base is not None else None) or url
