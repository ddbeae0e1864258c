"""What runs by the clock: the janitor, and the crawls that recur."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import FULL, full


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "both")


def function(template: Template, output: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][output_id(template, output)]["Properties"]
    return found


def rule(template: Template, output: str) -> dict[str, Any]:
    """The rule that calls the function that an output names."""
    arn = {"Fn::GetAtt": [output_id(template, output), "Arn"]}
    (found,) = [
        rule
        for rule in of_type(template, "AWS::Events::Rule").values()
        if [target["Arn"] for target in rule["Targets"]] == [arn]
    ]
    assert isinstance(found, dict)
    return found


def retries(template: Template, output: str) -> int:
    """How often Lambda repeats a call that failed."""
    (found,) = [
        config["MaximumRetryAttempts"]
        for config in of_type(template, "AWS::Lambda::EventInvokeConfig").values()
        if config["FunctionName"] == {"Ref": output_id(template, output)}
    ]
    return int(found)


def test_every_stack_has_a_janitor_that_looks_every_five_minutes(template: Template) -> None:
    assert rule(template, "JanitorFunction")["ScheduleExpression"] == "rate(5 minutes)"
    assert rule(template, "JanitorFunction")["State"] == "ENABLED"
    assert "ScheduleFunction" not in template["Outputs"]


def test_the_janitor_has_room_and_time_to_merge(everything: Template) -> None:
    janitor = function(everything, "JanitorFunction")
    assert janitor["Handler"] == "crawler.entrypoints.janitor_function.handler"
    assert (janitor["MemorySize"], janitor["EphemeralStorage"], janitor["Timeout"]) == (2048, {"Size": 4096}, 900)


def test_a_look_that_failed_is_not_repeated_and_keeps_no_account_from_deploying(everything: Template) -> None:
    assert retries(everything, "JanitorFunction") == 0
    (target,) = rule(everything, "JanitorFunction")["Targets"]
    assert target["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert "ReservedConcurrentExecutions" not in function(everything, "JanitorFunction")


def test_the_janitor_knows_the_service_that_it_may_stop(everything: Template) -> None:
    (service,) = of_type(everything, "AWS::ECS::Service")
    (cluster,) = of_type(everything, "AWS::ECS::Cluster")
    variables = function(everything, "JanitorFunction")["Environment"]["Variables"]
    assert variables["CRAWLER_CLUSTER"] == {"Ref": cluster}
    assert variables["CRAWLER_SERVICE"] == {"Fn::GetAtt": [service, "Name"]}


def test_without_tasks_it_knows_of_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    template = full(tmp_path_factory, "lambda")
    variables = function(template, "JanitorFunction")["Environment"]["Variables"]
    assert variables.keys() == {"CRAWLER_STATE", "CRAWLER_METRICS", "TMPDIR"}


def test_crawls_recur_when_it_was_said_so(everything: Template) -> None:
    begin = function(everything, "ScheduleFunction")
    assert begin["Handler"] == "crawler.entrypoints.schedule_function.handler"
    assert begin["Environment"]["Variables"]["CRAWLER_SEEDS_KEY"] == FULL["seedsKey"]
    assert rule(everything, "ScheduleFunction")["ScheduleExpression"] == FULL["schedule"]
    assert retries(everything, "ScheduleFunction") == 2


def test_fetcher_and_schedule_share_their_code(everything: Template) -> None:
    fetching, beginning = (function(everything, name)["Code"] for name in ("FetcherFunction", "ScheduleFunction"))
    assert fetching == beginning


def test_the_budget_counts_what_carries_the_stacks_tag_and_tells_the_alarms_reader(everything: Template) -> None:
    (budget,) = of_type(everything, "AWS::Budgets::Budget").values()
    assert budget["Budget"]["BudgetLimit"] == {"Amount": FULL["budget"], "Unit": "USD"}
    assert budget["Budget"]["TimeUnit"] == "MONTHLY"
    assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:crawler$Crawler"]}
    told = budget["NotificationsWithSubscribers"]
    assert {each["Notification"]["NotificationType"] for each in told} == {"ACTUAL", "FORECASTED"}
    assert {each["Notification"]["Threshold"] for each in told} == {100}
    for each in told:
        assert each["Subscribers"] == [{"SubscriptionType": "EMAIL", "Address": FULL["alarmEmail"]}]


def test_without_a_budget_there_is_none(template: Template) -> None:
    assert not of_type(template, "AWS::Budgets::Budget")
