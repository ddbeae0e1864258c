"""Whether each host was asked no faster than the crawl's rate, told from the times in the rows.

A turn at a host's gate comes once an interval and is used less than an interval after its time, by clocks that differ
by SLACK at most. So a stretch of W seconds holds fewer than max(W + SLACK, 1) * rate + 2 requests: one beyond the rate,
however long or short it is. A rate that is exceeded by little but for long shows as surely as a burst.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawler import urls
from crawler.model import CrawlRecord

SLACK = 0.1
"""Seconds by which workers' clocks may differ, and a fast turn may be late (see `crawler/gate.py`)."""

FOLLOWING = 30.0
"""Seconds within which workers follow amended settings."""


class Excess(NamedTuple):
    """Too many requests: how many, within how many seconds, from when on (Unix seconds)."""

    requests: int
    seconds: float
    since: float


def excess(times: Sequence[float], rate: float) -> Excess | None:
    """The first stretch of `times` (ascending) that holds more requests than `rate` a second permits, or None."""
    first = 0  # of the stretch shorter than a second that ends here
    base, least = 0, float("inf")  # where the longer stretches with most requests for their length begin
    for last, at in enumerate(times):
        while times[first] <= at - (1.0 - SLACK):
            credit = first - rate * (times[first] - times[0])
            if credit < least:
                base, least = first, credit
            first += 1
        if last - first + 1 >= rate + 2:
            return Excess(last - first + 1, at - times[first], times[first])
        if last - rate * (at - times[0]) - least >= 1 + SLACK * rate:
            return Excess(last - base + 1, at - times[base], times[base])
    return None


class Pace:
    """The times of all requests of a crawl, by gate: eight bytes each.

    Requests sent before the settings were last amended, or before every worker followed, had another rate.
    """

    def __init__(self, crawl: CrawlRecord) -> None:
        self._rate, self._pace_by = crawl.settings.rate, crawl.settings.pace_by
        self._since = crawl.amended_at + FOLLOWING if crawl.amended_at else 0.0
        self._gates: dict[str, array[float]] = {}
        self._hosts: dict[str, array[float]] = {}

    def add(self, host: str, at: float) -> None:
        """A request to a host, in any order."""
        if not self._rate or at < self._since:
            return
        times = self._hosts.get(host)
        if times is None:
            gate = urls.gate_name(host, self._pace_by)
            times = self._hosts[host] = self._gates.setdefault(gate, array("d"))
        times.append(at)

    @property
    def requests(self) -> int:
        return sum(map(len, self._gates.values()))

    def faults(self) -> Iterator[str]:
        """A sentence for each gate that was passed too fast."""
        for gate, times in self._gates.items():
            found = excess(sorted(times), self._rate)
            if found is not None:
                since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.since))
                yield (
                    f"{gate} was asked {found.requests} times within {found.seconds:.2f} s from {since} on "
                    f"(by the clocks of its workers); the rate is {self._rate:g} a second"
                )
