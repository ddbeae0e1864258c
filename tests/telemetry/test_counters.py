"""What a process counts comes out once, under its name, and as few numbers as a line of metrics may hold."""

from __future__ import annotations

import random

import pytest

from crawler.fetched import Response
from crawler.model import dead, defer, done, retry, skipped
from crawler.telemetry.counters import Counters
from crawler.telemetry.emf import MOST_VALUES, Distribution
from crawler.telemetry.names import Fleet


def answer(status: int = 200, seconds: float = 0.1, body: bytes = b"") -> Response:
    return Response(
        url="http://h/",
        status=status,
        reason="",
        version="HTTP/1.1",
        headers=(),
        stored=b"",
        body=body,
        fetched_at=0.0,
        elapsed=seconds,
    )


def latency(counters: Counters) -> Distribution:
    taken = counters.take()[Fleet.LATENCY]
    assert isinstance(taken, Distribution)
    return taken


def test_each_ending_is_counted_under_its_name() -> None:
    counters = Counters()
    for verdict in (
        done(5),
        done(7),
        skipped("robots"),
        skipped("max-depth"),
        dead("dns", "no such host"),
        retry(0.0, "timeout", "too slow"),
        defer(0.0),
        defer(0.0, again=True),
    ):
        counters.settled(verdict)
    assert counters.take() == {
        Fleet.PAGES: 5,
        Fleet.SKIPPED: 2,
        Fleet.ROBOTS_BLOCKED: 1,
        Fleet.DEAD: 1,
        Fleet.RETRIED: 1,
        Fleet.DEFERRED: 2,
    }


def test_a_new_link_is_counted_and_one_that_is_skipped_at_once_is_a_page_that_ended() -> None:
    counters = Counters()
    for skip in ("", "", "robots", "trap"):
        counters.discovered(skip)
    assert counters.take() == {Fleet.PAGES: 2, Fleet.DISCOVERED: 4, Fleet.SKIPPED: 2, Fleet.ROBOTS_BLOCKED: 1}


def test_answers_are_counted_by_the_class_of_their_status() -> None:
    counters = Counters()
    for status in (200, 204, 301, 404, 410, 429, 500, 999, 100):
        counters.answered(answer(status, body=b"x" * 10))
    taken = counters.take()
    answers = (Fleet.ANSWERED_2XX, Fleet.ANSWERED_3XX, Fleet.ANSWERED_4XX, Fleet.ANSWERED_5XX)
    assert [taken[name] for name in answers] == [2, 1, 3, 1]
    assert taken[Fleet.BYTES] == 90


def test_what_was_taken_is_not_told_again_and_pages_are_told_even_when_there_are_none() -> None:
    counters = Counters()
    counters.settled(done())
    counters.answered(answer())
    assert len(counters.take()) > 1
    assert counters.take() == {Fleet.PAGES: 0}
    assert counters.pages == 1


@pytest.mark.parametrize("milliseconds", [1.0, 1.5, 7.0, 99.0, 1234.5, 30_000.0, 88_000.0])
def test_a_latency_is_told_within_six_percent(milliseconds: float) -> None:
    counters = Counters()
    counters.answered(answer(seconds=milliseconds / 1000))
    assert latency(counters).values[0] == pytest.approx(milliseconds, rel=0.06)


def test_latencies_of_any_size_are_at_most_a_hundred_values_and_none_is_lost() -> None:
    counters, rolled = Counters(), random.Random(1)
    many = [0.0, -0.5, 1e6, *(10 ** rolled.uniform(-6, 4) for _ in range(5000))]
    for seconds in many:
        counters.answered(answer(seconds=seconds))
    told = latency(counters)
    assert 90 < len(told.values) <= MOST_VALUES
    assert sum(told.counts) == told.count == len(many)
    assert (told.min, told.max) == (1.0, told.values[-1])
