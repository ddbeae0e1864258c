"""A host gate as its item tells it, and the arithmetic of turns. Pure; times are whole microseconds."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch
from crawler.model import WELL, Health, HostState, Phase, Why
from crawler.state.aws.records import Item, micros, number, text

FLIGHT = "flight#"
"""Each request in flight is an attribute of its own, so that it is written and removed without being read first."""


class Pace(msgspec.Struct, frozen=True, gc=False):
    """What a crawl asks of a gate: seconds between turns (0: none), and requests in flight at most (0: any number)."""

    interval: float = 0.0
    cap: int = 0


def pace(settings: CrawlSettings) -> Pace:
    return Pace(settings.interval, settings.in_flight_per_host if settings.rate else 0)


class Gate(msgspec.Struct, frozen=True, gc=False):
    """A gate as last seen at `seen_at` (the reader's clock, seconds). All zero: no item yet.

    last: start of the latest turn taken. interval: the gate's own, a Crawl-delay. held: no turn before it; `why` says
    for what. flights: requests that take long, each with the time until which it counts.
    revision: one more with every write; a turn is taken only from a gate that is still as it was seen.
    """

    last: int = 0
    interval: int = 0
    held: int = 0
    why: Why = Why.BACKOFF
    health: Health = WELL
    flights: tuple[tuple[str, int], ...] = ()
    revision: int = 0
    seen_at: float = 0.0

    def step(self, pace: Pace) -> int:
        """Between two turns, for a crawl of this pace."""
        return max(micros(pace.interval), self.interval, micros(self.health.gap))

    def next(self, step: int) -> int:
        """Start of the next turn for a caller that keeps `step` between turns; in the past when it may be now."""
        return max(self.held, self.last + step if self.last and step else 0)

    def down(self, now: int) -> bool:
        """Whether the host was given up."""
        return micros(self.health.down_until) > now

    def room(self, pace: Pace, now: int) -> int:
        """How many turns may be taken now as far as requests in flight go.

        A request is reported once it is older than half a step, and the report takes a while. So those older than
        three quarters are known; of the turns since, each may have become a request that takes long, unless the host
        is known to answer promptly.
        """
        free = pace.cap - self._occupants(now)
        if not pace.cap or (free > 0 and self.health.prompt):
            return sys.maxsize
        step = self.step(pace)
        since = now - lately(step)
        recent = (self.last - since) // step + 1 if self.last > since else 0
        return max(0, free - recent)

    def room_at(self, pace: Pace, now: int) -> int:
        """From when on there is room for a turn, as far as is known: when a request ends nobody knows before."""
        if self.room(pace, now):
            return now
        step = self.step(pace)
        free = pace.cap - self._occupants(now)
        return self.last + lately(step) - (free - 1) * step + 1 if free > 0 else now + step

    def expired(self, now: int) -> list[str]:
        """Flights that no longer count."""
        return [flight for flight, until in self.flights if until <= now]

    def reason(self, pace: Pace, now: int) -> Why:
        """What makes the gate as slow as it is for a crawl of this pace."""
        if self.down(now):
            return Why.DOWN
        step = self.step(pace)
        if self.held > now and self.held == self.next(step):
            return self.why
        if step == micros(pace.interval):
            return Why.DEFAULT
        return Why.CRAWL_DELAY if step == self.interval else self.health.why

    def _occupants(self, now: int) -> int:
        return sum(until > now for _, until in self.flights)


def host(name: str, gate: Gate, pace: Pace, pages: Mapping[Phase, int], now: int) -> HostState:
    """A gate as a crawl of this pace sees it, with how many of its pages behind it are in which phase."""
    step = gate.step(pace)
    return HostState(
        gate=name,
        next_at=max(gate.next(step) / 1_000_000, gate.health.down_until),
        interval=step / 1_000_000,
        why=gate.reason(pace, now),
        pending=pages.get(Phase.PENDING, 0),
        leased=0,
        done=pages.get(Phase.DONE, 0),
        failures=gate.health.failures,
        error=gate.health.error,
    )


def gate(item: Item | None, seen_at: float) -> Gate:
    """A gate from its item; None for one without."""
    if not item:
        return Gate(seen_at=seen_at)
    flights = [(name.removeprefix(FLIGHT), number(item, name)) for name in item if name.startswith(FLIGHT)]
    try:
        why = Why(text(item, "why")) if "why" in item else Why.BACKOFF
        health = msgspec.msgpack.decode(item["health"]["B"], type=Health) if "health" in item else WELL
    except (ValueError, msgspec.DecodeError) as error:
        raise StateMismatch(f"a gate was written by another version of the crawler: {error}") from None
    return Gate(
        last=number(item, "last"),
        interval=number(item, "interval"),
        held=number(item, "held"),
        why=why,
        health=health,
        flights=tuple(flights),
        revision=number(item, "revision"),
        seen_at=seen_at,
    )


def lately(step: int) -> int:
    """How long ago a turn may have started and still be a request of which nobody knows yet that it takes long."""
    return step * 3 // 4
