"""The arithmetic of turns: how many may be taken at a gate, and what makes it slow."""

from __future__ import annotations

import sys

import pytest

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch
from crawler.model import Health, Phase, Why
from crawler.state.aws.pacing import Gate, Pace, gate, host, pace
from crawler.state.aws.records import n

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
TWICE = Pace(interval=1.0, cap=2)


def flights(*ends: float) -> tuple[tuple[str, int], ...]:
    """Requests in flight that count until so many seconds from now."""
    return tuple((str(i), NOW + round(end * SECOND)) for i, end in enumerate(ends))


@pytest.mark.parametrize(
    ("latest", "ends", "prompt", "room"),
    [
        (-1.0, (), False, 2),  # all turns older than three quarters of a step: what of them is in flight is known
        (-0.75, (), False, 2),
        (-0.7, (), False, 1),  # perhaps a request by now of which nobody knows
        (0.6, (), False, 0),  # and one before it, that starts within three quarters of a step before now
        (0.2, (), False, 1),
        (-1.0, (9.0,), False, 1),
        (-0.4, (9.0,), False, 0),
        (-1.0, (9.0, 9.0), False, 0),
        (-1.0, (9.0, 0.0, -5.0), False, 1),  # two that have died with their process
        (9.0, (), True, sys.maxsize),  # turns are taken ahead of the answers
        (9.0, (9.0,), True, sys.maxsize),
        (-9.0, (9.0, 9.0), True, 0),
    ],
)
def test_turns_are_for_requests_that_have_room(latest: float, ends: tuple[float, ...], prompt: bool, room: int) -> None:
    seen = Gate(last=NOW + round(latest * SECOND), flights=flights(*ends), health=Health(prompt=prompt))
    assert seen.room(TWICE, NOW) == room


def test_a_crawl_without_a_rate_counts_no_requests() -> None:
    assert Gate(flights=flights(9.0, 9.0)).room(pace(CrawlSettings(rate=0.0, in_flight_per_host=1)), NOW) == sys.maxsize
    assert pace(CrawlSettings(rate=4.0, in_flight_per_host=3)) == Pace(0.25, 3)


@pytest.mark.parametrize("cap", [1, 2, 3, 7])
@pytest.mark.parametrize("ahead", [0, 1, 499_999, 500_000, 500_001, 999_999, 2_700_001])
@pytest.mark.parametrize("step", [1.0, 0.333333, 7.000001])
def test_room_is_foretold_to_the_microsecond(cap: int, ahead: int, step: float) -> None:
    seen, wanted = Gate(last=NOW + ahead), Pace(step, cap)
    at = seen.room_at(wanted, NOW)
    assert seen.room(wanted, at) >= 1
    if at > NOW:
        assert seen.room(wanted, at - 2) == 0


def test_a_full_gate_is_looked_at_again_a_step_later() -> None:
    assert Gate(last=NOW - 9 * SECOND, flights=flights(60.0, 60.0)).room_at(TWICE, NOW) == NOW + SECOND


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (Gate(), Why.DEFAULT),
        (Gate(interval=SECOND // 2), Why.DEFAULT),
        (Gate(interval=3 * SECOND), Why.CRAWL_DELAY),
        (Gate(interval=3 * SECOND, health=Health(gap=4.0)), Why.RESPONSE_TIME),
        (Gate(health=Health(gap=4.0, why=Why.BACKOFF)), Why.BACKOFF),
        (Gate(held=NOW + 9 * SECOND, why=Why.RETRY_AFTER), Why.RETRY_AFTER),
        (Gate(held=NOW - 1, why=Why.RETRY_AFTER), Why.DEFAULT),
        (Gate(last=NOW, interval=9 * SECOND, held=NOW + 8 * SECOND, why=Why.RETRY_AFTER), Why.CRAWL_DELAY),
        (
            Gate(held=NOW + 9 * SECOND, why=Why.RETRY_AFTER, health=Health(down_until=NOW / SECOND + 1)),
            Why.DOWN,
        ),
        (Gate(interval=3 * SECOND, health=Health(down_until=NOW / SECOND)), Why.CRAWL_DELAY),
    ],
)
def test_why_a_gate_is_slow(seen: Gate, why: Why) -> None:
    line = host("a.example", seen, TWICE, {Phase.PENDING: 3, Phase.DONE: 2}, NOW)
    assert (line.why, line.pending, line.leased, line.done) == (why, 3, 0, 2)


def test_a_gate_that_another_version_wrote_is_a_mismatch() -> None:
    for item in ({"health": {"B": b"\xc1"}}, {"why": {"S": "mood"}}):
        with pytest.raises(StateMismatch, match="another version"):
            gate({"last": n(1), **item}, 0.0)
