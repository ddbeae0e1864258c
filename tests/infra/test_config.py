"""Context becomes settings, or one line that says what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.config import ConfigError, StackConfig, stack_config
from tests.emulator import synthesize


def test_without_context_the_defaults_hold() -> None:
    assert stack_config({}) == StackConfig()


def test_context_of_the_cdk_itself_is_not_ours() -> None:
    context = {"@aws-cdk/core:checkSecretUsage": True, "aws:cdk:enable-path-metadata": True, "cli-version": "2"}
    assert stack_config(context) == StackConfig()


def test_the_command_line_gives_strings_and_cdk_json_gives_types() -> None:
    words = {"stackName": "News", "lease": "300", "maxReceiveCount": "6", "spot": "false", "retainData": "true"}
    typed = {"stackName": "News", "lease": 300, "maxReceiveCount": 6, "spot": False, "retainData": True}
    assert stack_config(words) == stack_config(typed)
    assert stack_config(words) == StackConfig(stack_name="News", lease=300, max_receive_count=6, spot=False)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"maxWorker": "5"}, "-c maxWorker: there is no such setting; known are alarmEmail, archiveDays, athena, "),
        ({"lease": "5m"}, "-c lease=5m: "),
        ({"lease": "29"}, "-c lease=29: give at least 30 seconds"),
        ({"lease": 43_201}, "-c lease=43201: "),
        ({"maxReceiveCount": 4}, "-c maxReceiveCount=4: expected `int` >= 5"),
        ({"maxWorkers": 0}, "-c maxWorkers=0: "),
        ({"fetchers": "ec2"}, "-c fetchers=ec2: invalid enum value 'ec2'"),
        ({"functionTimeout": 29}, "-c functionTimeout=29: "),
        ({"functionTimeout": 901}, "-c functionTimeout=901: "),
        ({"functionMemory": 128}, "-c functionMemory=128: "),
        ({"functionBatch": 0}, "-c functionBatch=0: "),
        ({"janitorMinutes": 0}, "-c janitorMinutes=0: "),
        ({"idleMinutes": 61}, "-c idleMinutes=61: "),
        ({"idleMinutes": 4}, "-c idleMinutes=4: expected `int` >= 5"),
        ({"backlogPerWorker": 0}, "-c backlogPerWorker=0: "),
        ({"onDemandBase": -1}, "-c onDemandBase=-1: "),
        ({"alarmEmail": "somebody"}, "-c alarmEmail=somebody: "),
        ({"schedule": "every day", "seedsKey": "k"}, "-c schedule=every day: "),
        ({"archiveDays": -1}, "-c archiveDays=-1: "),
        ({"logDays": 8}, "-c logDays=8: "),
        ({"budget": -1}, "-c budget=-1: "),
        ({"athena": "maybe"}, "-c athena=maybe: expected `bool`"),
        ({"spot": "perhaps"}, "-c spot=perhaps: expected `bool`"),
        ({"stackName": "my stack"}, "-c stackName=my stack: "),
        ({"stackName": ""}, "-c stackName=: "),
        ({"cpu": "500"}, "-c cpu=500: Fargate has 256, 512, 1024, 2048, 4096"),
        (
            {"cpu": 1024, "memory": 1024},
            "-c memory=1024: with cpu=1024 Fargate has 2048, 3072, 4096, 5120, 6144, 7168, 8192 MiB",
        ),
        ({"cpu": 256, "memory": 1536}, "-c memory=1536: with cpu=256 Fargate has 512, 1024, 2048 MiB"),
    ],
)
def test_a_bad_value_is_one_line_that_names_it(context: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        stack_config(context)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        (
            {"fetchers": "lambda", "lease": 364},
            "-c lease=364: with functions it must be at least 365 seconds: 6 times functionTimeout, and 5 for a batch",
        ),
        ({"fetchers": "both", "functionTimeout": 900, "lease": 5000}, "-c lease=5000: with functions it must be at"),
        ({"fetchers": "lambda", "maxWorkers": 1}, "-c maxWorkers=1: an event source of Lambda runs at least 2"),
        ({"schedule": "rate(1 day)"}, "-c schedule and -c seedsKey go together"),
        ({"seedsKey": "seeds.txt"}, "-c schedule and -c seedsKey go together"),
        ({"budget": 5}, "-c budget needs -c alarmEmail"),
        ({"onDemandBase": 9}, "-c onDemandBase=9: there are at most 8 workers"),
    ],
)
def test_settings_that_make_no_sense_together_are_one_line_too(context: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        stack_config(context)
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "context",
    [
        {"fetchers": "fargate", "maxWorkers": 1, "functionTimeout": 900},
        {"fetchers": "lambda", "maxWorkers": 2, "lease": 365},
        {"fetchers": "both", "functionTimeout": 900},
        {"onDemandBase": 8},
        {"schedule": "cron(0 4 ? * MON *)", "seedsKey": "seeds/monday.txt"},
        {"budget": "12.50", "alarmEmail": "crawl@example.org"},
        {"alarmEmail": ""},
    ],
)
def test_settings_that_do_go_together_pass(context: dict[str, Any]) -> None:
    config = stack_config(context)
    assert config.visibility == config.lease or not config.lease


@pytest.mark.parametrize(
    ("context", "tasks", "functions", "visibility"),
    [
        ({}, True, False, 120),
        ({"fetchers": "lambda"}, False, True, 365),
        ({"fetchers": "both", "functionTimeout": 30}, True, True, 185),
        ({"fetchers": "both", "lease": 900}, True, True, 900),
    ],
)
def test_the_lease_is_long_enough_for_whoever_fetches(
    context: dict[str, Any], tasks: bool, functions: bool, visibility: int
) -> None:
    config = stack_config(context)
    assert (config.on_fargate, config.on_lambda, config.visibility) == (tasks, functions, visibility)


@pytest.mark.parametrize(("cpu", "memory"), [(256, 512), (256, 2048), (512, 4096), (1024, 2048), (4096, 30_720)])
def test_sizes_that_fargate_sells_pass(cpu: int, memory: int) -> None:
    assert stack_config({"cpu": cpu, "memory": memory}).memory == memory


def test_synth_with_bad_context_prints_that_line_alone_and_exits_2(tmp_path: Path) -> None:
    run = synthesize(tmp_path / "out", {"lease": "soon"})
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.splitlines() == ["-c lease=soon: expected `int`, got `str`"]
    assert not list((tmp_path / "out").glob("*.template.json"))
