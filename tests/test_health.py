"""What a host's answers do to the pace at which it is asked."""

from __future__ import annotations

import pytest

from crawler import health
from crawler.model import WELL, Health, Why

RATE = 1.0  # seconds between two turns that the crawl keeps


def answers(known: Health, response: float, count: int, interval: float = RATE) -> list[Health]:
    """The health after each of `count` answers that took `response` seconds."""
    path = []
    for number in range(count):
        known = health.answered(known, response, interval, seen=number + 1)
        path.append(known)
    return path


def test_a_host_that_answers_within_its_interval_needs_no_gap() -> None:
    assert [known.gap for known in answers(WELL, 0.3, 5)] == [0.0] * 5


def test_a_host_is_prompt_after_three_fast_answers_and_until_it_takes_longer_than_an_interval() -> None:
    path = answers(WELL, 0.3, 4)
    assert [known.prompt for known in path] == [False, False, True, True]
    assert answers(path[-1], 1.2, 1)[-1].prompt
    assert not answers(path[-1], 1.3, 1)[-1].prompt
    assert not answers(WELL, 0.8, 5)[-1].prompt


def test_a_slow_host_gets_half_its_response_time_between_turns() -> None:
    known = answers(WELL, 6.0, 1)[-1]
    assert (known.gap, known.why) == (3.0, Why.RESPONSE_TIME)
    assert answers(known, 6.0, 10)[-1] == known, "and what does not change is not told again"


def test_noise_in_the_response_time_changes_nothing() -> None:
    known = answers(WELL, 6.0, 1)[-1]
    for response in (6.5, 5.5, 7.0, 5.0):
        assert answers(known, response, 1)[-1].gap == 3.0


def test_a_gap_goes_step_by_step_when_the_host_is_fast_again() -> None:
    known = answers(WELL, 6.0, 1)[-1]
    gaps = [known.gap for known in answers(known, 0.1, 6)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] == pytest.approx(2.1)
    assert len(set(gaps)) >= 3
    assert gaps[-1] == 0.0


def test_every_error_doubles_the_interval_up_to_a_minute() -> None:
    known, gaps = WELL, []
    for _ in range(8):
        known = health.troubled(known, max(RATE, known.gap))
        gaps.append(known.gap)
    assert gaps == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert known.why is Why.BACKOFF


def test_after_errors_the_rate_recovers_step_by_step() -> None:
    known = health.troubled(health.troubled(WELL, RATE), 2.0)
    path = answers(known, 0.1, 6)
    assert [known.gap for known in path[:3]] == pytest.approx([2.8, 1.96, 1.372])
    assert path[-1].gap == 0.0


def test_an_error_never_shortens_a_gap_that_a_crawl_delay_exceeds() -> None:
    known = health.troubled(WELL, 120.0)
    assert known.gap == 60.0, "the larger of gap and Crawl-delay counts at the gate"
    assert health.troubled(Health(gap=90.0), 90.0).gap == 90.0


def test_without_a_rate_nothing_is_slowed() -> None:
    assert answers(WELL, 30.0, 3, interval=0.0)[-1] == WELL
    assert health.troubled(WELL, 0.0) == WELL


def fail(known: Health, times: int) -> Health:
    for _ in range(times):
        known = health.failed(known, "a.example", "connect: refused", 1000.0)
    return known


def test_a_host_is_parked_after_five_failed_connections_in_a_row_and_longer_each_time() -> None:
    waits = [health.parked(fail(WELL, times)) for times in range(9)]
    assert waits == [0, 0, 0, 0, 0, 30, 60, 120, 240]


def test_a_host_whose_probes_fail_is_given_up_for_an_hour() -> None:
    assert fail(WELL, 8).down_until == 0.0
    known = fail(WELL, 9)
    assert known.down_until == 1000.0 + health.DOWN
    assert (known.host, known.error) == ("a.example", "9 failures in a row, the last: connect: refused")
    assert fail(known, 1).down_until == 1000.0 + health.DOWN, "after that one failure is enough"


def test_any_answer_closes_the_breaker() -> None:
    known = answers(fail(WELL, 20), 0.1, 1)[-1]
    assert (known.failures, known.refusals, known.down_until, known.error, known.host) == (0, 0, 0.0, "", "")


def test_a_host_that_only_refuses_is_given_up_too() -> None:
    known = WELL
    for _ in range(7):
        known = health.refused(known, "a.example", "HTTP 429", 1000.0)
    assert known.down_until == 0.0
    known = health.refused(known, "a.example", "HTTP 429", 1000.0)
    assert (known.down_until, known.error) == (1000.0 + health.DOWN, "8 times in a row: HTTP 429")


def test_a_long_error_is_cut() -> None:
    assert len(health.failed(WELL, "a.example", "x" * 5000, 0.0).error) == health.ERROR_LENGTH
