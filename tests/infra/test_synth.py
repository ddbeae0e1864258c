"""The assembly as a whole, for each kind of fetchers: lint, names, size."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.queries import QUERIES
from tests.emulator import Template, assembly, of_type
from tests.infra.stacks import FULL, KINDS, full

LARGEST = 1_000_000
"""Bytes of a template that CloudFormation reads from a bucket, where the cdk command puts it."""


OWN = re.compile(r'"Crawler"|{"Fn::Join": \["", \[{"Ref": "AWS::StackName"}')


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "both")


@pytest.fixture(scope="module", params=[None, *KINDS])
def any_template(
    request: pytest.FixtureRequest, template: Template, tmp_path_factory: pytest.TempPathFactory
) -> Template:
    """The default stack, and one of each kind with all options."""
    return full(tmp_path_factory, request.param) if request.param else template


def test_no_template_has_lint_errors(tmp_path_factory: pytest.TempPathFactory) -> None:
    contexts = [{}, *({**FULL, "fetchers": kind} for kind in KINDS)]
    files = [str(assembly(tmp_path_factory, context) / "Crawler.template.json") for context in contexts]
    program = Path(sys.executable).with_name("cfn-lint")
    lint = subprocess.run(
        [program, "--non-zero-exit-code", "error", "--regions", "us-east-1", "--", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout


NAMED = {
    "AWS::Athena::WorkGroup": "Name",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::ECS::Cluster": "ClusterName",
    "AWS::ECS::Service": "ServiceName",
    "AWS::Events::Rule": "Name",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::Logs::QueryDefinition": "Name",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
}


def test_no_resource_has_a_name_that_a_second_stack_would_want(everything: Template) -> None:
    """A name that is not generated begins with the stack's, which is unique."""
    for kind, name in NAMED.items():
        assert of_type(everything, kind), kind
        chosen = [found[name] for found in of_type(everything, kind).values() if name in found]
        assert all(OWN.match(json.dumps(each)) for each in chosen), (kind, chosen)
    (database,) = of_type(everything, "AWS::Glue::Database").values()
    assert database["DatabaseInput"]["Name"] == "crawler"


def test_saved_queries_have_names_that_cloudwatch_takes() -> None:
    """No colon and no asterisk, and a slash only between folders; a name is joined to the stack's when it is deployed,
    so that no lint sees it. One refused query would roll the whole stack back."""
    for title in QUERIES:
        assert re.fullmatch(r"([^:*/]+/)*[^:*/]+", title), title


def test_no_template_asks_for_anything_or_is_too_long_for_cloudformation(any_template: Template) -> None:
    assert "Parameters" not in any_template
    assert len(json.dumps(any_template)) < LARGEST / 2
    assert len(any_template["Resources"]) < 500
    assert len(any_template["Outputs"]) < 200


def test_every_kind_of_resource_that_can_be_encrypted_is(any_template: Template) -> None:
    """Tables with DynamoDB's own keys, logs and functions' variables with their services': always, and no property."""
    assert all(queue["SqsManagedSseEnabled"] for queue in of_type(any_template, "AWS::SQS::Queue").values())
    assert all("BucketEncryption" in bucket for bucket in of_type(any_template, "AWS::S3::Bucket").values())
    for group in of_type(any_template, "AWS::Athena::WorkGroup").values():
        results = group["WorkGroupConfiguration"]["ResultConfiguration"]
        assert results["EncryptionConfiguration"] == {"EncryptionOption": "SSE_S3"}
