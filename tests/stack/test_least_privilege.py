"""Every role of the stack at its work while IAM is enforced: it may do what it needs, and nothing else."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.demo.site import running as demo_site
from tests.emulator import Template, of_type, output_id
from tests.functions.events import answered, event
from tests.infra.stacks import FULL, full, listed, role_of_function, statements
from tests.stack.enforced import Answer, Enforced, enforced
from tests.stack.policies import LANES, Right, granted, used

pytestmark = [pytest.mark.emulator, pytest.mark.timeout(600)]

EVENT_SOURCE = "the event source reads the queue in the function's name"
LOG = {("logs:CreateLogStream", "logs"): "Lambda writes a function's log", ("logs:PutLogEvents", "logs"): "the same"}

ASIDE: dict[Right, str] = {
    (f"dynamodb:PartiQL{action}", "ControlTable"): "pages whose turns are far are put aside: in a run of their own"
    for action in ("Insert", "Update")
}

UNUSED: dict[str, dict[Right, str]] = {
    "task": ASIDE,
    "FetcherFunction": {
        **LOG,
        **ASIDE,
        ("sqs:ReceiveMessage", LANES): EVENT_SOURCE,
        ("sqs:DeleteMessage", LANES): EVENT_SOURCE,
    },
    "JanitorFunction": {
        **LOG,
        **ASIDE,
        ("dynamodb:Scan", "ControlTable"): "pages that were put aside are looked for when a crawl stands still",
        ("dynamodb:PartiQLInsert", "VisitedTable"): "a dead letter may be a plain seed, which no record knows yet",
    },
    "ScheduleFunction": {
        **LOG,
        **ASIDE,
        ("dynamodb:PartiQLUpdate", "VisitedTable"): "a URL whose message SQS refuses for good ends as skipped",
        ("s3:ListBucket", "s3"): "without it S3 calls an object that is not there forbidden",
    },
}
"""What is granted though this run has no call that needs it, with the reason; tables by their output's name."""

SELDOM: dict[str, dict[Right, str]] = {
    "FetcherFunction": {
        ("sqs:ChangeMessageVisibility", LANES): "a call that is stopped gives back at once what it had not begun with",
    },
    "JanitorFunction": {("sqs:SendMessage", LANES): "pages that no queue has any more are queued again"},
}
"""Likewise, but a run that is slow may have such a call."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """All roles there are. The test takes the place of the event sources, whose calls it makes itself."""
    whole = full(tmp_path_factory, "both")
    kept = {n: r for n, r in whole["Resources"].items() if r["Type"] != "AWS::Lambda::EventSourceMapping"}
    return {**whole, "Resources": kept}


@pytest.fixture
async def stack(tmp_path: Path, template: Template) -> AsyncIterator[Enforced]:
    async with enforced(tmp_path / "emulator", template) as stack:
        yield stack


def role(template: Template, who: str) -> str:
    """Logical id of a role."""
    if who != "task":
        return role_of_function(template, who)
    (task,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    return str(task["TaskRoleArn"]["Fn::GetAtt"][0])


class Lanes:
    """The queues of a stack, as whoever deployed it reaches them."""

    def __init__(self, stack: Enforced) -> None:
        self.sqs, self.normal = stack.client("sqs"), stack.outputs["FrontierNormal"]

    def url(self, queue: str) -> str:
        return str(self.sqs.get_queue_url(QueueName=queue)["QueueUrl"])


async def command(stack: Enforced, *arguments: str) -> str:
    """Run a command as whoever deployed the stack; what it prints."""
    answer = await stack.run("-m", "crawler", *arguments, env=stack.owner)
    assert answer.code == 0, answer.output
    return answer.output


async def put(stack: Enforced, key: str, text: str) -> None:
    """Write an object of the archive's bucket, from beside the loop: the proxy runs on it."""
    client = stack.client("s3")
    await asyncio.to_thread(client.put_object, Bucket=stack.outputs["ArchiveBucket"], Key=key, Body=text)


async def status(stack: Enforced) -> dict[str, Any]:
    output = await command(stack, "status", "--json", "-q")
    answer: dict[str, Any] = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    return answer


async def called(stack: Enforced, template: Template, who: str, event: object) -> Answer:
    """Call a function's handler in a process in the function's role."""
    function = template["Resources"][template["Outputs"][who]["Value"]["Ref"]]["Properties"]
    handler = function["Handler"].removesuffix(".handler")
    given = {n: stack.resolved(v) for n, v in function["Environment"]["Variables"].items()}
    arguments = ("-m", "tests.stack.calling", handler, str(function["Timeout"]), json.dumps(event))
    return await stack.run(*arguments, env={**stack.role(role(template, who)), **given})


async def call(stack: Enforced, template: Template, who: str, event: object) -> Any:
    """The answer of a function's handler."""
    answer = await called(stack, template, who, event)
    assert answer.code == 0, answer.output
    return json.loads(answer.output.splitlines()[-1])


