"""How many tasks there are: the service's scaling as the template has it, and its alarms over what SQS reports."""

from __future__ import annotations

from typing import Any

import pytest

from infra.scaling import NEWEST, backlog_steps
from tests.emulator import Template, assembly, of_type, output_id, read_template
from tests.infra.alarm_evaluation import Alarm, Metrics, State

MINUTE = 60.0
NOW = 1_800_000_000.0
LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")


def test_the_fleet_begins_at_zero_and_stays_within_the_limit(template: Template) -> None:
    (service,) = of_type(template, "AWS::ECS::Service").values()
    assert service["DesiredCount"] == 0
    (target,) = of_type(template, "AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 8)
    assert target["ScalableDimension"] == "ecs:service:DesiredCount"


def test_the_backlog_sets_the_workers_and_only_a_frontier_empty_throughout_stops_them(template: Template) -> None:
    grow, stop = scaling_alarms(template)
    assert stop["EvaluationPeriods"] == 10
    lanes = {output_id(template, lane) for lane in ("FrontierHigh", "FrontierNormal", "FrontierLow")}
    assert watched(grow) == {(lane, "ApproximateNumberOfMessagesVisible") for lane in lanes}
    assert watched(stop) == {
        (lane, f"ApproximateNumberOfMessages{state}")
        for lane in lanes
        for state in ("Visible", "NotVisible", "Delayed")
    }
    assert steps(template, grow) == [(1, 1, 10_000), (2, 10_000, 20_000), (4, 20_000, 40_000), (8, 40_000, None)]
    assert steps(template, stop) == [(0, None, 0)]


def scaling_alarms(template: Template) -> tuple[dict[str, Any], dict[str, Any]]:
    """The alarm that starts workers, and the one that stops them."""
    policies = of_type(template, "AWS::ApplicationAutoScaling::ScalingPolicy")
    grow, stop = (
        alarm
        for alarm in of_type(template, "AWS::CloudWatch::Alarm").values()
        if alarm["AlarmActions"][0]["Ref"] in policies
    )
    assert (grow["Threshold"], stop["Threshold"]) == (1, 0)
    return grow, stop


def watched(alarm: dict[str, Any]) -> set[tuple[str, str]]:
    """(logical id of the queue, metric) of everything that an alarm adds up."""
    (expression,) = [entry["Expression"] for entry in alarm["Metrics"] if "Expression" in entry]
    stats = {entry["Id"]: entry["MetricStat"]["Metric"] for entry in alarm["Metrics"] if "MetricStat" in entry}
    assert expression == f"SUM([{', '.join(stats)}])"
    return {(metric["Dimensions"][0]["Value"]["Fn::GetAtt"][0], metric["MetricName"]) for metric in stats.values()}


def steps(template: Template, alarm: dict[str, Any]) -> list[tuple[int, int | None, int | None]]:
    """(workers, from this many messages, to below that many) of the policy that an alarm drives."""
    (action,) = alarm["AlarmActions"]
    policy = template["Resources"][action["Ref"]]["Properties"]["StepScalingPolicyConfiguration"]
    assert policy["AdjustmentType"] == "ExactCapacity"

    def absolute(step: dict[str, int], bound: str) -> int | None:
        return step[bound] + alarm["Threshold"] if bound in step else None

    return [
        (
            step["ScalingAdjustment"],
            absolute(step, "MetricIntervalLowerBound"),
            absolute(step, "MetricIntervalUpperBound"),
        )
        for step in policy["StepAdjustments"]
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 8, 1000])
def test_steps_rise_to_the_limit_and_fit_into_one_policy(most: int) -> None:
    found = backlog_steps(most, 5_000)
    assert found[0] == (1, 1)
    assert found[-1][0] == most
    assert found == sorted(set(found))
    assert len(found) <= 20


def test_the_backlog_that_takes_another_worker_can_be_chosen() -> None:
    assert backlog_steps(4, 300) == [(1, 1), (2, 600), (4, 1200)]


class Reported:
    """What SQS has reported of the lanes, and what the scaling alarms make of it. Times are minutes before now."""

    def __init__(self, template: Template, stack: str = "Crawler") -> None:
        grow, stop = scaling_alarms(template)
        self._grow, self._stop = Alarm(grow, stack), Alarm(stop, stack)
        self._template, self._metrics = template, Metrics()

    def put(self, lane: str, messages: int, minutes: range, state: str = "Visible") -> Reported:
        queue = {"QueueName": output_id(self._template, lane)}
        for minute in minutes:
            at = NOW - (minute + 1) * MINUTE
            self._metrics.put("AWS/SQS", f"ApproximateNumberOfMessages{state}", queue, at, messages)
        return self

    def starts(self, ago: int = 0) -> bool:
        return self._grow.state(self._metrics, NOW - ago * MINUTE) is State.ALARM

    def stops(self, ago: int = 0) -> bool:
        return self._stop.state(self._metrics, NOW - ago * MINUTE) is State.ALARM


LATE = 2
"""Minutes: so much later than it was does SQS tell."""


def test_messages_start_workers_although_sqs_tells_of_them_late(template: Template) -> None:
    assert Reported(template).put("FrontierNormal", 5, range(LATE, 20)).starts()


def test_messages_start_workers_although_only_empty_lanes_were_reported_yet(template: Template) -> None:
    reported = Reported(template).put("FrontierNormal", 5, range(LATE, 20))
    assert reported.put("FrontierHigh", 0, range(20)).put("FrontierLow", 0, range(20)).starts()


def test_nothing_on_the_frontier_starts_no_workers(template: Template) -> None:
    reported = Reported(template)
    assert not reported.starts()
    for lane in LANES:
        reported.put(lane, 0, range(LATE, 20))
    assert not reported.starts()


def test_a_frontier_empty_for_long_stops_the_workers(template: Template) -> None:
    reported = Reported(template)
    for lane in LANES:
        reported.put(lane, 0, range(LATE, 20))
    assert reported.stops()


@pytest.mark.parametrize("state", ["NotVisible", "Delayed"])
def test_one_message_in_hand_or_delayed_keeps_them(template: Template, state: str) -> None:
    reported = Reported(template)
    for lane in LANES:
        reported.put(lane, 0, range(LATE, 20))
    assert not reported.put("FrontierLow", 1, range(LATE + 5, LATE + 6), state).stops()


def test_silence_of_sqs_stops_no_worker(template: Template) -> None:
    """It may be SQS or CloudWatch that is ill; and whoever starts workers by hand before SQS reports keeps them."""
    assert not Reported(template).stops()
    assert not Reported(template).put("FrontierNormal", 5, range(15, 30)).stops()


def test_workers_are_never_started_and_stopped_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    shortest = assembly(tmp_path_factory, {"idleMinutes": 5}) / "Crawler.template.json"
    reported = Reported(read_template(shortest)).put("FrontierNormal", 5, range(20, 40))
    for lane in LANES:
        reported.put(lane, 0, range(20))
    both = [(reported.starts(minute), reported.stops(minute)) for minute in reversed(range(30))]
    assert (True, True) not in both
    assert (both[0], both[-1]) == ((True, False), (False, True))
    assert NEWEST < 5
