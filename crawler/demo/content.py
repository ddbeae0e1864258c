"""What the demo site answers to every request, and the truth about its URLs."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass, fields
from urllib.parse import quote, urlsplit

from crawler.demo.pages import Pages
from crawler.demo.plan import HOSTS, Kind, Place, Trait, plan, resource
from crawler.demo.server import Answer

PAGES = 300
SEED = 20

ROBOTS = b"""\
User-agent: badbot
Disallow: /

User-agent: *
Disallow: /private/
Disallow: /*?print=
Allow: /private/press/
"""


@dataclass(frozen=True)
class Truth:
    """The site's URLs by kind, in canonical form.

    A crawl of the three seeds with scope `host` fetches every URL of `fetched` exactly once and none of `forbidden`.
    `private` are found but disallowed by robots.txt, `outside` leads out of scope, `nofollow` and `hidden` are
    nowhere linked in a way that counts. `flaky` are the pages that first answer 503 when the server is told so.
    """

    pages: frozenset[str]
    files: frozenset[str]
    redirects: frozenset[str]
    missing: frozenset[str]
    private: frozenset[str]
    nofollow: frozenset[str]
    hidden: frozenset[str]
    outside: frozenset[str]
    flaky: frozenset[str]

    @property
    def fetched(self) -> frozenset[str]:
        return self.pages | self.files | self.redirects | self.missing

    @property
    def forbidden(self) -> frozenset[str]:
        return self.private | self.nofollow | self.hidden | self.outside

    def on(self, host: str) -> Truth:
        """The part of the truth on one host."""
        return Truth(
            **{
                f.name: frozenset(url for url in getattr(self, f.name) if urlsplit(url).hostname == host)
                for f in fields(self)
            }
        )


class Site:
    """The demo site as served on `port`: the same for the same arguments, whichever process makes it."""

    def __init__(self, port: int, pages: int = PAGES, seed: int = SEED) -> None:
        self._port = port
        self._places = plan(pages, seed)
        self._pages = Pages(self._places, port, seed)
        self._of = {(place.host, place.target): place for place in self._places}
        self.seeds = tuple(f"{self.origin(host)}/" for host in HOSTS)
        self.truth = self._truth()

    def origin(self, host: str) -> str:
        """Scheme, host and port of one of the site's hosts."""
        return self._pages.origin(host)

    def canonical(self, url: str) -> str:
        """The canonical form of any spelling of one of the site's URLs."""
        parts = urlsplit(url)
        path = quote(parts.path, safe="/%")
        query = quote(parts.query, safe="=&%", encoding="iso-8859-1")
        return self.origin(parts.hostname or "") + resource(f"{path}?{query}")

    def find(self, host: str, target: str) -> Place | None:
        """The place that a request (host without port, any spelling of the target) means."""
        return self._of.get((host.lower(), resource(target)))

    def answer(self, host: str, target: str) -> Answer:
        """Answer a request. What nobody should ask for is answered as well as the rest, so that asking shows."""
        if target == "/robots.txt":
            return Answer(200, ROBOTS, "text/plain; charset=utf-8")
        place = self.find(host, target)
        if place is None or place.kind is Kind.MISSING:
            return Answer(404, b"<!DOCTYPE html><title>Not found</title><p>There is no such page.\n", "text/html")
        if place.kind is Kind.REDIRECT:
            assert place.to is not None
            same = place.to.host == place.host
            return Answer(301, location=place.to.target if same else self._url(place.to))
        if place.kind is Kind.FILE:
            return _file(place)
        if place.kind is Kind.PAGE:
            return self._html(place)
        return Answer(200, b"<!DOCTYPE html><title>Not for crawlers</title><p>Yet here you are.\n", "text/html")

    def _html(self, page: Place) -> Answer:
        text = self._pages.render(page)
        if page.trait is Trait.LATIN1:
            return Answer(200, text.encode("iso-8859-1"), "text/html")  # the charset stands in the page alone
        body = text.encode()
        if page.trait is Trait.GZIP:
            return Answer(200, gzip.compress(body, mtime=0), "text/html; charset=utf-8", coding="gzip")
        return Answer(200, body, "text/html; charset=utf-8", chunked=page.trait is Trait.CHUNKED)

    def _url(self, place: Place) -> str:
        return self.origin(place.host) + place.target

    def _truth(self) -> Truth:
        def urls(belongs: Callable[[Place], bool]) -> frozenset[str]:
            return frozenset(self._url(place) for place in self._places if belongs(place))

        return Truth(
            pages=urls(lambda place: place.kind is Kind.PAGE),
            files=urls(lambda place: place.kind is Kind.FILE),
            redirects=urls(lambda place: place.kind is Kind.REDIRECT),
            missing=urls(lambda place: place.kind is Kind.MISSING),
            private=urls(lambda place: place.kind is Kind.PRIVATE),
            nofollow=urls(lambda place: place.kind is Kind.NOFOLLOW),
            hidden=urls(lambda place: place.kind is Kind.HIDDEN),
            outside=urls(lambda place: place.kind is Kind.OUTSIDE),
            flaky=urls(lambda place: place.trait is Trait.FLAKY),
        )


def _file(place: Place) -> Answer:
    noise = random.Random(place.host + place.target).randbytes(20_000)  # noqa: S311 - repeatable on purpose
    if place.target.endswith(".png"):
        return Answer(200, b"\x89PNG\r\n\x1a\n" + noise, "image/png")
    return Answer(200, b"%PDF-1.4\n" + noise, "application/pdf")
