"""Fetchers on Lambda as the template has them: the function, and what calls it."""

from __future__ import annotations

from typing import Any

import pytest

from infra.bundle import PYTHON
from infra.functions import calls_at_a_time
from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import full, own_address, rights, role_of_function, state_of

LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "lambda")


def fetcher(template: Template) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][output_id(template, "FetcherFunction")]["Properties"]
    return found


def sources(template: Template) -> dict[str, dict[str, Any]]:
    """Event sources by the logical id of their queue."""
    return {
        source["EventSourceArn"]["Fn::GetAtt"][0]: source
        for source in of_type(template, "AWS::Lambda::EventSourceMapping").values()
    }


@pytest.mark.case("F02")
def test_a_message_stays_hidden_for_six_times_the_functions_time_and_a_batchs(functions: Template) -> None:
    for lane in LANES:
        queue = output_id(functions, lane)
        window = sources(functions)[queue]["MaximumBatchingWindowInSeconds"]
        hidden = functions["Resources"][queue]["Properties"]["VisibilityTimeout"]
        assert hidden == 6 * fetcher(functions)["Timeout"] + window
        assert functions["Outputs"]["Lease"]["Value"] == str(hidden)


@pytest.mark.case("F03")
def test_every_lane_calls_the_function_with_batches_whose_messages_fail_alone(functions: Template) -> None:
    assert sources(functions).keys() == {output_id(functions, lane) for lane in LANES}
    for source in sources(functions).values():
        assert source["FunctionName"] == {"Ref": output_id(functions, "FetcherFunction")}
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["BatchSize"] == 100


def test_the_low_lane_has_a_share_of_its_own_and_a_smaller_one(functions: Template) -> None:
    most = [sources(functions)[output_id(functions, lane)]["ScalingConfig"]["MaximumConcurrency"] for lane in LANES]
    assert most == [8, 8, 2]
    assert "ReservedConcurrentExecutions" not in fetcher(functions)


@pytest.mark.parametrize("most", [2, 3, 8, 9, 1000])
def test_no_lane_has_fewer_calls_at_a_time_than_lambda_takes(most: int) -> None:
    assert calls_at_a_time("High", most) == calls_at_a_time("Normal", most) == most
    assert 2 <= calls_at_a_time("Low", most) <= most


def test_the_function_runs_the_package_on_arm_and_outside_any_network(functions: Template) -> None:
    function = fetcher(functions)
    assert function["Handler"] == "crawler.entrypoints.fetcher_function.handler"
    assert (function["Runtime"], function["Architectures"]) == (f"python{PYTHON}", ["arm64"])
    assert (function["MemorySize"], function["Timeout"]) == (1024, 60)
    assert "VpcConfig" not in function
    variables = function["Environment"]["Variables"]
    assert variables.keys() == {"CRAWLER_STATE", "CRAWLER_METRICS", "TMPDIR"}
    assert (variables["CRAWLER_METRICS"], variables["TMPDIR"]) == ("emf", "/tmp")


def test_no_function_has_to_ask_for_the_parts_of_its_stack(functions: Template) -> None:
    for name in ("FetcherFunction", "JanitorFunction", "ScheduleFunction"):
        variables = functions["Resources"][output_id(functions, name)]["Properties"]["Environment"]["Variables"]
        assert state_of(functions, variables) == own_address(functions, "lambda")
        assert "cloudformation:DescribeStacks" not in rights(functions, role_of_function(functions, name))


def test_links_that_the_function_sends_to_its_own_queues_do_not_stop_it(functions: Template) -> None:
    assert fetcher(functions)["RecursiveLoop"] == "Allow"
    others = [output_id(functions, name) for name in ("JanitorFunction", "ScheduleFunction")]
    assert not [name for name in others if "RecursiveLoop" in functions["Resources"][name]["Properties"]]


def test_calls_leave_no_lines_in_the_log_but_their_own(functions: Template) -> None:
    groups = of_type(functions, "AWS::Logs::LogGroup")
    logs = [function["LoggingConfig"] for function in of_type(functions, "AWS::Lambda::Function").values()]
    assert {log["LogGroup"]["Ref"] for log in logs} == groups.keys()
    assert {group["RetentionInDays"] for group in groups.values()} == {7}
    for log in logs:
        assert (log["LogFormat"], log["SystemLogLevel"]) == ("JSON", "WARN")
        # What is printed without a level counts as INFO: a higher one would lose the metrics.
        assert "ApplicationLogLevel" not in log


def test_without_tasks_there_is_no_network_no_cluster_and_nothing_that_scales(functions: Template) -> None:
    kinds = {resource["Type"].split("::")[1] for resource in functions["Resources"].values()}
    assert not kinds & {"EC2", "ECS", "ApplicationAutoScaling"}
    assert not functions["Outputs"].keys() & {"Cluster", "Service"}


def test_with_both_kinds_tasks_and_functions_work_on_the_same_queues(tmp_path_factory: pytest.TempPathFactory) -> None:
    template = full(tmp_path_factory, "both")
    assert of_type(template, "AWS::ECS::Service")
    assert sources(template).keys() == {output_id(template, lane) for lane in LANES}
