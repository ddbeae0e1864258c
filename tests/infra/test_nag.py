"""cdk-nag's AwsSolutions: no finding without a reason, and no reason without a finding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks

import infra.stack
from infra.config import stack_config
from tests.infra.stacks import FULL

FOUND = {
    ("S1", "Archive/Bucket"),
    ("VPC7", "Network/Vpc"),
    ("ECS4", "Fetchers/Cluster"),
    ("ECS2", "Fetchers/Task"),
    ("IAM5[Resource::*]", "Fetchers/Task/ExecutionRole/DefaultPolicy"),
    ("IAM5[Resource::<Bucket>/crawls/*]", "Fetchers/Task/TaskRole/DefaultPolicy"),
    ("IAM5[Resource::<Bucket>/crawls/*]", "Fetcher/Role/DefaultPolicy"),
    ("IAM5[Resource::<Bucket>/crawls/*]", "Janitor/Role/DefaultPolicy"),
    ("IAM5[Resource::<Bucket>/tables/pages/*]", "Janitor/Role/DefaultPolicy"),
    ("L1", "Fetcher/Function"),
    ("L1", "Janitor/Function"),
    ("L1", "Schedule/Function"),
}
"""Rule and resource of every exception that the stack acknowledges."""


def checked(out: Path) -> App:
    """The stack with everything in it, and the checks that run when it is synthesized."""
    app = App(outdir=str(out), analytics_reporting=False)
    stack = infra.stack.CrawlerStack(app, stack_config({**FULL, "fetchers": "both"}))
    Validations.of(stack.node.root).add_plugins(AwsSolutionsChecks(app))
    return app


def findings(out: Path) -> Iterator[tuple[str, str]]:
    report = json.loads((out / "validation-report.json").read_text())
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            rule = violation["ruleName"].removeprefix("AwsSolutions-")
            head, _, tail = rule.partition("<ArchiveBucket")
            for construct in violation["violatingConstructs"]:
                path = construct["constructPath"].removeprefix("Crawler/").removesuffix("/Resource")
                yield (f"{head}<Bucket>{tail.partition('>')[2]}" if tail else rule), path


def test_every_finding_has_its_reason(tmp_path: Path) -> None:
    checked(tmp_path).synth()
    assert list(findings(tmp_path)) == []


def test_every_reason_answers_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(**_: Any) -> None:
        pass

    monkeypatch.setattr(infra.stack, "acknowledge", nothing)
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        checked(tmp_path).synth()
    assert set(findings(tmp_path)) == FOUND
