"""What the policies of a role allow, and what calls needed: both as (action, what it was done to)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.counting_proxy import Call
from tests.emulator import Template, output_id
from tests.infra.stacks import listed, statements

Right = tuple[str, str]
"""An IAM action, and the logical id of a table; of queues LANES or DEAD_LETTERS, for everything else the service."""

LANES, DEAD_LETTERS = "lanes", "dead letters"

_SERVICES = {
    "SQS": "sqs",
    "DynamoDB": "dynamodb",
    "S3": "s3",
    "AWSEvents": "events",
    "AmazonEC2ContainerServiceV20141113": "ecs",
}
_ACTIONS = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:UploadPart": "s3:PutObject",
    "s3:CreateMultipartUpload": "s3:PutObject",
    "s3:CompleteMultipartUpload": "s3:PutObject",
}
_STATEMENT = re.compile(r"\s*(INSERT|UPDATE|SELECT|DELETE)\s.*?\"([^\"]+)\"", re.IGNORECASE | re.DOTALL)


def granted(template: Template, role: str) -> set[Right]:
    """What the policies of a role (by logical id) allow; a Deny counts as nothing."""
    return {
        (action, _subject(template, action, resource))
        for statement in statements(template, role)
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def used(calls: Iterable[Call], tables: Mapping[str, str], dead_letters: str) -> set[Right]:
    """What calls needed; `tables` are logical ids by name, `dead_letters` is a queue's name."""
    return {right for call in calls for right in _needed(call, tables, dead_letters)}


def _subject(template: Template, action: str, resource: Any) -> str:
    service = action.partition(":")[0]
    if service not in ("dynamodb", "sqs"):
        return service
    name, attribute = resource["Fn::GetAtt"]
    kind = {"dynamodb": "AWS::DynamoDB::Table", "sqs": "AWS::SQS::Queue"}[service]
    assert (template["Resources"][name]["Type"], attribute) == (kind, "Arn")
    if service == "dynamodb":
        return str(name)
    return DEAD_LETTERS if name == output_id(template, "DeadLetters") else LANES


def _needed(call: Call, tables: Mapping[str, str], dead_letters: str) -> Iterator[Right]:
    service, operation = _SERVICES.get(call.service, call.service), call.operation
    if service == "sqs":
        queue = (call.body.get("QueueName") or call.body["QueueUrl"]).rpartition("/")[2]
        yield f"sqs:{operation.removesuffix('Batch')}", DEAD_LETTERS if queue == dead_letters else LANES
    elif service != "dynamodb":
        action = f"{service}:{operation}"
        yield _ACTIONS.get(action, action), service
    elif operation == "BatchExecuteStatement":
        for statement in call.body["Statements"]:
            found = _STATEMENT.match(statement["Statement"])
            assert found, statement
            yield f"dynamodb:PartiQL{found[1].capitalize()}", tables[found[2]]
    else:
        for name in [call.body["TableName"]] if "TableName" in call.body else call.body["RequestItems"]:
            yield f"dynamodb:{operation}", tables[name]
