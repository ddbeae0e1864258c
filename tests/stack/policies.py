"""What the policies of a role allow, and what calls needed: both as (action, what it was done to)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bench.counting_proxy import Call
from tests.emulator import Template, of_type

Right = tuple[str, str]
"""An IAM action, and the logical id of a table; for everything else the type of resource, such as `sqs`."""

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
        for policy in of_type(template, "AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def used(calls: Iterable[Call], tables: Mapping[str, str]) -> set[Right]:
    """What calls needed; `tables` are logical ids by name."""
    return {right for call in calls for right in _needed(call, tables)}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _subject(template: Template, action: str, resource: Any) -> str:
    service = action.partition(":")[0]
    if service != "dynamodb":
        return service
    name, attribute = resource["Fn::GetAtt"]
    assert (template["Resources"][name]["Type"], attribute) == ("AWS::DynamoDB::Table", "Arn")
    return str(name)


def _needed(call: Call, tables: Mapping[str, str]) -> Iterator[Right]:
    service = _SERVICES.get(call.service, call.service)
    operation = call.operation.removesuffix("Batch") if service == "sqs" else call.operation
    if service != "dynamodb":
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
