"""What the figures of politeness count."""

from __future__ import annotations

import math

import pytest

from tests.pace import fairness, figures
from tests.pace.fairness import Contest, Kind, Result
from tests.pace.figures import Pause
from tests.pace.site import Request


def arriving(*times: float, took: float = 0.0, host: str = "a", status: int = 200) -> list[Request]:
    return [Request(at, at + took, host, status, f"/{number}") for number, at in enumerate(times)]


def test_the_busiest_second_begins_anywhere() -> None:
    assert figures.busiest_second(arriving(0.0, 0.7, 0.9, 1.1, 1.6, 1.71)) == 4
    assert figures.busiest_second([]) == 0


def test_what_is_a_whole_second_later_is_not_in_it() -> None:
    assert figures.busiest_second(arriving(0.0, 1.0, 2.0)) == 1
    assert figures.busiest_second(arriving(0.0, 0.999, 1.998)) == 2


@pytest.mark.parametrize(("rate", "most"), [(2, 3), (0.1, 2), (2.5, 4)])
def test_one_request_beyond_the_rate_is_allowed(rate: float, most: int) -> None:
    assert figures.allowed(rate) == most


def test_an_average_is_of_the_gaps() -> None:
    assert figures.average(arriving(10.0, 10.5, 11.0)) == 2.0
    assert figures.average(arriving(10.0)) == 0.0


def test_a_share_is_of_the_turns_since_the_first_request() -> None:
    every_turn = arriving(10.0, 10.5, 11.0, 11.5)
    assert figures.share(every_turn, rate=2, end=11.9) == 1.0
    assert figures.share(every_turn, rate=2, end=13.9) == 0.5
    assert figures.share([], rate=2, end=13.9) == 0.0


def test_turns_are_lost_within_a_window() -> None:
    assert figures.lost(arriving(0.0, 0.5, 1.0, 3.0), rate=2, begin=0.0, end=3.0) == 3.0


def test_requests_in_flight_overlap() -> None:
    assert figures.most_in_flight(arriving(0.0, 1.0, 2.0, took=2.5)) == 3
    assert figures.most_in_flight(arriving(0.0, 1.0, 2.0, took=0.9)) == 1


def test_a_request_that_comes_as_another_leaves_does_not_overlap_it() -> None:
    assert figures.most_in_flight(arriving(0.0, 1.0, 2.0, took=1.0)) == 1


def test_a_pause_begins_at_the_refusal_and_ends_with_the_next_request_after_its_time() -> None:
    before, refused = arriving(0.0, 1.0), arriving(2.0, took=0.5, status=429)
    assert figures.pause(before + refused + arriving(2.9, 7.75), 429, 5.0) == Pause(resumed=5.25, strayed=0)


def test_requests_later_than_a_second_within_a_pause_strayed() -> None:
    refused = arriving(2.0, status=429)
    assert figures.pause(refused + arriving(2.9, 3.1, 4.0), 429, 5.0) == Pause(resumed=math.inf, strayed=2)


def test_without_a_refusal_there_is_no_pause() -> None:
    assert figures.pause(arriving(0.0, 1.0), 429, 5.0) is None


def test_small_hosts_are_finished_when_each_page_of_theirs_was_answered() -> None:
    contest = Contest(Kind.PACED, big=5, hosts=1, pages=2)
    robots = Request(0.0, 0.1, "s0.localhost", 200, "/robots.txt")
    big = arriving(0.5, 2.0, 9.0, took=5.0, host=fairness.BIG)
    failed, again = Request(1.0, 1.1, "s0.localhost", 503, "/0"), Request(4.0, 4.5, "s0.localhost", 200, "/0")
    page = Request(2.0, 2.1, "s0.localhost", 200, "/1")
    assert fairness.finished([robots, *big, failed, page], contest) is None
    assert fairness.result([robots, *big, failed, page], contest, 0.0) == Result(math.inf, 0.0, 1, 3, 0)
    assert fairness.result([robots, *big, failed, page, again], contest, -1.0) == Result(4.5, 1.0, 2, 2, 2)
