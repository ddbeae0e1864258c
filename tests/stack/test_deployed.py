"""The whole template, with all options, deployed and at work: a crawl whose fetchers are killed, complete, told of,
readable as a table; and what is left of a stack that is deleted."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests import command
from tests.e2e.test_aws import Stack
from tests.emulator import Emulator, Template, assembly, of_type, output_id, read_template, running
from tests.infra.stacks import FULL
from tests.local_site import DemoSite, demo_site_process
from tests.stack.closing import Listener, assert_a_table, assert_every_page_once, assert_told, look
from tests.stack.fleet import Tasks, kill_a_function, tasks
from tests.stack.inventory import everything, refused, unseen

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.timeout(400)]

LEASE = 12
"""Seconds for tasks in this file, so that no test waits for minutes for what somebody held who was killed."""

CALL = 60
"""Seconds for functions likewise: longer than a call takes on a busy machine, for functions do not prolong a lease."""

DATA = ("VisitedTable", "ControlTable", "ArchiveBucket")
"""Outputs that name what outlives a stack."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "emulator"


@pytest.fixture
def emulator(folder: Path) -> Iterator[Emulator]:
    """An account in which there is nothing else."""
    with running(folder) as emulator:
        yield emulator


def short(template: Template) -> Template:
    """A copy with a short lease."""
    changed = copy.deepcopy(template)
    lease = CALL if of_type(changed, "AWS::Lambda::EventSourceMapping") else LEASE
    for queue in of_type(changed, "AWS::SQS::Queue").values():
        if "RedrivePolicy" in queue:
            queue["VisibilityTimeout"] = lease
    changed["Outputs"]["Lease"]["Value"] = str(lease)
    return changed


def fetched(site: DemoSite, share: float) -> bool:
    return len(site.fetched()) > share * len(site.truth.fetched)


@pytest.mark.parametrize(
    "kind", ["fargate", pytest.param("lambda", marks=pytest.mark.long), pytest.param("both", marks=pytest.mark.long)]
)
def test_a_crawl_whose_fetchers_are_killed_is_whole_and_all_that_outlives_its_stack(
    kind: str, emulator: Emulator, folder: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = assembly(tmp_path_factory, {**FULL, "fetchers": kind})
    template = read_template(out / "Crawler.template.json")
    listener = Listener(emulator)
    before = everything(emulator)
    stack = Stack(emulator, short(template), assembly=out)
    assert unseen(template, everything(emulator) - before) == {}

    with demo_site_process(tmp_path, delay_ms=30) as site, ExitStack() as ending:
        service: Tasks | None = ending.enter_context(tasks(stack, tmp_path)) if kind != "lambda" else None
        if service:
            service.want(2)
        seeding = ("--rate", "0", "--allow-private", "--concurrency", "4", "--crawl", "site")
        assert stack.run("seed", *site.seeds, *seeding).returncode == 0
        for share in (0.2, 0.5):
            command.wait_for(partial(fetched, site, share))
            if service:
                service.kill_one()
            if kind != "fargate":
                kill_a_function(folder)
        assert look(stack, "closed") == ["site"]
        if service:
            assert look(stack, "stopped") is True
            assert service.desired == 0
            service.leave()
        assert_every_page_once(site, stack)
        assert stack.status()["workers_alive"] == 0
    (event,) = listener.heard()
    assert_told(event, stack, "site")
    assert_a_table(event, stack)

    kept = stack.objects()
    emulator.delete(stack.name)
    left = everything(emulator) - before
    assert sorted(name for _, name in left) == sorted(stack.outputs[output] for output in DATA)
    assert stack.objects() == kept
    delete_what_is_kept(stack)
    assert everything(emulator) - before == set()


def delete_what_is_kept(stack: Stack) -> None:
    """As the guide says to, each table against its protection."""
    dynamodb, s3 = stack.emulator.client("dynamodb"), stack.emulator.client("s3")
    tables = [stack.outputs["VisitedTable"], stack.outputs["ControlTable"]]
    for table in tables:
        with pytest.raises(dynamodb.exceptions.ClientError, match="protection"):
            dynamodb.delete_table(TableName=table)
        dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=table)
    empty(stack)
    s3.delete_bucket(Bucket=stack.outputs["ArchiveBucket"])


def empty(stack: Stack) -> None:
    s3, bucket = stack.emulator.client("s3"), stack.outputs["ArchiveBucket"]
    for key in stack.objects():
        s3.delete_object(Bucket=bucket, Key=key)


def test_a_stack_that_is_to_keep_nothing_leaves_nothing_once_its_bucket_is_empty(
    emulator: Emulator, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = everything(emulator)
    context = {**FULL, "fetchers": "both"}
    out = assembly(tmp_path_factory, context)
    template = read_template(out / "Crawler.template.json")
    stack = Stack(emulator, template, assembly=out)
    s3, bucket = emulator.client("s3"), stack.outputs["ArchiveBucket"]
    s3.put_object(Bucket=bucket, Key="crawls/page", Body=b"page")

    out = assembly(tmp_path_factory, {**context, "retainData": False})
    assert emulator.deploy(read_template(out / "Crawler.template.json"), stack.name, assembly=out) == stack.outputs
    assert list(stack.objects()) == ["crawls/page"]
    assert refused(emulator, stack.name) == {output_id(template, "ArchiveBucket")}
    with pytest.raises(s3.exceptions.ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket=bucket)
    empty(stack)
    assert refused(emulator, stack.name) == set()
    emulator.delete(stack.name)
    assert everything(emulator) - before == set()
