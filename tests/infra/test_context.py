"""A stack with every setting changed, as `-c` on the command line does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.emulator import Template, assembly, of_type, output_id, read_template

CONTEXT = {
    "stackName": "News",
    "fetchers": "both",
    "lease": "300",
    "maxReceiveCount": "7",
    "maxWorkers": "3",
    "cpu": "1024",
    "memory": "3072",
    "spot": "false",
    "retainData": "false",
    "functionBatch": "10",
    "functionMemory": "2048",
    "functionTimeout": "40",
    "idleMinutes": "30",
    "janitorMinutes": "1",
    "logDays": "90",
    "image": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/crawler:1.0",
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return assembly(tmp_path_factory, CONTEXT)


@pytest.fixture(scope="module")
def news(out: Path) -> Template:
    return read_template(out / "News.template.json")


def test_the_stack_has_the_name_and_its_bill_the_tag(out: Path, news: Template) -> None:
    assert [file.name for file in out.glob("*.template.json")] == ["News.template.json"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["artifacts"]["News"]["properties"]["tags"] == {"crawler": "News"}


def test_the_rest_of_the_numbers_arrive(news: Template) -> None:
    (stop,) = [
        alarm
        for alarm in of_type(news, "AWS::CloudWatch::Alarm").values()
        if alarm["ComparisonOperator"] == "LessThanOrEqualToThreshold" and "Metrics" in alarm
    ]
    assert stop["EvaluationPeriods"] == 30
    assert {group["RetentionInDays"] for group in of_type(news, "AWS::Logs::LogGroup").values()} == {90}
    (rule,) = of_type(news, "AWS::Events::Rule").values()
    assert rule["ScheduleExpression"] == "rate(1 minute)"


def test_lease_and_receive_count_reach_every_lane(news: Template) -> None:
    for lane in ("FrontierHigh", "FrontierNormal", "FrontierLow"):
        queue = news["Resources"][output_id(news, lane)]["Properties"]
        assert (queue["VisibilityTimeout"], queue["RedrivePolicy"]["maxReceiveCount"]) == (300, 7)
    assert news["Outputs"]["Lease"]["Value"] == "300"


def test_data_that_is_not_retained_goes_with_the_stack(news: Template) -> None:
    for output in ("VisitedTable", "ControlTable", "ArchiveBucket"):
        resource = news["Resources"][output_id(news, output)]
        assert resource["DeletionPolicy"] == "Delete"
        assert not resource["Properties"].get("DeletionProtectionEnabled")


def test_workers_have_the_size_and_their_number_the_limit(news: Template) -> None:
    (task,) = of_type(news, "AWS::ECS::TaskDefinition").values()
    assert (task["Cpu"], task["Memory"]) == ("1024", "3072")
    (target,) = of_type(news, "AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert target["MaxCapacity"] == 3


def test_the_function_has_its_size_and_batches_that_lambda_need_not_wait_for(news: Template) -> None:
    function = news["Resources"][output_id(news, "FetcherFunction")]["Properties"]
    assert (function["MemorySize"], function["Timeout"]) == (2048, 40)
    sources = of_type(news, "AWS::Lambda::EventSourceMapping").values()
    assert {source["BatchSize"] for source in sources} == {10}
    assert not [source for source in sources if "MaximumBatchingWindowInSeconds" in source]
    assert sorted(source["ScalingConfig"]["MaximumConcurrency"] for source in sources) == [2, 3, 3]


def test_without_spot_workers_run_on_demand(news: Template) -> None:
    (service,) = of_type(news, "AWS::ECS::Service").values()
    assert service["CapacityProviderStrategy"] == [{"CapacityProvider": "FARGATE", "Weight": 1}]


def test_a_ready_image_is_not_built_and_may_be_pulled(out: Path, news: Template) -> None:
    assert not list(out.glob("asset.*/Dockerfile"))
    (task,) = of_type(news, "AWS::ECS::TaskDefinition").values()
    assert "team/crawler:1.0" in json.dumps(task["ContainerDefinitions"][0]["Image"])
    pulls = [
        statement
        for policy in of_type(news, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if "ecr:BatchGetImage" in statement["Action"]
    ]
    assert [
        json.dumps(pull["Resource"]).count(":ecr:eu-west-1:123456789012:repository/team/crawler") for pull in pulls
    ] == [1]
