"""How links become pages: which of them are new to a process, and which to the crawl. Pure; a walk over a random site.

A process asks the visited set about each URL that it meets first, once; a fleet of n about most URLs n times. So the
look-ups of a page follow from the links, the size of the sites and the workers. How many requests it takes depends on
how they come: at the beginning hundreds at once, later one now and then. That is walked through and counted.
"""

from __future__ import annotations

import random
from collections import Counter, deque

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


def walk(pages: int, hosts: int, links: int, workers: int, batch: float, ahead: float, listed: float) -> Walk:
    """Crawl sites of equal size by workers who take turns, each adding the links of about `batch` pages at once.

    `listed`: share of a site's pages that its sitemap lists, which is read with the site's first page.
    """
    size = max(1, round(pages / hosts))
    hosts = max(1, min(hosts, MOST // size)) if pages > MOST else hosts
    size, total = min(size, MOST), min(size, MOST) * hosts
    choose = random.Random(1)  # noqa: S311 - the same walk each time
    fixed = [range(first, first + min(size, max(1, round(links * NAVIGATION)))) for first in range(0, total, size)]
    free = max(1, round(links * (1 - NAVIGATION)))
    known, frontier = {0}, deque([0])
    seen: list[set[int]] = [set() for _ in range(workers)]
    begun: set[int] = set()
    read: set[int] = set()
    sums, waiting, due = Walk(), [0] * hosts, 0.0
    while frontier or sums.pages < total:
        if not frontier:  # a site to which no link led
            first = next(page for page in range(total) if page not in known)
            known.add(first)
            frontier.append(first)
        mine = seen[0]
        seen.append(seen.pop(0))
        due += batch
        taken: list[int] = []
        while frontier and (due >= 1 or frontier[0] // size not in begun):
            # The first pages of sites come together: nobody waits for a turn yet.
            due -= frontier[0] // size in begun
            begun.add(frontier[0] // size)
            taken.append(frontier.popleft())
        met: set[int] = set()
        adding = [met]
        for page in taken:
            site, home = page // size, page - page % size
            waiting[site] -= 1
            if site not in read:
                read.add(site)
                adding.append(set(range(home, home + round(size * listed))))
            met.update(fixed[site])
            for _ in range(free):
                abroad = choose.random() < ABROAD
                met.add(int(choose.random() * total) if abroad else home + int(choose.random() * size))
        sums.pages += len(taken)
        for pages_met in adding:
            pages_met -= mine
            mine |= pages_met
            new = pages_met - known
            known |= new
            frontier.extend(new)
            for site, count in Counter(page // size for page in new).items():
                waiting[site] += count
                sums.booked += waiting[site] > ahead
            sums.asked += len(pages_met)
            sums.new += len(new)
            sums.looks += -(-len(pages_met) // KEYS)
            sums.inserts += -(-len(new) // STATEMENTS)
            sums.counts += bool(new)
            sums.sends += -(-len(new) // MESSAGES)
    return sums
