"""Stacks that the tests read, and how to read the rights in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.emulator import Template, assembly, of_type, output_id, read_template

FULL: Mapping[str, Any] = {
    "alarmEmail": "crawl@example.org",
    "athena": True,
    "archiveDays": 400,
    "budget": 25,
    "logDays": 7,
    "schedule": "rate(1 day)",
    "seedsKey": "seeds/daily.txt",
}
"""Every option that adds something to a stack."""

KINDS = ("fargate", "lambda", "both")


def full(factory: pytest.TempPathFactory, kind: str) -> Template:
    """The template of a stack with all options, by the kind of its fetchers."""
    return read_template(assembly(factory, {**FULL, "fetchers": kind}) / "Crawler.template.json")


def rights(template: Template, role: str) -> dict[str, set[str]]:
    """What the policies of a role (by logical id) allow: what it may be done to, by action."""
    allowed: dict[str, set[str]] = {}
    for statement in statements(template, role):
        assert statement["Effect"] == "Allow"
        for action in listed(statement["Action"]):
            for arn in listed(statement["Resource"]):
                allowed.setdefault(action, set()).add(kind_of(template, arn))
    return allowed


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    return [
        statement
        for policy in of_type(template, "AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def kind_of(template: Template, arn: Any) -> str:
    """What an ARN names: the type of a resource of this stack, the dead letters, or a text with the types in it."""
    if isinstance(arn, str):
        return arn
    if "Fn::Join" in arn:
        return "".join(kind_of(template, part) for part in arn["Fn::Join"][1])
    if "Fn::Sub" in arn:
        return str(arn["Fn::Sub"])
    if "Ref" in arn:
        name = arn["Ref"]
        return name if name.startswith("AWS::") else str(template["Resources"][name]["Type"])
    name, attribute = arn["Fn::GetAtt"]
    assert attribute == "Arn"
    return "dead letters" if name == output_id(template, "DeadLetters") else str(template["Resources"][name]["Type"])


PARTS = {
    "queue": "FrontierNormal",
    "high": "FrontierHigh",
    "low": "FrontierLow",
    "dlq": "DeadLetters",
    "table": "VisitedTable",
    "control": "ControlTable",
    "bucket": "ArchiveBucket",
}
"""What the state's address names, and the outputs that name the same."""


def address(stack: str, names: Mapping[str, str], kind: str) -> str:
    """The address under which a stack's own processes open the state; `names` are the parts', by their outputs."""
    parts = "&".join(f"{word}={names[output]}" for word, output in PARTS.items())
    return f"aws://{stack}?{parts}&fetchers={kind}"


def state_of(template: Template, environment: Mapping[str, Any]) -> str:
    """The same as an environment of the template has it; each reference is what it refers to."""
    joined = environment["CRAWLER_STATE"]["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else part.get("Ref") or f"{part['Fn::GetAtt'][0]}" for part in joined)


def own_address(template: Template, kind: str) -> str:
    """What `state_of` is to be."""
    return address("AWS::StackName", {output: output_id(template, output) for output in PARTS.values()}, kind)


def role_of_function(template: Template, output: str) -> str:
    """Logical id of the role of a function, by the output that names it."""
    return str(template["Resources"][output_id(template, output)]["Properties"]["Role"]["Fn::GetAtt"][0])


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
