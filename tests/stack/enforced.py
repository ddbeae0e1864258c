"""A stack in an emulator that enforces IAM, and processes that act in the roles of the stack.

A proxy stands before the emulator: it says that requests came by TLS, which the policies of the stack ask for, and
notes who asked for what.
"""

from __future__ import annotations

import asyncio
import copy
import re
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from bench.counting_proxy import Call, CountingProxy
from tests.command import clean_environment
from tests.emulator import REGION, Emulator, Template, of_type, running
from tests.infra.stacks import listed

LATER = 100.0
"""Seconds within which a command has ended."""

ALSO_ASKED_FOR = {
    "sqs:SendMessage": ("sqs:SendMessageBatch",),
    "sqs:DeleteMessage": ("sqs:DeleteMessageBatch",),
    "sqs:ChangeMessageVisibility": ("sqs:ChangeMessageVisibilityBatch",),
}
"""The emulator wants these for a batch. AWS has no such actions: the ones on the left cover the batch there."""

PARTIQL = {"Effect": "Allow", "Action": "dynamodb:BatchExecuteStatement", "Resource": "*"}
"""The emulator knows no rights to PartiQL but this, for no table. Which statements were used on which table is compared
with the policies afterwards."""

_KEY = re.compile(r"Credential=([^/]+)/")


class Answer(NamedTuple):
    """How a command ended, and what it printed on both streams."""

    code: int
    output: str


class Recorder(CountingProxy):
    """Notes the calls of each access key."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.by_key: dict[str, list[Call]] = {}

    async def _pass_on(self, request: web.Request) -> web.Response:
        key = _KEY.search(request.headers.get("Authorization", ""))
        request = request.clone(headers={**request.headers, "X-Forwarded-Proto": "https"})
        await request.read()  # now, so that no other request comes between the next line and this one's note
        number = len(self.calls)
        try:
            return await super()._pass_on(request)
        finally:
            self.by_key.setdefault(key[1] if key else "", []).append(self.calls[number])


class Enforced:
    """A deployed stack; `outputs` by key."""

    def __init__(self, emulator: Emulator, recorder: Recorder, stack: str, outputs: dict[str, str]) -> None:
        self.emulator, self.stack, self.outputs = emulator, stack, outputs
        self._recorder = recorder
        self._keys: dict[str, str] = {}
        self._names: dict[str, str] = {
            resource["LogicalResourceId"]: resource["PhysicalResourceId"]
            for resource in emulator.client("cloudformation").describe_stack_resources(StackName=stack)[
                "StackResources"
            ]
        }

    @property
    def tables(self) -> dict[str, str]:
        """Logical ids by name, of tables and whatever else has one."""
        return {name: logical_id for logical_id, name in self._names.items()}

    def client(self, service: str) -> Any:
        """A client of whoever deployed the stack."""
        return Emulator(self._recorder.endpoint).client(service)

    def resolved(self, value: Any) -> str:
        """A value of the template: a text, or what deployment puts in the place of a reference."""
        if isinstance(value, str):
            return value
        if "Ref" in value:
            return str(
                {"AWS::StackName": self.stack, "AWS::Region": REGION}.get(value["Ref"]) or self._names[value["Ref"]]
            )
        if "Fn::GetAtt" in value:
            return self._names[value["Fn::GetAtt"][0]].rpartition("/")[2]
        return "".join(self.resolved(part) for part in value["Fn::Join"][1])

    @property
    def owner(self) -> dict[str, str]:
        """The environment of whoever deployed the stack."""
        return {**self.emulator.environment, "AWS_ENDPOINT_URL": self._recorder.endpoint}

    def role(self, logical_id: str) -> dict[str, str]:
        """The environment of a process in a role of the stack: what a task or a function finds there."""
        arn = self.emulator.client("iam").get_role(RoleName=self._names[logical_id])["Role"]["Arn"]
        given = self.emulator.client("sts").assume_role(RoleArn=arn, RoleSessionName="stack-test")["Credentials"]
        self._keys[given["AccessKeyId"]] = logical_id
        return {
            "AWS_ENDPOINT_URL": self._recorder.endpoint,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    def calls(self, logical_id: str) -> Iterable[Call]:
        """What has been asked for in a role of the stack."""
        for key, calls in self._recorder.by_key.items():
            if self._keys.get(key) == logical_id:
                yield from calls

    async def start(self, *arguments: str, env: dict[str, str]) -> asyncio.subprocess.Process:
        """Start Python with these arguments."""
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            env=clean_environment({"CRAWLER_METRICS": "emf", "CRAWLER_STATE": f"aws://{self.stack}", **env}),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def run(self, *arguments: str, env: dict[str, str]) -> Answer:
        """Run Python with these arguments to its end, or for so long."""
        process = await self.start(*arguments, env=env)
        talking = asyncio.create_task(process.communicate())
        await asyncio.wait({talking}, timeout=LATER)
        if not talking.done():
            process.kill()
        output, _ = await talking
        assert process.returncode is not None
        return Answer(process.returncode, output.decode())


@asynccontextmanager
async def enforced(folder: Path, template: Template, stack: str = "Enforced") -> AsyncIterator[Enforced]:
    """Deploy a template with its own policies and let them count."""
    with running(folder, AUTH="true") as emulator:
        outputs = emulator.deploy(for_the_emulator(template), stack)
        recorder = Recorder(emulator.endpoint)
        async with recorder:
            yield Enforced(emulator, recorder, stack, outputs)


def for_the_emulator(template: Template) -> Template:
    """The template with the batch actions of the emulator, and roles that the test may take on.

    Nothing else of a policy changes: what a role may do, and to what, is as synthesized.
    """
    changed = copy.deepcopy(template)
    for role in of_type(changed, "AWS::IAM::Role").values():
        everybody = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "*"}}
        role["AssumeRolePolicyDocument"]["Statement"].append(everybody)
    for policy in of_type(changed, "AWS::IAM::Policy").values():
        statements = policy["PolicyDocument"]["Statement"]
        if any("PartiQL" in action for statement in statements for action in listed(statement["Action"])):
            statements.append(copy.deepcopy(PARTIQL))
        for statement in statements:
            actions = listed(statement["Action"])
            if "ecs:UpdateService" in actions:
                # The emulator asks for the cluster of the service, AWS for the service.
                clusters = [{"Fn::GetAtt": [name, "Arn"]} for name in of_type(changed, "AWS::ECS::Cluster")]
                statement["Resource"] = [*listed(statement["Resource"]), *clusters]
            statement["Action"] = actions + [more for action in actions for more in ALSO_ASKED_FOR.get(action, ())]
    return changed
