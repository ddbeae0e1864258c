"""The assembly as a whole: names, lint, size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.emulator import Template, assembly, of_type


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
