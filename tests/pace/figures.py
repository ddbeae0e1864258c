"""What a log of requests says about politeness. Pure functions; times are seconds of one clock."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tests.pace.site import Request

OBEYED = 1.0
"""Seconds within which the whole fleet must know that a host wants to be left alone."""


def by_host(requests: Iterable[Request]) -> Mapping[str, list[Request]]:
    """Each host's requests, in their order."""
    hosts: defaultdict[str, list[Request]] = defaultdict(list)
    for request in requests:
        hosts[request.host].append(request)
    return hosts


def within(requests: Iterable[Request], begin: float, end: float) -> list[Request]:
    """Those that arrived from `begin` on and before `end`."""
    return [request for request in requests if begin <= request.arrived < end]


def busiest_second(requests: Sequence[Request]) -> int:
    """The most requests that arrived within a second, wherever that second begins. `requests` are one host's."""
    most = first = 0
    for last, request in enumerate(requests):
        while requests[first].arrived <= request.arrived - 1:
            first += 1
        most = max(most, last - first + 1)
    return most


def allowed(rate: float) -> int:
    """Requests that a host may see in any second: its rate and one more."""
    return math.ceil(rate) + 1


def average(requests: Sequence[Request]) -> float:
    """Requests a second from the first to the last; 0 for less than two."""
    if len(requests) < 2:
        return 0.0
    return (len(requests) - 1) / (requests[-1].arrived - requests[0].arrived)


def share(requests: Sequence[Request], rate: float, end: float) -> float:
    """Of the turns that the rate allows from the first request on and before `end`, the part that was used."""
    if not requests:
        return 0.0
    return len(requests) / (math.floor(rate * (end - requests[0].arrived)) + 1)


def lost(requests: Sequence[Request], rate: float, begin: float, end: float) -> float:
    """Turns between two times that were not used; one more or less is where the window's edges fall."""
    return rate * (end - begin) - len(within(requests, begin, end))


def most_in_flight(requests: Iterable[Request]) -> int:
    """The most requests that were open at a time. One that came when another left does not overlap it."""
    changes = [(request.arrived, 1) for request in requests] + [(request.left, -1) for request in requests]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


class Pause(msgspec.Struct, frozen=True):
    """What followed when a host asked to be left alone. `resumed`: seconds from that answer to the first request after
    the time it asked for (infinite: none came). `strayed`: requests within that time, later than OBEYED."""

    resumed: float
    strayed: int


def pause(requests: Sequence[Request], status: int, seconds: float) -> Pause | None:
    """The pause after a host's first answer with this status, which asked for so many seconds; None without one.

    Arrivals are noted by the server's clock and the pause by the worker's, so an arrival may be early by as long as the
    answer travelled: that is left to the caller.
    """
    refused = next((request.left for request in requests if request.status == status), None)
    if refused is None:
        return None
    later = [request.arrived - refused for request in requests if request.arrived > refused]
    strayed = sum(OBEYED < after < seconds for after in later)
    return Pause(next((after for after in later if after >= seconds), math.inf), strayed)
