"""A site of a dozen URLs on two hosts, with what a crawl must make of each.

Every way in which a page can lead to another is on it: links within a host and to the other, links that robots.txt of
either host disallows, a link to what is not there, a redirect, and the same link on several pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.servers import Peer, Server, reply, serve

ROBOTS = b"User-agent: *\nDisallow: /private/\n"

LINKS = {
    "a/": ("a/1", "a/2", "b/1", "a/private/p", "b/private/q"),
    "a/1": ("a/2", "a/3", "a/", "a/private/p"),
    "a/2": ("a/3", "b/2", "a/gone", "b/private/r"),
    "a/3": ("a/old",),
    "b/": ("b/1", "a/1", "b/private/r"),
    "b/1": ("b/2", "a/private/s"),
    "b/2": (),
    "b/3": ("a/last",),
    "a/last": ("b/private/t",),
}
"""The pages, host and path, and the links of each. The last is found alone, when both hosts' rules are known."""

MOVED = {"a/old": "b/3"}
GONE = ("a/gone",)
SEEDS = ("a/", "b/")


class Site:
    """The running site."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.port = urlsplit(server.address).port

    def url(self, place: str) -> str:
        host, _, path = place.partition("/")
        return f"http://{host}.localhost:{self.port}/{path}"

    @property
    def seeds(self) -> list[str]:
        return [self.url(place) for place in SEEDS]

    @property
    def done(self) -> set[str]:
        """URLs that must end as done."""
        return {self.url(place) for place in (*LINKS, *MOVED, *GONE)}

    @property
    def skipped(self) -> set[str]:
        """URLs that must end as skipped."""
        return {self.url(link) for links in LINKS.values() for link in links if "/private/" in link}

    def fetched(self) -> Counter[str]:
        """How often each URL was asked for, robots.txt left out."""
        return Counter(self.url(place) for place in map(_place, self._server.requests) if "robots.txt" not in place)


@asynccontextmanager
async def small_site() -> AsyncIterator[Site]:
    """Serve the site until the block ends."""

    async def answer(peer: Peer) -> None:
        while head := await peer.request():
            await peer.send(_answer(site, _place(head)))

    async with serve(answer) as server:
        site = Site(server)
        yield site


def _place(head: bytes) -> str:
    """Host and path that a request asks for."""
    lines = head.decode().split("\r\n")
    host = next(line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:"))
    return host.partition(".")[0] + lines[0].split(" ")[1]


def _answer(site: Site, place: str) -> bytes:
    if place.endswith("/robots.txt"):
        return reply(ROBOTS, "Content-Type: text/plain")
    if place in MOVED:
        return reply(b"", f"Location: {site.url(MOVED[place])}", status="301 Moved Permanently")
    if place not in LINKS:
        return reply(b"no such page", status="404 Not Found")
    links = "".join(f'<a href="{site.url(link)}">{link}</a>' for link in LINKS[place])
    return reply(f"<title>{place}</title>{links}".encode(), "Content-Type: text/html; charset=utf-8")
