"""`crawler cost` on a state: the bill of a crawl on AWS, and an honest word where there is none."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.cost import prices
from crawler.cost.observed import observed
from tests import command
from tests.aws.places import Place
from tests.emulator import Emulator, Template
from tests.local_site import DemoSite, demo_site

__all__ = ["demo_site"]

names = itertools.count(1)

MANNER = ("--allow-private", "--rate", "0", "--scope", "any")


def cost(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    answer = command.run("cost", "--json", *arguments, env=env)
    assert answer.returncode == 0, answer.stderr
    told: dict[str, Any] = msgspec.json.decode(answer.stdout)
    return told


def test_a_state_that_is_on_no_aws_says_so(demo_site: DemoSite, tmp_path: Path) -> None:
    crawl = command.run("crawl", demo_site.seeds[0], *MANNER, "--out", str(tmp_path / "out"), "--max-pages", "3", "-q")
    assert crawl.returncode == 0, crawl.stderr
    state = str(tmp_path / "out" / "state.sqlite")
    told = cost("--state", state)
    assert (told["total"], told["requests"]) == (0, {})
    assert told["pages"] >= 3
    answer = command.run("cost", "--state", state)
    assert answer.returncode == 0
    assert "this state is on no AWS" in answer.stdout


def test_a_crawl_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    answer = command.run("cost", "--state", str(tmp_path / "none.sqlite"))
    assert answer.returncode == 2
    assert "there is no crawl state" in answer.stderr


@pytest.mark.emulator
def test_the_bill_of_a_crawl_is_what_its_processes_paid_into_its_account(
    emulator: Emulator, demo_site: DemoSite, place: Place, tmp_path: Path
) -> None:
    env = {**emulator.environment, "CRAWLER_STATE": f"aws:{place.address}", "CRAWLER_STORE": str(tmp_path)}
    seeded = command.run("seed", demo_site.seeds[0], *MANNER, "--max-pages", "20", env=env)
    assert seeded.returncode == 0, seeded.stderr
    seeds = cost(env=env)
    assert seeds["requests"]["dynamodb.BatchExecuteStatement"] == 1
    worked = command.run("work", "--until-complete", env=env)
    assert worked.returncode == 0, worked.stderr
    told = cost(env=env)
    assert told["state"] == "complete"
    assert told["pages"] >= 20
    assert told["at_least"] is True
    assert told["requests"]["sqs.ReceiveMessage"] > 0
    assert told["dollars"]["DynamoDB"] > seeds["dollars"]["DynamoDB"] > 0
    assert told["per_million_pages"] == pytest.approx(1e6 * told["total"] / told["pages"], rel=0.01)
    people = command.run("cost", env=env).stdout
    assert "at least: what workers that were killed" in people
    assert "only aws://STACK tells" in people
    assert f"list prices of {prices.REGION}, {prices.AS_OF}" in people


class Watched:
    """A stack with figures in CloudWatch."""

    def __init__(self, emulator: Emulator, template: Template) -> None:
        self.name = f"Costed{next(names)}"
        emulator.deploy(template, self.name)
        self._metrics = emulator.client("cloudwatch")
        self.at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
        self.parts: dict[str, list[str]] = {}
        listed = emulator.client("cloudformation").list_stack_resources(StackName=self.name)
        for part in listed["StackResourceSummaries"]:
            self.parts.setdefault(part["ResourceType"], []).append(part["PhysicalResourceId"])

    def put(self, namespace: str, name: str, value: float, count: float = 1.0, **dimensions: str) -> None:
        named = [{"Name": key, "Value": word} for key, word in dimensions.items()]
        data = {"MetricName": name, "Dimensions": named, "Timestamp": self.at, "Values": [value], "Counts": [count]}
        self._metrics.put_metric_data(Namespace=namespace, MetricData=[data])


@pytest.fixture
def stack(emulator: Emulator, template: Template, monkeypatch: pytest.MonkeyPatch) -> Watched:
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    return Watched(emulator, template)


@pytest.mark.emulator
async def test_compute_and_logs_come_from_cloudwatch(stack: Watched) -> None:
    cluster, service = stack.parts["AWS::ECS::Service"][0].split("/")[-2:]
    stack.put("AWS/ECS", "CPUUtilization", 50.0, 120.0, ClusterName=cluster, ServiceName=service)
    function = stack.parts["AWS::Lambda::Function"][0]
    stack.put("AWS/Lambda", "Duration", 60_000.0, FunctionName=function)
    stack.put("AWS/Lambda", "Invocations", 7.0, FunctionName=function)
    for group in stack.parts["AWS::Logs::LogGroup"][:2]:
        stack.put("AWS/Logs", "IncomingBytes", 1e6, LogGroupName=group)
    lines, notes = await observed(stack.name, stack.at.timestamp() - 600, stack.at.timestamp() + 600)
    amounts = {line.what: line.amount for line in lines}
    assert amounts["task hours on Spot"] == amounts["hours of public IPv4"] == 2.0
    assert amounts["invocations"] == 7.0
    assert amounts["GB of logs"] == pytest.approx(0.002)
    assert amounts["GB-seconds"] > 0
    assert any("Spot is priced" in note for note in notes)


@pytest.mark.emulator
async def test_without_figures_or_rights_a_note_says_what_is_missing(stack: Watched) -> None:
    begin = stack.at.timestamp() - 90_000
    assert await observed(stack.name, begin, begin + 600) == (
        [],
        ["compute and logs are not in it: CloudWatch has no figures of that time"],
    )
    lines, notes = await observed("NoSuchStack", begin, begin + 600)
    assert lines == []
    assert notes[0].startswith("compute and logs are not in it: AWS refused ListStackResources")
