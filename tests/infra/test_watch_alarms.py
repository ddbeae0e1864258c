"""Whom the alarms tell, what they say, and what they cost."""

from __future__ import annotations

import re

import pytest

from infra.alarms import RUNBOOK, anchor
from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import FULL, full

MOST_METRICS = 20
"""Ten cents a month each."""

DAY = 86_400


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A stack with all alarms, and somebody to tell."""
    return full(tmp_path_factory, "both")


def told(template: Template) -> dict[str, dict[str, object]]:
    """The alarms that tell people; the others scale."""
    alarms = of_type(template, "AWS::CloudWatch::Alarm")
    return {name: alarm for name, alarm in alarms.items() if name.startswith("Alarms")}


def test_all_alarms_go_to_one_topic_that_the_stack_names(everything: Template) -> None:
    topic = {"Ref": output_id(everything, "AlarmTopic")}
    assert len(told(everything)) == 11
    for alarm in told(everything).values():
        assert alarm["AlarmActions"] == [topic]


def test_the_topic_takes_alarms_of_this_account_and_only_over_tls(everything: Template) -> None:
    topic = {"Ref": output_id(everything, "AlarmTopic")}
    (policy,) = of_type(everything, "AWS::SNS::TopicPolicy").values()
    assert policy["Topics"] == [topic]
    deny, allow = policy["PolicyDocument"]["Statement"]
    assert (deny["Effect"], deny["Principal"], deny["Action"]) == ("Deny", "*", "sns:Publish")
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    # A policy of its own takes the place of the one by which services of the account may publish.
    assert (allow["Effect"], allow["Action"]) == ("Allow", "sns:Publish")
    assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allow["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    # CloudWatch may not use the key that AWS manages for SNS: alarms would be lost without a word.
    (properties,) = of_type(everything, "AWS::SNS::Topic").values()
    assert "KmsMasterKeyId" not in properties


def test_an_address_is_subscribed_and_without_one_the_topic_is_there(everything: Template, template: Template) -> None:
    (subscription,) = of_type(everything, "AWS::SNS::Subscription").values()
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", FULL["alarmEmail"])
    assert subscription["TopicArn"] == {"Ref": output_id(everything, "AlarmTopic")}
    assert not of_type(template, "AWS::SNS::Subscription")
    assert len(of_type(template, "AWS::SNS::Topic")) == 1


def test_each_alarm_says_in_a_sentence_what_it_means_and_where_the_runbook_is(everything: Template) -> None:
    for name, alarm in told(everything).items():
        here = anchor(name.removeprefix("Alarms")[:-8])
        assert re.fullmatch(rf"[A-Z][^.]{{20,}}\. Runbook: {re.escape(RUNBOOK)}#{here}", str(alarm["AlarmDescription"]))


def test_alarms_of_what_is_not_there_are_not_there(everything: Template, template: Template) -> None:
    more = {name[:-8] for name in told(everything)} - {name[:-8] for name in told(template)}
    assert more == {"AlarmsFunctionErrors", "AlarmsSchedule"}


def test_silence_is_treated_on_purpose(everything: Template) -> None:
    treated = {name.removeprefix("Alarms")[:-8]: alarm["TreatMissingData"] for name, alarm in told(everything).items()}
    assert treated.pop("Janitor") == "breaching"
    assert set(treated.values()) == {"notBreaching"}


def test_alarms_stay_within_their_price_and_within_a_day(everything: Template) -> None:
    read = 0
    for alarm in told(everything).values():
        metrics = alarm.get("Metrics", [])
        assert isinstance(metrics, list)
        stats = [metric["MetricStat"] for metric in metrics if "MetricStat" in metric]
        read += len(stats) or 1
        period, periods = (stats[0] if stats else alarm)["Period"], alarm["EvaluationPeriods"]
        assert isinstance(period, int)
        assert isinstance(periods, int)
        assert period * periods <= DAY
    assert read <= MOST_METRICS
