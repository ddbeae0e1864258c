"""The whole template, with all options, goes through CloudFormation for each kind of fetchers, and goes again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from tests.emulator import Emulator, assembly, read_template, unsupported
from tests.infra.stacks import FULL, KINDS, address
from tests.test_emulator_deploy import ALWAYS

pytestmark = pytest.mark.emulator

OUTPUTS = {
    "fargate": {*ALWAYS, "Cluster", "Service"},
    "lambda": {*ALWAYS, "FetcherFunction"},
    "both": {*ALWAYS, "Cluster", "Service", "FetcherFunction"},
}

REFUSED = {
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::Athena::NamedQuery",
    "AWS::Budgets::Budget",
    "AWS::CloudWatch::Alarm",
    "AWS::Logs::QueryDefinition",
}


class Deployed(NamedTuple):
    """A stack: its kind of fetchers, its name, outputs, and what the emulator has of it by type."""

    kind: str
    name: str
    outputs: Mapping[str, str]
    refused: set[str]
    missing: set[str]


@pytest.fixture(scope="module", params=KINDS)
def deployed(
    request: pytest.FixtureRequest, emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    name = f"Kind-{request.param}"
    out = assembly(tmp_path_factory, {**FULL, "fetchers": request.param})
    template = read_template(out / "Crawler.template.json")
    left_out = unsupported(template)
    outputs = emulator.deploy(template, name, assembly=out)
    made = emulator.client("cloudformation").describe_stack_resources(StackName=name)["StackResources"]
    yield Deployed(
        request.param,
        name,
        outputs,
        {template["Resources"][resource]["Type"] for resource in left_out},
        template["Resources"].keys() - left_out - {resource["LogicalResourceId"] for resource in made},
    )
    # Their database has the name of the stack that was synthesized, which is the same for all.
    emulator.delete(name)


def test_all_of_it_is_deployed_but_what_the_emulator_has_no_notion_of(deployed: Deployed) -> None:
    assert deployed.refused <= REFUSED
    assert deployed.missing == set()


def test_the_outputs_name_what_there_is(deployed: Deployed) -> None:
    assert set(deployed.outputs) == OUTPUTS[deployed.kind] | {"ScheduleFunction", "Database", "Workgroup"}
    assert not [value for value in deployed.outputs.values() if "/" in value or ":" in value], "names, not ARNs"


def test_functions_have_their_code(emulator: Emulator, deployed: Deployed) -> None:
    functions = emulator.client("lambda")
    for output in (name for name in deployed.outputs if name.endswith("Function")):
        found = functions.get_function(FunctionName=deployed.outputs[output])["Configuration"]
        assert found["CodeSize"] > 100_000
        state = found["Environment"]["Variables"]["CRAWLER_STATE"]
        assert state == address(deployed.name, deployed.outputs, deployed.kind)


def test_queues_call_the_fetcher_where_functions_fetch(emulator: Emulator, deployed: Deployed) -> None:
    sources = emulator.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    ours = [
        source for source in sources if source["FunctionArn"].endswith(deployed.outputs.get("FetcherFunction", "-"))
    ]
    assert len(ours) == (0 if deployed.kind == "fargate" else 3)
    assert {source["State"] for source in ours} <= {"Enabled"}


def test_rules_call_janitor_and_schedule(emulator: Emulator, deployed: Deployed) -> None:
    events = emulator.client("events")
    called = {
        target["Arn"].rpartition(":")[2]: rule["ScheduleExpression"]
        for rule in events.list_rules()["Rules"]
        if rule["Name"].startswith(f"{deployed.name}-")
        for target in events.list_targets_by_rule(Rule=rule["Name"])["Targets"]
    }
    assert called == {
        deployed.outputs["JanitorFunction"]: "rate(5 minutes)",
        deployed.outputs["ScheduleFunction"]: FULL["schedule"],
    }


def test_the_alarms_reader_is_subscribed(emulator: Emulator, deployed: Deployed) -> None:
    sns = emulator.client("sns")
    (topic,) = [
        topic["TopicArn"]
        for topic in sns.list_topics()["Topics"]
        if topic["TopicArn"].endswith(f":{deployed.outputs['AlarmTopic']}")
    ]
    (subscription,) = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", FULL["alarmEmail"])


def names(emulator: Emulator, stack: str) -> list[str]:
    """Names of everything that exists and is named after a stack, in lower case."""
    client = emulator.client
    found: list[Any] = [
        *client("dynamodb").list_tables()["TableNames"],
        *(bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]),
        *(url.rpartition("/")[2] for url in client("sqs").list_queues().get("QueueUrls", [])),
        *(function["FunctionName"] for function in client("lambda").list_functions()["Functions"]),
        *(rule["Name"] for rule in client("events").list_rules()["Rules"]),
        *(group["logGroupName"] for group in client("logs").describe_log_groups()["logGroups"]),
        *(topic["TopicArn"].rpartition(":")[2] for topic in client("sns").list_topics()["Topics"]),
        *(alarm["AlarmName"] for alarm in client("cloudwatch").describe_alarms()["MetricAlarms"]),
        *(board["DashboardName"] for board in client("cloudwatch").list_dashboards()["DashboardEntries"]),
        *(arn.rpartition("/")[2] for arn in client("ecs").list_clusters()["clusterArns"]),
        *(role["RoleName"] for role in client("iam").list_roles()["Roles"]),
        *(database["Name"] for database in client("glue").get_databases()["DatabaseList"]),
        *(group["Name"] for group in client("athena").list_work_groups()["WorkGroups"]),
    ]
    return [name.lower() for name in found if name.lower().startswith(stack.lower())]


def test_two_stacks_live_side_by_side_and_the_data_of_a_deleted_one_is_all_that_stays(
    emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = {}
    for name, kind in (("East", "both"), ("West", "lambda")):
        out = assembly(tmp_path_factory, {**FULL, "fetchers": kind, "stackName": name})
        found[name] = emulator.deploy(read_template(out / f"{name}.template.json"), name, assembly=out)
    east, west = found["East"], found["West"]
    assert {key for key in east if east[key] == west.get(key)} == {"Lease"}

    of_west = names(emulator, "West")
    assert len(names(emulator, "East")) >= len(of_west) > 10
    emulator.delete("East")
    assert set(names(emulator, "East")) == {
        east[output].lower() for output in ("VisitedTable", "ControlTable", "ArchiveBucket")
    }
    assert names(emulator, "West") == of_west
