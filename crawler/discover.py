"""Discover: from the links of a page to the pages that the frontier should take.

What is out of scope, filtered or known already ends here. A link that may not be fetched for a reason the ledger
should show (robots, a limit, its length, a trap) becomes a page all the same, with `skip` set.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from crawler import traps, urls
from crawler.config import CrawlSettings
from crawler.fetched import Link, ParsedPage
from crawler.model import LOWEST, Lease, Page, Parent, Priority
from crawler.near_duplicates import NearDuplicates
from crawler.state.port import CrawlState
from crawler.trap_memory import TrapMemory
from crawler.url_key import keys_of

if TYPE_CHECKING:
    from crawler.robots_keeper import RobotsKeeper

SEEN_LIMIT = 200_000
"""Digests in one generation of the seen cache: two generations of 16-byte digests are some 40 MB."""

MOST_PLACES = 5
"""Places by which boosts move a page, at most: what lies between two words for priorities."""

SCOPE_LIMIT = 50_000
OUT_OF_SCOPE_SECONDS = 30.0
"""A site found out of scope is asked about again after this long: a seed may have brought it in."""


class SeenCache:
    """Digests known to be in the visited set, bounded.

    A seen URL is never unseen, so what it says is always right; what it forgot costs a look-up. Two generations: when
    the young one is full it becomes the old one, so a digest in use stays.
    """

    def __init__(self, limit: int = SEEN_LIMIT) -> None:
        self._limit = limit
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._young or digest in self._old

    def unseen(self, links: Sequence[Link]) -> list[Link]:
        """Those links that are not in here. Most links of most pages are, so this is the hot path of discovery."""
        young, old = self._young, self._old
        return [link for link in links if link.digest not in young and link.digest not in old]

    def update(self, digests: Iterable[bytes]) -> None:
        self._young.update(digests)
        if len(self._young) >= self._limit:
            self._young, self._old = set(), self._young


class Filters:
    """`--include` and `--exclude`: searched in the URL's key, so that every spelling of a page decides alike."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._key = keys_of(settings).key
        self._include = [re.compile(pattern) for pattern in settings.include]
        self._exclude = [re.compile(pattern) for pattern in settings.exclude]

    def allow(self, url: str) -> bool:
        """Exclude wins; without `--include` everything else passes."""
        if not self._include and not self._exclude:
            return True
        key = self._key(url)
        if any(pattern.search(key) for pattern in self._exclude):
            return False
        return not self._include or any(pattern.search(key) for pattern in self._include)


class Boosts:
    """`--boost`: searched in the URL's key, as the filters are."""

    def __init__(self, settings: CrawlSettings) -> None:
        self._key = keys_of(settings).key
        self._boosts = [(re.compile(pattern), places) for pattern, places in settings.boost]

    def places(self, url: str) -> int:
        """How many places a page comes earlier: those of all that match together, at most five either way."""
        if not self._boosts:
            return 0
        key = self._key(url)
        return max(-MOST_PLACES, min(MOST_PLACES, sum(n for pattern, n in self._boosts if pattern.search(key))))

    def priority(self, url: str, lease: Lease) -> int:
        """A page's place on the scale: that of the page it was found on without that page's own boost, and its own
        instead; so boosts do not add up along a path of links."""
        base = lease.priority + self.places(lease.url)
        # Boosts that were amended meanwhile give another base than the page's own; it stays on the scale.
        return max(0, min(LOWEST, base - self.places(url)))


class ScopeCheck:
    """Which sites the crawl follows links to, asked of the state once and remembered for a while."""

    def __init__(self, state: CrawlState, crawl: str, settings: CrawlSettings) -> None:
        self._state, self._crawl, self._settings = state, crawl, settings
        self._known: dict[str, float] = {}  # site -> until when it counts as out of scope; 0.0 = in scope for good

    async def prepare(self, sites: Iterable[str]) -> None:
        """Ask the state about the sites not known yet, in one call."""
        if self._settings.scope == "any":
            return
        now = time.monotonic()
        ask = [site for site in set(sites) if (until := self._known.get(site)) is None or 0.0 < until < now]
        if not ask:
            return
        if len(self._known) > SCOPE_LIMIT:
            self._known.clear()
        for site, inside in zip(ask, await self._state.in_scope(self._crawl, ask), strict=True):
            self._known[site] = 0.0 if inside else now + OUT_OF_SCOPE_SECONDS

    def inside(self, site: str) -> bool:
        """Whether a prepared site is in scope."""
        return self._settings.scope == "any" or self._known.get(site) == 0.0

    async def allows(self, url: str) -> bool:
        """The check for one URL."""
        site = urls.site_name(urls.hostname(url), self._settings.scope)
        await self.prepare([site])
        return self.inside(site)


