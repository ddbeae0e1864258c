"""The tests' own CloudWatch does what the user guide's tables say of missing data and of metric math."""

from __future__ import annotations

import json

import pytest

from tests.infra.alarm_evaluation import Metrics, State, compute, evaluate

OK, ALARM, NONE = State.OK, State.ALARM, State.INSUFFICIENT_DATA
TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")


def read(points: str) -> list[bool | None]:
    """The guide's notation: X above the threshold, 0 not, - missing."""
    return [{"X": True, "0": False, "-": None}[point] for point in points.split()]


@pytest.mark.parametrize(
    ("points", "states"),
    [
        ("0 - X - X", (OK, OK, OK, OK)),
        ("- - - - 0", (OK, OK, OK, OK)),
        ("- - - - -", (NONE, "as before", ALARM, OK)),
        ("0 X X - X", (ALARM, ALARM, ALARM, ALARM)),
        ("- - X - -", (ALARM, "as before", ALARM, OK)),
    ],
)
def test_three_of_three_datapoints_as_in_the_guide(points: str, states: tuple[State | str, ...]) -> None:
    assert_states(points, 3, states)


@pytest.mark.parametrize(
    ("points", "states"),
    [
        ("0 - X - X", (ALARM, ALARM, ALARM, ALARM)),
        ("0 0 X 0 X", (ALARM, ALARM, ALARM, ALARM)),
        ("0 - X - -", (OK, OK, ALARM, OK)),
        ("- - - - 0", (OK, OK, ALARM, OK)),
        ("- - - - X", (ALARM, "as before", ALARM, OK)),
    ],
)
def test_two_of_three_datapoints_as_in_the_guide(points: str, states: tuple[State | str, ...]) -> None:
    assert_states(points, 2, states)


def assert_states(points: str, needed: int, states: tuple[State | str, ...]) -> None:
    for treatment, expected in zip(TREATMENTS, states, strict=True):
        for before in State:
            state = evaluate(read(points), 3, needed, treatment, before)
            assert state == (before if expected == "as before" else expected), (points, treatment)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a + b * 2", 7),
        ("a / none", None),
        ("a / zero", None),
        ("FILL(none, 5) + a", 6),
        ("FILL(a, 5)", 1),
        ("IF(a > zero, 100 * a / b, 0)", 100 / 3),
        ("IF(a >= b, 1, 0)", 0),
        ("IF(none > 0, 1, 0)", None),
        ("MAX([a, FILL(none, 9), b])", 9),
        ("MAX([a, none, b])", 3),
        ("SUM([a, none, b])", 4),
        ("SUM([none, none])", None),
    ],
)
def test_metric_math(expression: str, value: float | None) -> None:
    assert compute(expression, {"a": 1, "b": 3, "zero": 0, "none": None}) == value


def test_a_line_of_the_embedded_format_is_a_sample_of_each_of_its_metrics() -> None:
    metrics = Metrics()
    names = [{"Name": "Pages", "Unit": "Count"}, {"Name": "Latency"}]
    meta = {"Timestamp": 60_000, "CloudWatchMetrics": [{"Namespace": "N", "Dimensions": [["S"]], "Metrics": names}]}
    latency = {"Values": [10, 30], "Counts": [3, 1], "Max": 30, "Min": 10, "Count": 4, "Sum": 60}
    metrics.put_line(json.dumps({"_aws": meta, "S": "one", "Pages": 4, "Latency": latency, "other": 7}))
    metrics.put_line("crawler: no line of metrics")
    metrics.put_line('"nor this"')
    where = frozenset({("S", "one")})
    assert metrics.keys() == {("N", "Pages", frozenset({"S"})), ("N", "Latency", frozenset({"S"}))}
    assert metrics.value(("N", "Pages", where), "Sum", 60, 120) == 4
    assert metrics.value(("N", "Latency", where), "Average", 60, 120) == 15
    assert metrics.value(("N", "Latency", where), "SampleCount", 60, 120) == 4
    assert metrics.value(("N", "Pages", where), "Sum", 0, 60) is None
