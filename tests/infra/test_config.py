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
        ({"maxWorker": "5"}, "-c maxWorker: there is no such setting; known are cpu, image, lease, maxReceiveCount,"),
        ({"lease": "5m"}, "-c lease=5m: "),
        ({"lease": "29"}, "-c lease=29: expected `int` >= 30"),
        ({"lease": 43_201}, "-c lease=43201: "),
        ({"maxReceiveCount": 4}, "-c maxReceiveCount=4: expected `int` >= 5"),
        ({"maxWorkers": 0}, "-c maxWorkers=0: "),
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


@pytest.mark.parametrize(("cpu", "memory"), [(256, 512), (256, 2048), (512, 4096), (1024, 2048), (4096, 30_720)])
def test_sizes_that_fargate_sells_pass(cpu: int, memory: int) -> None:
    assert stack_config({"cpu": cpu, "memory": memory}).memory == memory


def test_synth_with_bad_context_prints_that_line_alone_and_exits_2(tmp_path: Path) -> None:
    run = synthesize(tmp_path / "out", {"lease": "soon"})
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.splitlines() == ["-c lease=soon: expected `int`, got `str`"]
    assert not list((tmp_path / "out").glob("*.template.json"))