class Discoverer:
    """Makes pages of links, for one crawl in one worker."""

    def __init__(
        self, state: CrawlState, crawl: str, settings: CrawlSettings, seen: SeenCache, robots: RobotsKeeper
    ) -> None:
        self.seen = seen
        self.keys, self.token = keys_of(settings), settings.product_token
        self._robots = robots
        self.scope = ScopeCheck(state, crawl, settings)
        self.filters = Filters(settings)
        self.traps = TrapMemory(state, crawl)
        self.near: NearDuplicates | None = None
        self._boosts = Boosts(settings)
        self._settings = settings
        self._hosts: dict[str, tuple[str, str]] = {}

    async def pages(self, found: Sequence[tuple[Lease, Sequence[Link]]]) -> list[Page]:
        """Pages to add for the links of many pages, each parent's once.

        A parent that was handed out before asks for its links itself, even when another page of the batch has the same
        ones: only in its own name is a child found that it recorded and that a crash kept from being queued.
        """
        fresh: dict[tuple[bytes, bytes], tuple[Lease, Link, str]] = {}
        for lease, links in found:
            again = lease.receives > 1
            for link in links if again else self.seen.unseen(links):
                key = (link.digest, lease.digest if again else b"")
                if key not in fresh:
                    fresh[key] = (lease, link, urls.hostname(link.url))
        await self.scope.prepare(self._names(host)[0] for _, _, host in fresh.values())
        wanted = [
            (lease, link, host)
            for lease, link, host in fresh.values()
            if self.scope.inside(self._names(host)[0]) and self.filters.allow(link.url)
        ]
        # What a worker skipped by what it knew is skipped here too: it may not have lived to write the row.
        repeated = [link.url for lease, link, _ in wanted if lease.receives > 1]
        await self._robots.recall(repeated)
        judged = await self.traps.recall(repeated)
        pages = [self._page(lease, link, host, judged) for lease, link, host in wanted]
        await self.traps.tell()
        return pages

    def near_duplicate_of(self, lease: Lease, parsed: ParsedPage) -> str | None:
        """The page for whose sake this page's links are not followed: one of its host, with almost the same text, whose
        links were. None where they are followed; then the page may be such a one for others.

        A page that was handed out before is never a near duplicate: its links may have been added in part by a worker
        that died. Nor is a seed: its links were asked for.
        """
        if parsed.simhash is None or not self._settings.skip_near_duplicates:
            return None
        self.near = self.near or NearDuplicates()
        host = urls.hostname(lease.url)
        original = self.near.find(host, parsed.simhash)
        if original is None:
            # Where no link is followed, none is followed in another page's stead.
            if parsed.links and (self._settings.max_depth is None or lease.depth < self._settings.max_depth):
                self.near.add(host, parsed.simhash, lease.url)
            return None
        if original == lease.url or lease.receives > 1 or not lease.parent_url:
            return None
        self.near.leave_out(len(parsed.links))
        return original

    def redirect(self, lease: Lease, target: str) -> Page | None:
        """The page for a redirect's target, unless it is known. Scope and filters are checked when it is claimed, so
        that leaving the scope shows in the ledger. It is as deep as the page itself, but for redirects that count on:
        else they would lead nowhere for ever. A target too long to be passed on is no page."""
        if len(target) > urls.MAX_HREF:
            return None
        digest = self.keys.digest(target)
        if digest in self.seen and lease.receives == 1:
            return None
        depth = lease.depth + traps.counts_on(target, lease.url, lease.parent_url, self.keys)
        skip = "url-too-long" if urls.too_long(target) else self._trap(lease, target, depth)
        return self._make(lease, target, digest, depth, self._names(urls.hostname(target))[1], skip)

    def _page(self, lease: Lease, link: Link, host: str, judged: Mapping[str, str]) -> Page:
        depth = lease.depth + 1
        if urls.too_long(link.url):
            skip = "url-too-long"
        elif self._settings.max_depth is not None and depth > self._settings.max_depth:
            skip = "max-depth"
        elif self._robots.disallowed(link.url):
            skip = "robots"
        elif not (skip := self._trap(lease, link.url, depth)):
            skip = judged.get(link.url, "") if lease.receives > 1 else self.traps.judge(link.url)
        return self._make(lease, link.url, link.digest, depth, self._names(host)[1], skip)

    def _trap(self, lease: Lease, url: str, depth: int) -> str:
        return traps.trap(url, depth, lease.url, lease.parent_url, time.gmtime().tm_year, self.keys)

    def _make(self, lease: Lease, url: str, digest: bytes, depth: int, gate: str, skip: str) -> Page:
        parent = Parent(lease.digest, lease.url, lease.receives > 1)
        return Page(url, digest, gate, depth, self._boosts.priority(url, lease), parent=parent, skip=skip)

    def _names(self, host: str) -> tuple[str, str]:
        """Site and gate of a host, remembered."""
        names = self._hosts.get(host)
        if names is None:
            if len(self._hosts) > SCOPE_LIMIT:
                self._hosts.clear()
            names = (urls.site_name(host, self._settings.scope), urls.gate_name(host, self._settings.pace_by))
            self._hosts[host] = names
        return names


def seed_page(url: str, settings: CrawlSettings, *, depth: int = 0, priority: int = Priority.NORMAL) -> Page | None:
    """The page for a seed, boosted; None when the text is no http(s) URL that can be fetched."""
    wire = urls.resolve(url, url)
    if wire is None or len(wire) > urls.MAX_HREF:
        return None
    host = urls.hostname(wire)
    return Page(
        wire,
        keys_of(settings).digest(wire),
        urls.gate_name(host, settings.pace_by),
        depth,
        priority - _boosts(settings).places(wire),
        site=urls.site_name(host, settings.scope),
    )


@lru_cache(maxsize=16)
def _boosts(settings: CrawlSettings) -> Boosts:
    return Boosts(settings)
