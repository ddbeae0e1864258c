"""How links become pages: which of them are new to a process, and which to the crawl. Pure; a walk over random sites.

A process asks the visited set about each URL that it meets first, once; a fleet of n about most URLs n times. So the
look-ups of a page follow from the links, the size of the sites and the workers. How many requests it takes depends on
how they come: at the beginning hundreds at once, later one now and then. That is walked through and counted.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict, deque
from collections.abc import Iterable

import msgspec

NAVIGATION = 0.4
"""Share of a page's links that are its site's navigation: on every page the same."""

ABROAD = 0.1
"""Share of the others that lead to another site of the crawl."""

MOST, MOST_LINKS = 20_000, 1_200_000
"""Pages of a walk, and links: of a larger crawl some of its sites are walked through, of larger sites a part."""

STATEMENTS, KEYS, MESSAGES = 25, 100, 10
"""What DynamoDB and SQS take in one request."""

OVERLAP = 0.5
"""Share of the pages that one worker adds where another, which adds at the same time, does not see them yet: its
inserts are refused. Workers whose hosts are paced add few at a time."""

BATCH = 100
"""Pages whose endings are written together at most."""

GATHERING = 0.06
"""Seconds from one batch of endings to the next in a worker on paced hosts: `crawler.settle.GATHER` and the writing."""


class Walk(msgspec.Struct):
    """Sums over all pages walked. `short` are the batches for which there were not enough pages, `asked` the keys
    looked up, `new` the pages found, `refused` those that another worker had found meanwhile, `lines` those of paced
    sites that were read; the others are requests: `rereads` of what was refused, `checks` the reads of lines, `booked`
    the writes for pages of a site of which more were found than are sent at once, one a site and batch."""

    pages: int = 0
    short: int = 0
    asked: int = 0
    new: int = 0
    refused: int = 0
    rereads: int = 0
    looks: int = 0
    inserts: int = 0
    counts: int = 0
    sends: int = 0
    lines: int = 0
    checks: int = 0
    booked: int = 0


def navigation(links: int) -> int:
    """How many of a page's links are its site's navigation."""
    return round(links * NAVIGATION)


def walk(pages: int, hosts: int, links: int, workers: int, pace: float, ahead: float, listed: float) -> Walk:
    """Crawl sites of equal size by workers, each fetching `pace` pages a second; 0: as many as it can.

    `ahead` are the pages of a paced site that a process sends at once; 0: the sites are not paced. `listed` is the
    share of a site's pages that its sitemap lists, which is read with the site's first page.
    """
    most = max(1, min(MOST, MOST_LINKS // links))
    size = max(1, round(pages / hosts))
    hosts = max(1, min(hosts, most // size)) if pages > most else hosts
    size, total = min(size, most), min(size, most) * hosts
    choose = random.Random(1)  # noqa: S311 - the same walk each time
    fixed = [range(first, first + min(size, navigation(links))) for first in range(0, total, size)]
    free = links - navigation(links)
    fleet = [_Worker() for _ in range(workers)]
    frontier, known = _Frontier(size, in_turn=ahead > 0), {0}
    frontier.add(known)
    sums, booked = Walk(), set[int]()
    before, unseen = fleet[0], set[int]()
    unlinked = itertools.chain(range(0, total, size), range(total))
    while sums.pages < total:
        if not frontier:  # a site to which no link led, or a page
            first = next(page for page in unlinked if page not in known)
            known.add(first)
            frontier.add([first])
        worker = choose.choice(fleet)
        most = worker.batch(pace)
        first_pages, others = frontier.take(most)
        sums.short += len(first_pages) + len(others) < most
        met: set[int] = set()
        for page in (*first_pages, *others):
            home = page - page % size
            met.update(fixed[page // size])
            for _ in range(free):
                abroad = choose.random() < ABROAD
                met.add(int(choose.random() * total) if abroad else home + int(choose.random() * size))
        sums.pages += len(first_pages) + len(others)
        adding: set[int] = set()
        homes = [page - page % size for page in first_pages] if listed else []
        for links_met in (met, *(set(range(home, home + round(size * listed))) for home in homes)):
            links_met -= worker.seen
            worker.seen |= links_met
            new = sorted(links_met - known)
            late = 0 if pace or worker is before else round(OVERLAP * len(links_met & unseen))
            known.update(new)
            adding.update(new)
            frontier.add(new)
            if ahead:
                _book(sums, worker, Counter(page // size for page in new), ahead, booked)
            sums.asked += len(links_met)
            sums.new += len(new)
            sums.looks += -(-len(links_met) // KEYS)
            sums.refused += late
            sums.rereads += bool(late)
            sums.inserts += -(-(len(new) + late) // STATEMENTS)
            sums.counts += bool(new)
            sums.sends += -(-len(new) // MESSAGES)
        before, unseen = worker, adding
    return sums


def _book(sums: Walk, worker: _Worker, sending: Counter[int], ahead: float, booked: set[int]) -> None:
    """Pages of paced sites are sent at once, so many by a process that knows of none who does otherwise; the others are
    booked at the site's line, which is read when it is met first."""
    unmet = sending.keys() - worker.sent.keys()
    sums.lines += len(unmet)
    sums.checks += bool(unmet)
    worker.sent |= {site: ahead if site in booked else 0 for site in unmet}
    for site, pages in sending.items():
        worker.sent[site] += pages
        if worker.sent[site] > ahead:
            booked.add(site)
            sums.booked += 1


class _Worker:
    """What a process has seen: URLs, and paced sites, each with how many of its pages it sent."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.sent: dict[int, float] = {}
        self._due = 0.0

    def batch(self, pace: float) -> int:
        """Pages whose endings come together: those that ended since the ones before. A worker that fetches as many as
        it can has as many as it may."""
        self._due += min(BATCH, 1 + pace * GATHERING) if pace else BATCH
        whole = int(self._due)
        self._due -= whole
        return whole


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

    def add(self, pages: Iterable[int]) -> None:
        """Put pages in."""
        for page in pages:
            site = page // self._size
            if site not in self._begun:
                self._begun.add(site)
                self._first.append(page)
                continue
            if not self._in_turn or not self._waiting[site]:
                self._order.append(site)
            self._waiting[site].append(page)

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
