"""How links become pages: which of them are new to a process, and which to the crawl. Pure; a walk over random sites.

A process asks the visited set about each URL that it meets first, once; a fleet of n about most URLs n times. So the
look-ups of a page follow from the links, the size of the sites and the workers. How many requests it takes depends on
how they come: at the beginning hundreds at once, later one now and then. That is walked through and counted.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterable

import msgspec

NAVIGATION = 0.4
"""Share of a page's links that are its site's navigation: on every page the same."""

ABROAD = 0.1
"""Share of the others that lead to another site of the crawl."""

MOST = 20_000
"""Pages of a walk: of a larger crawl some of its sites are walked through."""

STATEMENTS, KEYS, MESSAGES = 25, 100, 10
"""What DynamoDB and SQS take in one request."""


class Walk(msgspec.Struct):
    """Sums over all pages walked. `asked` are the keys looked up, `new` the pages found; the others are requests:
    `booked` those for pages of a site that has more than `ahead` waiting, one a site and batch."""

    pages: int = 0
    asked: int = 0
    new: int = 0
    looks: int = 0
    inserts: int = 0
    counts: int = 0
    sends: int = 0
    booked: int = 0


def navigation(links: int) -> int:
    """How many of a page's links are its site's navigation."""
    return round(links * NAVIGATION)


def walk(pages: int, hosts: int, links: int, workers: int, batch: float, ahead: float, listed: float) -> Walk:
    """Crawl sites of equal size by workers, each adding the links of about `batch` pages at once.

    `ahead` are the pages of a paced site that are sent at once; 0: the sites are not paced. `listed` is the share of a
    site's pages that its sitemap lists, which is read with the site's first page.
    """
    size = max(1, round(pages / hosts))
    hosts = max(1, min(hosts, MOST // size)) if pages > MOST else hosts
    size, total = min(size, MOST), min(size, MOST) * hosts
    choose = random.Random(1)  # noqa: S311 - the same walk each time
    fixed = [range(first, first + min(size, navigation(links))) for first in range(0, total, size)]
    free = links - navigation(links)
    seen: list[set[int]] = [set() for _ in range(workers)]
    frontier, known = _Frontier(size, in_turn=ahead > 0), {0}
    frontier.add(known)
    sums, due = Walk(), 0.0
    while sums.pages < total:
        if not frontier:  # a site to which no link led
            first = next(page for page in range(0, total, size) if page not in known)
            known.add(first)
            frontier.add([first])
        mine = choose.choice(seen)
        due += batch
        first_pages, others = frontier.take(int(due))
        due -= int(due)
        met: set[int] = set()
        for page in (*first_pages, *others):
            home = page - page % size
            met.update(fixed[page // size])
            for _ in range(free):
                abroad = choose.random() < ABROAD
                met.add(int(choose.random() * total) if abroad else home + int(choose.random() * size))
        sums.pages += len(first_pages) + len(others)
        homes = [page - page % size for page in first_pages] if listed else []
        for links_met in (met, *(set(range(home, home + round(size * listed))) for home in homes)):
            links_met -= mine
            mine |= links_met
            new = sorted(links_met - known)
            known.update(new)
            sums.booked += sum(waiting > ahead for waiting in frontier.add(new))
            sums.asked += len(links_met)
            sums.new += len(new)
            sums.looks += -(-len(links_met) // KEYS)
            sums.inserts += -(-len(new) // STATEMENTS)
            sums.counts += bool(new)
            sums.sends += -(-len(new) // MESSAGES)
    return sums


class _Frontier:
    """Pages that are known and not fetched. The first ones of sites come at once, for nobody waits for a turn yet; then
    sites in turn where they are paced, else first come, first served."""

    def __init__(self, size: int, *, in_turn: bool) -> None:
        self._size, self._in_turn = size, in_turn
        self._first: list[int] = []
        self._begun: set[int] = set()
        self._waiting: dict[int, deque[int]] = defaultdict(deque)
        self._order: deque[int] = deque()

    def __bool__(self) -> bool:
        return bool(self._first or self._order)

    def add(self, pages: Iterable[int]) -> list[int]:
        """Put pages in; answers for each of their sites how many wait there."""
        touched: set[int] = set()
        for page in pages:
            site = page // self._size
            if site not in self._begun:
                self._begun.add(site)
                self._first.append(page)
                continue
            if not self._in_turn or not self._waiting[site]:
                self._order.append(site)
            self._waiting[site].append(page)
            touched.add(site)
        return [len(self._waiting[site]) for site in touched]

    def take(self, most: int) -> tuple[list[int], list[int]]:
        """So many pages: the first ones of sites, and others."""
        first, self._first = self._first[:most], self._first[most:]
        others: list[int] = []
        while self._order and len(first) + len(others) < most:
            site = self._order.popleft()
            others.append(self._waiting[site].popleft())
            if self._in_turn and self._waiting[site]:
                self._order.append(site)
        return first, others
