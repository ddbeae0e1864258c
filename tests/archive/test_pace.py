"""Pace: rows of a polite crawl pass, whatever their jitter; more requests than the rate permits show."""

from __future__ import annotations

import random

import msgspec
import pytest

from crawler.archive import pace
from crawler.archive.pace import Excess, Pace, excess
from crawler.gate import patience
from tests.archive.making import START, crawl

RATES = [0.1, 0.5, 1.0, 2.5, 10.0, 200.0]


def turns(count: int, rate: float) -> list[float]:
    return [START + number / rate for number in range(count)]


@pytest.mark.parametrize("rate", RATES)
def test_what_workers_may_be_late_is_within_the_tolerance(rate: float) -> None:
    assert patience(1 / rate) < 1 / rate + pace.SLACK


@pytest.mark.parametrize("rate", RATES)
def test_turns_in_time_or_late_as_workers_may_use_them_are_no_excess(rate: float) -> None:
    assert excess(turns(1000, rate), rate) is None
    random_ = random.Random(1)
    for _ in range(50):
        late = sorted(at + random_.random() * (1 / rate + pace.SLACK) for at in turns(300, rate))
        assert excess(late, rate) is None


@pytest.mark.parametrize("rate", RATES)
def test_one_request_more_is_permitted_and_two_more_are_an_excess(rate: float) -> None:
    times = turns(500, rate)
    one = sorted([*times, times[250] + 0.01 / rate])
    assert excess(one, rate) is None
    more = [times[250] + 0.02 / rate] * (1 + int(pace.SLACK * rate))
    found = excess(sorted([*one, *more]), rate)
    assert found is not None
    assert found.since <= times[250] <= found.since + found.seconds
    assert found.requests > found.seconds * rate + 1


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_exceeded_a_little_for_long_is_an_excess(rate: float) -> None:
    assert excess(turns(2000, rate * 1.1), rate) is not None
    assert excess(turns(2000, rate * 0.999), rate) is None


def test_an_excess_names_the_requests_its_length_and_its_beginning() -> None:
    assert excess([10.0, 11.0, 20.0, 20.25, 20.5, 30.0], 1.0) == Excess(3, 0.5, 20.0)
    assert excess([], 1.0) is None
    assert excess([1.0], 1.0) is None


def test_hosts_of_one_gate_count_together() -> None:
    for pace_by, faults in (("domain", 1), ("host", 0)):
        times = Pace(crawl(rate=1.0, pace_by=pace_by))
        for number in range(10):
            times.add("a.example.com", START + number)
            times.add("b.example.com", START + number + 0.5)
        assert times.requests == 20
        found = list(times.faults())
        assert len(found) == faults
        assert all(text.startswith("example.com was asked ") for text in found)


def test_without_a_rate_or_before_it_was_amended_nothing_is_compared() -> None:
    amended = msgspec.structs.replace(crawl(rate=1.0), amended_at=START)
    for times in (Pace(crawl(rate=0.0)), Pace(amended)):
        for _ in range(10):
            times.add("site.test", START + pace.FOLLOWING - 1)
        assert times.requests == 0
        assert list(times.faults()) == []
