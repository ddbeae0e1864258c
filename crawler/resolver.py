"""From hrefs to links, fast: most links of a page were on the page before."""

from __future__ import annotations

from collections.abc import Callable

from crawler.fetched import Link
from crawler.url_key import STANDARD, Keys
from crawler.urls import PLAIN, can_be_looked_up, encode_query, host_of, resolve

MEMO_URL = 1024
"""Longest URL that is remembered by a Resolver, in bytes: bounds its memory."""


class Resolver:
    """Turns the hrefs of many pages into links of a crawl with these `keys`; remembers at most `limit` by wire URL.

    A site repeats its links from page to page. Most hrefs become their wire URL by being put behind the origin or the
    folder; if that guess is a wire URL met before, it is right, for parsing a serialised URL gives it back unchanged
    (URL Standard 4.5). The memo is dropped whole when full.
    """

    def __init__(self, keys: Keys = STANDARD, limit: int = 40_000) -> None:
        self._digest, self._limit = keys.digest, limit
        self._links: dict[str, Link] = {}

    def at(self, base: str, encoding: str = "utf-8") -> Callable[[str], Link | None]:
        """Return the function from href to link (None: see `resolve`) for a document of that base URL and encoding."""
        root = base[: base.find("/", base.find("//") + 2)]
        folder = base[: base.partition("?")[0].rfind("/") + 1]
        known = self._links

        def link(href: str) -> Link | None:
            guess = _guess(href, root, folder)
            return known.get(guess) or self._make(href, guess, base, encoding)

        return link

    def _make(self, href: str, guess: str, base: str, encoding: str) -> Link | None:
        url: str | None = guess
        if PLAIN.fullmatch(guess) is None or not can_be_looked_up(host_of(guess)):
            url = resolve(href if href.isascii() else encode_query(href, encoding), base)
            if url is None or url in self._links:
                return self._links.get(url or "")
        assert url is not None
        link = Link(url, self._digest(url))
        if len(url) <= MEMO_URL:
            if len(self._links) >= self._limit:
                self._links.clear()
            self._links[url] = link
        return link


def _guess(href: str, root: str, folder: str) -> str:
    """What the wire URL of an href would be if nothing in it had to be changed; "" where that needs a parser."""
    first = href[:1]
    if first == "/":
        url = root + href if href[1:2] != "/" else root[: root.index("/")] + href
    elif href.startswith(("http://", "https://")):
        url = href
    elif ":" in href or not (first.isalnum() or first == "."):
        return ""  # perhaps a scheme; or relative to the document itself
    else:
        while href.startswith("../") and len(folder) > len(root) + 1:
            folder, href = folder[: folder.rindex("/", 0, -1) + 1], href[3:]
        url = folder + href
    mark = url.find("#")
    return url if mark < 0 else url[:mark]
