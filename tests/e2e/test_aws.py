"""The main job on the deployed stack: the synthesized template in the emulator, real `crawler work` processes on it."""

from __future__ import annotations

import io
import itertools
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests import command
from tests.emulator import Emulator, Template
from tests.local_site import DemoSite, demo_site_process

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

names = itertools.count(1)


class Stack:
    """A stack of the test's own, and the environment in which commands find it."""

    def __init__(self, emulator: Emulator, template: Template, *, assembly: Path | None = None, name: str = "") -> None:
        self.name = name or f"Crawl{next(names)}"
        self.outputs = emulator.deploy(template, self.name, assembly=assembly)
        self.emulator = emulator
        self.env = {**emulator.environment, "CRAWLER_STATE": f"aws://{self.name}"}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return command.run(*arguments, env=self.env)

    def status(self) -> dict[str, Any]:
        return command.status(env=self.env)

    def worker(self) -> subprocess.Popen[str]:
        return command.start("work", "--until-complete", "-v", env=self.env)

    def send(self, body: str, lane: str = "FrontierNormal") -> None:
        sqs = self.emulator.client("sqs")
        url = sqs.get_queue_url(QueueName=self.outputs[lane])["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=body)

    def objects(self) -> dict[str, bytes]:
        """Everything in the stack's bucket."""
        s3, bucket = self.emulator.client("s3"), self.outputs["ArchiveBucket"]
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return {key: s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


@pytest.fixture
def stack(emulator: Emulator, template: Template) -> Stack:
    return Stack(emulator, template)


@pytest.fixture
def slow_site(tmp_path: Path) -> Iterator[DemoSite]:
    with demo_site_process(tmp_path, delay_ms=30) as site:
        yield site


def finish(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        _, errors = worker.communicate(timeout=100)
        assert worker.returncode == 0, errors


def assert_result(site: DemoSite, stack: Stack) -> None:
    """The bucket holds every page once after the merge; ledger and archive agree."""
    counts = stack.status()
    assert counts["state"] == "complete"
    assert counts["exact"]
    assert (counts["pending"], counts["leased"], counts["dead"]) == (0, 0, 0)
    assert counts["done"] == len(site.truth.fetched)
    merged = stack.run("merge")
    assert merged.returncode == 0, merged.stderr
    verified = stack.run("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    objects = stack.objects()
    (parquet,) = [body for key, body in objects.items() if key.startswith("crawls/") and key.endswith(".parquet")]
    rows = pq.read_table(io.BytesIO(parquet)).to_pylist()
    done = Counter(site.canonical(row["url"]) for row in rows if row["outcome"] == "done")
    assert set(done) == site.truth.fetched
    assert set(done.values()) == {1}
    archived = set()
    for key, body in objects.items():
        if key.endswith(".warc.gz"):
            for record in ArchiveIterator(io.BytesIO(body), check_digests="raise"):
                record.content_stream().read()
                if record.rec_type == "response":
                    archived.add(site.canonical(record.rec_headers.get_header("WARC-Target-URI")))
    assert archived == site.truth.fetched


def test_two_workers_crawl_the_deployed_stack_to_its_end(demo_site: DemoSite, stack: Stack) -> None:
    seeded = stack.run("seed", *demo_site.seeds, "--rate", "0", "--allow-private")
    assert seeded.returncode == 0, seeded.stderr
    finish([stack.worker(), stack.worker()])
    fetched = demo_site.fetched()
    assert set(fetched) == demo_site.truth.fetched
    assert set(fetched.values()) == {1}
    robots = Counter(request.host for request in demo_site.requests() if request.is_robots)
    assert set(robots.values()) == {1}
    assert_result(demo_site, stack)
    demo_site.clear()
    finish([stack.worker()])
    assert demo_site.requests() == []


def test_a_killed_worker_loses_nothing_and_doubles_nothing(
    slow_site: DemoSite, emulator: Emulator, template: Template
) -> None:
    short = msgspec.json.decode(msgspec.json.encode(template))  # a lease of 10 s instead of the config's least, 30 s
    for resource in short["Resources"].values():
        if resource["Type"] == "AWS::SQS::Queue" and "RedrivePolicy" in resource["Properties"]:
            resource["Properties"]["VisibilityTimeout"] = 10
    short["Outputs"]["Lease"]["Value"] = "10"
    stack = Stack(emulator, short)
    assert stack.run("seed", *slow_site.seeds, "--rate", "0", "--allow-private", "--concurrency", "4").returncode == 0
    workers = [stack.worker(), stack.worker()]
    for share in (0.2, 0.5):
        command.wait_for(lambda share=share: len(slow_site.fetched()) > share * len(slow_site.truth.fetched))  # type: ignore[misc]
        victim = workers.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
        workers.append(stack.worker())
    finish(workers)
    assert_result(slow_site, stack)


def test_plain_messages_on_the_queue_are_seeds(demo_site: DemoSite, stack: Stack) -> None:
    first, second, third = demo_site.seeds
    assert stack.run("seed", first, "--rate", "0", "--allow-private", "--crawl", "mine").returncode == 0
    stack.send(second)
    stack.send(msgspec.json.encode({"url": third, "crawl": "mine", "priority": "low"}).decode(), "FrontierLow")
    stack.send("this is no URL")
    finish([stack.worker(), stack.worker()])
    assert set(demo_site.fetched()) == demo_site.truth.fetched
    assert_result(demo_site, stack)


def test_sigterm_stops_a_worker_and_leaves_nothing_leased(slow_site: DemoSite, stack: Stack) -> None:
    assert stack.run("seed", *slow_site.seeds, "--rate", "0", "--allow-private", "--concurrency", "4").returncode == 0
    worker = stack.worker()
    command.wait_for(lambda: len(slow_site.fetched()) > 30)
    worker.send_signal(signal.SIGTERM)
    _, errors = worker.communicate(timeout=20)
    assert worker.returncode == 130, errors
    assert stack.status()["leased"] == 0
    finish([stack.worker()])
    assert set(slow_site.fetched().values()) == {1}
    assert_result(slow_site, stack)


def test_a_stack_that_is_not_there_is_one_line(emulator: Emulator) -> None:
    for name in ("status", "work", "verify"):
        result = command.run(name, "--state", "aws://Nowhere", env=emulator.environment)
        assert result.returncode == 2
        (line,) = result.stderr.splitlines()
        assert "Nowhere" in line


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "AWS_PROFILE"),
        ({"AWS_DEFAULT_REGION": ""}, "AWS_REGION"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "127.0.0.1:9"),
    ],
    ids=["no credentials", "no region", "no endpoint"],
)
def test_an_account_that_cannot_be_used_is_one_line(emulator: Emulator, missing: dict[str, str], says: str) -> None:
    env = {**emulator.environment, **missing, "HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    env = {name: value for name, value in env.items() if value}
    result = command.run("status", "--state", "aws://Crawler", env=env)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert says in line
