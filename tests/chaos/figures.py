"""The figures of a practice run, and what must be true of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from crawler.gate import patience
from tests.local_site import Request

STAMPED = 0.15
"""Seconds by which the site's log may stamp a request late: it is one process on a machine that others keep busy."""

SHOWN = 3
"""URLs named in a sentence about many."""


class Figures(msgspec.Struct, kw_only=True):
    """What was counted. URLs are in the site's canonical form.

    pages: URLs that the crawl must answer. seconds: from the first worker's start to the last one's end.
    kills, in_flight: workers killed, and the most pages that one of them can have fetched and not settled.
    missing_at_exit: pages not answered yet when the first worker left by itself. stalled: it had to be ended.
    ended: what is wrong with workers' endings. said: what they reported of faults of their own.
    requests: sent to the site, robots.txt included. refetched: fetches of a page beyond the first.
    unfetched, unasked: URLs never fetched, and URLs fetched that should not be.
    rate, busiest, ahead: requests a second to one host, as they should be at most, and as they were in the busiest
    second; and how many seconds a host was ahead of its rate at most.
    discovered, done, dead, leases: by the ledger; `leases` are pages leased or pending at the end.
    swept: pages that had to be queued again because a crash had left them on no queue.
    rows, doubled: merged rows, and those of a URL that has one already.
    lost, strange: URLs that are not among the rows as done, and those that should not be.
    faults: sentences of `verify`.
    """

    pages: int
    seconds: float
    kills: int
    in_flight: int
    missing_at_exit: int
    stalled: bool
    ended: list[str]
    said: list[str]
    requests: int
    unfetched: list[str]
    unasked: list[str]
    refetched: int
    rate: float
    busiest: int
    ahead: float
    discovered: int
    done: int
    dead: int
    leases: int
    swept: int
    rows: int
    lost: list[str]
    strange: list[str]
    doubled: int
    faults: list[str]

    def failures(self, kills: int) -> list[str]:
        """A sentence for everything that must not be; `kills` were wanted."""
        wrong = [
            (self.stalled, "the crawl did not end by itself"),
            (self.kills < kills, f"only {self.kills} of {kills} kills found a worker"),
            (self.missing_at_exit, f"a worker left when {self.missing_at_exit} pages had not been fetched"),
            (self.unfetched, f"{_some(self.unfetched)} never fetched"),
            (self.unasked, f"{_some(self.unasked)} fetched, which should not be"),
            (self.lost, f"{_some(self.lost)} lost: no row says done"),
            (self.strange, f"{_some(self.strange)} done by the rows, which should not be"),
            (self.done != self.pages, f"the ledger says {self.done} done, not {self.pages}"),
            (self.dead, f"{self.dead} pages are dead letters"),
            (self.leases, f"{self.leases} pages are still leased or pending"),
            (self.swept, f"{self.swept} pages were recorded and on no queue"),
            (self.doubled, f"{self.doubled} rows too many for their URLs"),
            (self.rows != self.discovered, f"{self.rows} rows for {self.discovered} pages discovered"),
            (
                self.refetched > self.kills * self.in_flight,
                f"{self.refetched} fetches too many: more than {self.kills} kills x {self.in_flight} in flight",
            ),
            (
                self.busiest > self.allowed,
                f"a host got {self.busiest} requests within a second, its rate allows {self.allowed}",
            ),
        ]
        verified = [f"verify: {fault}" for fault in self.faults]
        return [sentence for fails, sentence in wrong if fails] + self.ended + self.said + verified

    @property
    def allowed(self) -> int:
        """Requests that a host may see in any second: its turns in it, and turns before it that were used late."""
        return int(self.rate * (1 + patience(1 / self.rate) + STAMPED)) + 1

    def lines(self) -> Iterable[str]:
        """The figures for people."""
        yield f"pages           {self.done:,} of {self.pages:,} done, {len(self.lost)} lost, {self.dead} dead"
        yield f"rows            {self.rows:,} for {self.discovered:,} pages found, {self.doubled} doubled"
        yield f"kills           {self.kills} of worker processes; the crawl ended by itself after {self.seconds:.0f} s"
        yield (
            f"fetched again   {self.refetched} of {self.requests:,} requests; "
            f"the bound is {self.kills} kills x {self.in_flight} in flight = {self.kills * self.in_flight:,}"
        )
        yield (
            f"busiest second  {self.busiest} requests to one host at a rate of {self.rate:g} "
            f"(allowed {self.allowed}); never ahead of it by more than {self.ahead * 1000:.0f} ms"
        )
        yield f"left over       {self.leases} leases, {self.swept} pages for the sweep"
        yield f"verify          {'sound' if not self.faults else f'{len(self.faults)} faults'}"


def _some(urls: Sequence[str]) -> str:
    named = ", ".join(urls[:SHOWN])
    return f"{len(urls)} pages ({named}{', ...' if len(urls) > SHOWN else ''})"


def busiest_second(requests: Iterable[Request]) -> int:
    """The most requests that any one host got in a second, wherever that second begins."""
    most = 0
    for times in arrivals(requests):
        first = 0
        for last, at in enumerate(times):
            while times[first] <= at - 1:
                first += 1
            most = max(most, last - first + 1)
    return most


def ahead(requests: Iterable[Request], rate: float) -> float:
    """Seconds by which any host was ahead of its rate at most: n + 1 requests need n / rate seconds."""
    most = 0.0
    for times in arrivals(requests):
        lead = 0.0
        for before, at in pairwise(times):
            lead = max(0.0, lead + 1 / rate - (at - before))
            most = max(most, lead)
    return most


def arrivals(requests: Iterable[Request]) -> Iterable[list[float]]:
    """The times of each host's requests, in order."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for request in requests:
        times[request.host].append(request.at)
    return [sorted(host) for host in times.values()]
