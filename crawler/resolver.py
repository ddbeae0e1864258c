"""From hrefs to links, fast: most links of a page were on the page before."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawler.fetched import Link
from crawler.url_key import STANDARD, Keys
from crawler.urls import PLAIN, can_be_looked_up, encode_query, host_of, resolve

MEMO_URL = 1024
"""Longest URL that is remembered by a Resolver, in bytes: bounds its memory."""

_ROOTED = ("/", "http://", "https://")
"""How hrefs begin that mean the same on every page of an origin."""

_NO_PAGES = ("mailto:", "tel:", "javascript:")
"""How hrefs begin that occur on most pages and lead to none; others need the parser to be told."""


class Resolver:
    """Turns the hrefs of many pages into links of a crawl with these `keys`; remembers at most `limit` by wire URL, and
    as many by href.

    A site repeats its links from page to page. Most hrefs become their wire URL by being put behind the origin or the
    folder; if that guess is a wire URL met before, it is right, for parsing a serialised URL gives it back unchanged
    (URL Standard 4.5). A guess that was right is not made again on pages of that origin: menus have the same hrefs
    everywhere. Each memo is dropped whole when full.
    """

    def __init__(self, keys: Keys = STANDARD, limit: int = 40_000) -> None:
        self._digest, self._limit = keys.digest, limit
        self._links: dict[str, Link] = {}
        self._menus: dict[str, dict[str, Link]] = {}
        self._in_menus = 0

    def links(self, hrefs: Iterable[str], base: str, encoding: str = "utf-8") -> list[Link | None]:
        """The links of a document of that base URL and encoding (None: see `resolve`)."""
        menu, link_at = self._menu(_root(base)), self.at(base, encoding)
        return [menu.get(href) or link_at(href) for href in hrefs]

    def at(self, base: str, encoding: str = "utf-8") -> Callable[[str], Link | None]:
        """Return the function from href to link (None: see `resolve`) for a document of that base URL and encoding."""
        root = _root(base)
        folder = base[: base.partition("?")[0].rfind("/") + 1]
        known, menu = self._links, self._menu(root)

        def link(href: str) -> Link | None:
            guess = _guess(href, root, folder)
            found = known.get(guess)
            if found is None:
                return self._make(href, guess, base, encoding)
            if self._in_menus < self._limit and len(href) <= MEMO_URL and href.startswith(_ROOTED):
                menu[href] = found
                self._in_menus += 1
            return found

        return link

    def _menu(self, root: str) -> dict[str, Link]:
        """Links by href for pages of an origin."""
        if self._in_menus >= self._limit:
            self._menus, self._in_menus = {}, 0
        menu = self._menus.get(root)
        if menu is None:
            menu = self._menus[root] = {}
            self._in_menus += 1  # an empty one takes memory, too
        return menu

    def _make(self, href: str, guess: str, base: str, encoding: str) -> Link | None:
        if href.startswith(_NO_PAGES):
            return None
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


def _root(base: str) -> str:
    return base[: base.find("/", base.find("//") + 2)]


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
