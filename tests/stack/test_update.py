"""A stack of the last release is updated to this one while it crawls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER  # type: ignore[import-untyped]

from tests import command
from tests.e2e.test_aws import Stack
from tests.emulator import REGION, Emulator, Template, assembly, of_type, read_template, running
from tests.infra.stacks import FULL, KINDS
from tests.local_site import demo_site_process
from tests.stack.closing import Listener, assert_every_page_once, assert_told, look
from tests.stack.fleet import tasks
from tests.stack.test_deployed import fetched, short

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.timeout(400)]

PREVIOUS = Path(__file__).parent / "previous.template.json"
"""The template of the last release: workers on Fargate, who know their stack as Crawler, and nothing that looks after
them."""

LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")
TABLES = ("VisitedTable", "ControlTable")
DATA = {
    "AWS::SQS::Queue": {*LANES, "DeadLetters"},
    "AWS::DynamoDB::Table": set(TABLES),
    "AWS::S3::Bucket": {"ArchiveBucket"},
}
"""Outputs that name what holds a crawl, by type."""

AFRESH = {"AWS::DynamoDB::Table": {"LocalSecondaryIndexes", "AttributeDefinitions"}}
"""Properties whose change may make a new resource, by CloudFormation's reference, though the types' schemas do not say
so."""


@pytest.fixture(scope="module")
def previous() -> Template:
    return read_template(PREVIOUS)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    """Nothing else is to be called by its functions."""
    with running(tmp_path / "emulator") as emulator:
        yield emulator


def made_afresh(kind: str) -> set[str]:
    """Properties of a type of resource whose change makes a new, empty one."""
    schema: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
    pointers = [*schema.get("createOnlyProperties", ()), *schema.get("conditionalCreateOnlyProperties", ())]
    return {pointer.split("/")[2] for pointer in pointers} | AFRESH.get(kind, set())


@pytest.mark.parametrize("context", [{}, *({**FULL, "fetchers": kind} for kind in KINDS)], ids=["default", *KINDS])
def test_no_update_replaces_what_holds_a_crawl(
    context: Mapping[str, Any], previous: Template, tmp_path_factory: pytest.TempPathFactory
) -> None:
    now = read_template(assembly(tmp_path_factory, context) / "Crawler.template.json")
    for kind, outputs in DATA.items():
        properties = made_afresh(kind)
        old, new = of_type(previous, kind), of_type(now, kind)
        assert len(old) == len(outputs)
        assert old.keys() == new.keys()
        for name in old:
            kept = [{key: found[key] for key in properties & found.keys()} for found in (old[name], new[name])]
            assert kept[0] == kept[1], name
            keeping = [each["Resources"][name]["DeletionPolicy"] for each in (previous, now)]
            assert keeping[0] == keeping[1], name
        for output in outputs:
            assert previous["Outputs"][output] == now["Outputs"][output]


def test_the_schemas_know_which_changes_make_a_new_resource() -> None:
    assert made_afresh("AWS::SQS::Queue") == {"QueueName", "FifoQueue"}
    assert made_afresh("AWS::DynamoDB::Table") >= {"TableName", "KeySchema", "LocalSecondaryIndexes"}
    assert made_afresh("AWS::S3::Bucket") >= {"BucketName"}


def test_an_update_makes_nothing_afresh_but_the_tasks(previous: Template, template: Template) -> None:
    """What has a name of its own could not even be made while its predecessor is there."""
    old, new = previous["Resources"], template["Resources"]
    assert old.keys() <= new.keys()
    assert {name: found["Type"] for name, found in old.items()} == {name: new[name]["Type"] for name in old}
    afresh = {
        old[name]["Type"]
        for name in old
        for key in made_afresh(old[name]["Type"])
        if old[name].get("Properties", {}).get(key) != new[name].get("Properties", {}).get(key)
    }
    assert afresh == {"AWS::ECS::TaskDefinition"}


def births(stack: Stack) -> dict[str, Any]:
    """When each part that holds a crawl was made: another one of the same name has another birth."""
    sqs, dynamodb = stack.emulator.client("sqs"), stack.emulator.client("dynamodb")
    made: dict[str, Any] = {}
    for queue in (*LANES, "DeadLetters"):
        url = sqs.get_queue_url(QueueName=stack.outputs[queue])["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["CreatedTimestamp"])
        made[queue] = url, found["Attributes"]["CreatedTimestamp"]
    for table in TABLES:
        made[table] = dynamodb.describe_table(TableName=stack.outputs[table])["Table"]["TableId"]
    for bucket in stack.emulator.client("s3").list_buckets()["Buckets"]:
        if bucket["Name"] == stack.outputs["ArchiveBucket"]:
            made["ArchiveBucket"] = bucket["Name"], bucket["CreationDate"]
    return made


def on_the_queues(stack: Stack) -> int:
    """Messages on the lanes, in whatever state."""
    sqs = stack.emulator.client("sqs")
    total = 0
    for lane in LANES:
        url = sqs.get_queue_url(QueueName=stack.outputs[lane])["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        total += sum(int(value) for name, value in found.items() if name.startswith("ApproximateNumberOfMessages"))
    return total


def items(stack: Stack) -> dict[str, set[str]]:
    """The keys in each table."""
    dynamodb = stack.emulator.client("dynamodb")
    return {
        table: {json.dumps(item["pk"]) for item in dynamodb.scan(TableName=stack.outputs[table])["Items"]}
        for table in TABLES
    }


@pytest.mark.parametrize(
    "fetchers",
    ["fargate", pytest.param("both", marks=pytest.mark.long), pytest.param("lambda", marks=pytest.mark.long)],
)
def test_an_update_in_the_middle_of_a_crawl_loses_nothing_of_it(
    fetchers: str, previous: Template, emulator: Emulator, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    context = {"fetchers": fetchers} if fetchers != "fargate" else {}
    out = assembly(tmp_path_factory, context)
    listener = Listener(emulator)
    # What a killed worker held comes back soon. The update itself then sets the lease of this release.
    stack = Stack(emulator, short(previous), name="Crawler")
    with demo_site_process(tmp_path, delay_ms=30) as site:
        seeding = ("--rate", "0", "--allow-private", "--concurrency", "4", "--crawl", "site")
        assert stack.run("seed", *site.seeds, *seeding).returncode == 0
        with tasks(stack, tmp_path) as service:
            service.want(2)
            command.wait_for(partial(fetched, site, 0.4))
            service.want(1)
            service.kill_one()
            service.leave()
            assert not fetched(site, 0.95)
            before = births(stack), on_the_queues(stack), items(stack), stack.status(), stack.objects()
            outputs = emulator.deploy(read_template(out / "Crawler.template.json"), stack.name, assembly=out)

            kept = {name for names in DATA.values() for name in names}
            assert {name: outputs[name] for name in kept} == {name: stack.outputs[name] for name in kept}
            assert births(stack) == before[0]
            assert items(stack)["VisitedTable"] >= before[2]["VisitedTable"]
            assert items(stack)["ControlTable"] >= before[2]["ControlTable"]
            assert stack.objects().items() >= before[4].items()
            if fetchers == "fargate":
                assert on_the_queues(stack) == before[1] >= before[3]["pending"] > 0
            stack.outputs = outputs
        if fetchers != "lambda":
            with tasks(stack, _new(tmp_path)) as service:
                service.want(2)
                assert look(stack, "closed") == ["site"]
                service.leave()
        else:
            assert look(stack, "closed") == ["site"]
        assert_every_page_once(site, stack)
    (event,) = listener.heard()
    assert_told(event, stack, "site")


def _new(folder: Path) -> Path:
    made = folder / "updated"
    made.mkdir()
    return made


@pytest.mark.long
def test_tasks_go_on_where_functions_were(
    emulator: Emulator, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    listener = Listener(emulator)
    functions, fargate = assembly(tmp_path_factory, {"fetchers": "lambda"}), assembly(tmp_path_factory)
    stack = Stack(emulator, short(read_template(functions / "Crawler.template.json")), assembly=functions)
    with demo_site_process(tmp_path, delay_ms=200) as site:
        seeding = ("--rate", "0", "--allow-private", "--concurrency", "2", "--crawl", "site")
        assert stack.run("seed", *site.seeds, *seeding).returncode == 0
        command.wait_for(partial(fetched, site, 0.3))
        before = births(stack)
        update = read_template(fargate / "Crawler.template.json")
        stack.outputs = emulator.deploy(update, stack.name, assembly=fargate)
        assert births(stack) == before
        assert emulator.client("lambda").list_event_source_mappings()["EventSourceMappings"] == []
        assert not fetched(site, 0.95)
        with tasks(stack, tmp_path) as service:
            service.want(2)
            assert look(stack, "closed") == ["site"]
            service.leave()
        assert_every_page_once(site, stack)
    (event,) = listener.heard()
    assert_told(event, stack, "site")
