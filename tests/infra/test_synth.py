"""The assembly as a whole: names, lint, size, dashboard."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.emulator import Template, assembly, of_type, output_id


def test_the_template_has_no_lint_errors(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = assembly(tmp_path_factory) / "Crawler.template.json"
    lint = subprocess.run(
        [
            Path(sys.executable).with_name("cfn-lint"),
            "--non-zero-exit-code",
            "error",
            "--regions",
            "us-east-1",
            "--",
            str(file),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout


def test_no_resource_has_a_name_that_a_second_stack_would_want(template: Template) -> None:
    names = {
        "AWS::CloudWatch::Alarm": "AlarmName",
        "AWS::CloudWatch::Dashboard": "DashboardName",
        "AWS::DynamoDB::Table": "TableName",
        "AWS::ECS::Cluster": "ClusterName",
        "AWS::ECS::Service": "ServiceName",
        "AWS::IAM::Role": "RoleName",
        "AWS::Logs::LogGroup": "LogGroupName",
        "AWS::S3::Bucket": "BucketName",
        "AWS::SQS::Queue": "QueueName",
    }
    for kind, name in names.items():
        assert of_type(template, kind), kind
        assert not [found for found in of_type(template, kind).values() if name in found]


def test_the_template_asks_for_nothing_and_fits_into_one_request(template: Template) -> None:
    assert "Parameters" not in template
    assert len(json.dumps(template)) < 51_200, "TemplateBody of CreateStack; above, a bucket is needed"


def dashboard(template: Template) -> list[dict[str, Any]]:
    """The widgets, with logical ids in the places of the names that deployment puts in."""
    body = template["Resources"][output_id(template, "Dashboard")]["Properties"]["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else part.get("Ref") or part["Fn::GetAtt"][0] for part in body)
    widgets: list[dict[str, Any]] = json.loads(text)["widgets"]
    return widgets


def test_each_row_of_the_dashboard_begins_with_how_to_read_it(template: Template) -> None:
    rows: dict[int, list[dict[str, Any]]] = {}
    for widget in dashboard(template):
        rows.setdefault(widget["y"], []).append(widget)
    assert len(rows) == 4
    for row in rows.values():
        first, *graphs = sorted(row, key=lambda widget: int(widget["x"]))
        assert first["type"] == "text"
        assert first["properties"]["markdown"].startswith("### ")
        assert graphs
        assert {graph["type"] for graph in graphs} == {"metric"}
        assert sum(widget["width"] for widget in row) == 24


def test_the_dashboard_shows_metrics_of_this_stack_that_aws_writes(template: Template) -> None:
    kinds = {"QueueName": "AWS::SQS::Queue", "TableName": "AWS::DynamoDB::Table"}
    shown = set()
    for widget in dashboard(template):
        for namespace, metric, *rest in widget["properties"].get("metrics", []):
            dimensions = dict(zip(rest[:-1:2], rest[1:-1:2], strict=True))
            for dimension, value in dimensions.items():
                if dimension in kinds:
                    assert template["Resources"][value]["Type"] == kinds[dimension]
            shown.add((namespace, metric))
    assert shown == {
        ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
        ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible"),
        ("AWS/SQS", "ApproximateNumberOfMessagesDelayed"),
        ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
        ("AWS/DynamoDB", "ConsumedReadCapacityUnits"),
        ("AWS/DynamoDB", "ConsumedWriteCapacityUnits"),
        ("AWS/DynamoDB", "ReadThrottleEvents"),
        ("AWS/DynamoDB", "WriteThrottleEvents"),
        ("AWS/ECS", "CPUUtilization"),
        ("AWS/ECS", "MemoryUtilization"),
    }