async def fetch_by_function(stack: Enforced, template: Template) -> int:
    """What an event source does with what waits on its queue: how many messages there were."""
    lanes = await asyncio.to_thread(Lanes, stack)
    batch = await asyncio.to_thread(event, lanes, 50)
    answer = await call(stack, template, "FetcherFunction", batch)
    staying = [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
    await asyncio.to_thread(answered, lanes, batch, staying)
    return len(batch["Records"])


@asynccontextmanager
async def task_of_the_service(stack: Enforced, template: Template) -> AsyncIterator[None]:
    """A worker in the role of a task. ECS ends it with SIGTERM."""
    (task,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    given = {entry["Name"]: entry["Value"] for entry in task["ContainerDefinitions"][0]["Environment"]}
    state = {"CRAWLER_STATE": stack.resolved(given["CRAWLER_STATE"])}
    worker = await stack.start("-m", "crawler", "work", env={**stack.role(role(template, "task")), **state})
    talking = asyncio.create_task(worker.communicate())
    try:
        yield
        assert not talking.done(), talking.result()[0].decode()
        worker.terminate()
        output, _ = await asyncio.wait_for(talking, 60)
    finally:
        if worker.returncode is None:
            worker.kill()
            await talking
    assert worker.returncode == 130, output.decode()
    assert b"refused" not in output, output.decode()


async def until_ended(stack: Enforced) -> None:
    """Wait until every page has ended. Asking costs a process, and the crawl has the same cores."""
    async with asyncio.timeout(200):
        while (counts := await status(stack))["pending"] + counts["leased"]:  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def look(stack: Enforced, template: Template, what: str) -> Any:
    """Let the janitor look until it says that it did something; what it did."""
    seen: list[Any] = []
    while len(seen) < 6:
        seen.append(await call(stack, template, "JanitorFunction", {}))
        if seen[-1][what]:
            return seen[-1][what]
    raise AssertionError(f"the janitor never said {what}: {seen}")


def kill_a_worker_with(stack: Enforced, count: int) -> None:
    """What SQS does with messages whose workers died again and again: they are among the dead letters."""
    lanes = Lanes(stack)
    messages = lanes.sqs.receive_message(QueueUrl=lanes.url(lanes.normal), MaxNumberOfMessages=count)["Messages"]
    for message in messages:
        lanes.sqs.send_message(QueueUrl=lanes.url(stack.outputs["DeadLetters"]), MessageBody=message["Body"])
        lanes.sqs.delete_message(QueueUrl=lanes.url(lanes.normal), ReceiptHandle=message["ReceiptHandle"])


async def test_each_role_may_do_what_it_needs_and_nothing_else(stack: Enforced, template: Template) -> None:
    settings = {"rate": 0.0, "allow_private": True, "lease": 60}
    with demo_site(retry_503=1) as site:
        await put(stack, FULL["seedsKey"], "\n".join(site.seeds))
        await put(stack, f"{FULL['seedsKey']}.settings.json", json.dumps(settings))
        first = await call(stack, template, "ScheduleFunction", {"time": "2026-11-29T06:00:00Z"})
        assert first["new"] == 3
        async with task_of_the_service(stack, template):
            await until_ended(stack)
            assert await look(stack, template, "closed") == [first["crawl"]]
            assert await look(stack, template, "stopped")

        again = ("--rate", "0", "--allow-private", "--contact", "a@b.example", "--lease", "60")
        await command(stack, "seed", *site.seeds, *again, "--from-crawl", first["crawl"], "--crawl", "second")
        assert await fetch_by_function(stack, template) == 3
        await asyncio.to_thread(kill_a_worker_with, stack, 1)
        assert await fetch_by_function(stack, template) > 0
        assert await look(stack, template, "dead") == 1
        async with task_of_the_service(stack, template):
            await until_ended(stack)
        assert await look(stack, template, "closed") == ["second"]
    await command(stack, "verify", "--crawl", "second")
    for who in UNUSED:
        name = role(template, who)
        needed, allowed = used(stack.calls(name), stack.tables, stack.outputs["DeadLetters"]), granted(template, name)
        seldom = _rights(template, SELDOM.get(who, {}))
        assert needed - allowed == set(), f"{who} did what its policies do not allow"
        assert allowed - needed - seldom == _rights(template, UNUSED[who]), f"{who} is granted what it does not use"
        assert seldom <= allowed, f"reasons for what {who} may not do any more"


def _rights(template: Template, reasons: Iterable[Right]) -> set[Right]:
    return {
        (action, output_id(template, subject) if action.startswith("dynamodb:") else subject)
        for action, subject in reasons
    }


Statement = dict[str, Any]


def _take(statement: Statement, template: Template) -> None:
    statement["Action"].remove("sqs:SendMessage")


def _move(statement: Statement, template: Template) -> None:
    statement["Resource"] = [{"Fn::GetAtt": [output_id(template, "DeadLetters"), "Arn"]}]


def _tie(statement: Statement, template: Template) -> None:
    statement["Condition"] = {"Bool": {"aws:SecureTransport": "false"}}


@pytest.mark.parametrize("less", [None, _take, _move, _tie])
async def test_what_a_policy_does_not_allow_is_refused(
    less: Callable[[Statement, Template], None] | None, template: Template, tmp_path: Path
) -> None:
    """Else the emulator would enforce nothing, and the run above show nothing."""
    changed = copy.deepcopy(template)
    (sending,) = [
        statement
        for statement in statements(changed, role(changed, "ScheduleFunction"))
        if "sqs:SendMessage" in listed(statement["Action"])
    ]
    if less is not None:
        less(sending, changed)
    async with enforced(tmp_path / "emulator", changed) as stack:
        await put(stack, FULL["seedsKey"], "http://127.0.0.1:9/")
        answer = await called(stack, changed, "ScheduleFunction", {"time": "2026-11-29T06:00:00Z"})
    assert ("AWS refused" in answer.output) is (less is not None), answer.output
    assert (answer.code == 0) is (less is None), answer.output
