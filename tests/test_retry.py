"""When to try again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.errors import FailureKind
from crawler.retry import LONGEST, backoff, http_date, retry_after

NOON = 1445410800.0  # Wed, 21 Oct 2015 07:00:00 GMT


def waits(kind: str, attempts: int, jitter: float = 0.0) -> float:
    return sum(backoff(kind, attempt, jitter=jitter) for attempt in range(1, attempts))


@pytest.mark.parametrize("kind", ["dns", "connect", "tls", "reset", "protocol"])
def test_four_attempts_at_a_dead_host_end_within_a_minute_and_a_half(kind: str) -> None:
    connecting = 4 * 10.0
    assert waits(kind, 4, jitter=1.0) + connecting <= 90


@pytest.mark.parametrize("kind", ["503", "500", "502", "429", "timeout"])
def test_four_attempts_outlast_a_minute_of_overload(kind: str) -> None:
    assert waits(kind, 4, jitter=0.0) > 60


def test_every_failure_kind_waits_longer_each_time() -> None:
    for kind in [*FailureKind, "503", "something-new"]:
        series = [backoff(kind, attempt, jitter=0.0) for attempt in range(1, 20)]
        assert series == sorted(series)
        assert series[0] > 0
        assert series[-1] == LONGEST


@given(
    st.sampled_from(["dns", "timeout", "503"]),
    st.integers(1, 100_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0, 1, exclude_max=True),
)
def test_a_backoff_is_bounded_and_grows_with_its_jitter(kind: str, attempt: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 < backoff(kind, attempt, jitter=low) <= backoff(kind, attempt, jitter=high) <= LONGEST


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("0007", 7.0),
        ("3600", LONGEST),
        ("999999999999", LONGEST),
        ("9" * 5000, LONGEST),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1680.0),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 1680.0),
        ("Wed Oct 21 07:28:00 2015", 1680.0),
        ("Fri Oct  2 07:28:00 2015", 0.0),
        ("Wed, 21 Oct 2015 06:00:00 GMT", 0.0),
        ("Wed, 21 Oct 2099 06:00:00 GMT", LONGEST),
    ],
)
def test_what_a_server_asks_for_is_read_and_clamped(value: str, seconds: float) -> None:
    assert retry_after(value, None, NOON) == seconds


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "-5",
        "1.5",
        "+5",
        "1e3",
        "soon",
        "120 s",
        "٣",
        "Wed, 21 Oct 2015 07:28:00",
        "Wed, 21 Oct 2015 07:28:00 CET",
        "Wed, 32 Oct 2015 07:28:00 GMT",
        "Wed, 21 Okt 2015 07:28:00 GMT",
        "Wed, 21 Oct 2015 25:28:00 GMT",
        "Wed, 21 Oct 0000 07:28:00 GMT",
        "2015-10-21T07:28:00Z",
    ],
)
def test_what_is_no_valid_field_says_nothing(value: str | None) -> None:
    assert retry_after(value, None, NOON) is None


@pytest.mark.case("C11")
def test_a_time_is_measured_by_the_clock_of_the_server() -> None:
    fast = "Wed, 21 Oct 2015 09:00:00 GMT"
    assert retry_after("Wed, 21 Oct 2015 09:01:00 GMT", fast, NOON) == 60
    assert retry_after("Wed, 21 Oct 2015 07:01:00 GMT", "nonsense", NOON) == 60
    assert retry_after("60", fast, NOON) == 60


def test_the_three_forms_of_a_date_are_one_time() -> None:
    # The example of RFC 9110 5.6.7.
    forms = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    assert {http_date(form) for form in forms} == {784111777.0}
    assert http_date("Sat, 31 Dec 2016 23:59:60 GMT") == 1483228799.0


@given(st.text(max_size=60))
def test_no_text_is_too_strange(value: str) -> None:
    seconds = retry_after(value, value, NOON)
    assert seconds is None or 0 <= seconds <= LONGEST
