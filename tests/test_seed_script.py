"""scripts/seed.py: seeds a stack with boto3 and nothing of this project."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest

from tests import command
from tests.aws.places import KEY
from tests.aws.proxy import Proxy
from tests.emulator import Emulator
from tests.local_site import demo_site_process

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

names = itertools.count(1)

SCRIPT = Path(__file__).parents[1] / "scripts" / "seed.py"

ALONE = f"""
import importlib.util, runpy, sys
sys.path.append({str(Path(boto3.__file__).parents[1])!r})
assert importlib.util.find_spec("crawler") is None
sys.argv[0] = {str(SCRIPT)!r}
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert not [name for name in sys.modules if name.partition(".")[0] in ("crawler", "aiobotocore", "msgspec")]
"""
"""Runs the script where this project is not installed: without site packages but the folder of boto3."""


def seed(env: Mapping[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", ALONE, *arguments],
        env=command.clean_environment(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


QUEUES = {
    name: {"Type": "AWS::SQS::Queue"} for name in ("FrontierHigh", "FrontierNormal", "FrontierLow", "DeadLetters")
}
TABLES = {name: {"Type": "AWS::DynamoDB::Table", "Properties": KEY} for name in ("VisitedTable", "ControlTable")}
SMALL = {
    "Resources": {**QUEUES, **TABLES, "ArchiveBucket": {"Type": "AWS::S3::Bucket"}},
    "Outputs": {name: {"Value": {"Fn::GetAtt": [name, "QueueName"]}} for name in QUEUES}
    | {name: {"Value": {"Ref": name}} for name in (*TABLES, "ArchiveBucket")},
}
"""The parts of a stack that hold a crawl, with the outputs that name them."""


class Queues:
    """A stack of the test's own."""

    def __init__(self, emulator: Emulator, name: str) -> None:
        self.name, self.emulator, self.env = name, emulator, dict(emulator.environment)
        self.outputs = emulator.deploy(SMALL, name)

    def seed(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return seed(self.env, self.name, *arguments, stdin=stdin)

    def bodies(self, lane: str = "Normal") -> list[dict[str, Any]]:
        """Take all messages off a queue."""
        sqs = self.emulator.client("sqs")
        url = sqs.get_queue_url(QueueName=self.outputs[f"Frontier{lane}"])["QueueUrl"]
        found = []
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                found.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found


@pytest.fixture
def queues(emulator: Emulator) -> Queues:
    return Queues(emulator, f"Seeds{next(names)}")


@pytest.fixture
def proxy(proxy: Proxy, queues: Queues) -> Proxy:
    queues.env["AWS_ENDPOINT_URL"] = proxy.endpoint
    return proxy


def test_urls_become_messages_in_batches(queues: Queues, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text(
        "# a list\n" + "".join(f"https://site.example/{n}\n\n" for n in range(95)) + "https://bücher.example/ü\n"
    )
    result = queues.seed("https://first.example/", "--file", str(file))
    assert (result.returncode, result.stdout, result.stderr) == (0, "97 URLs sent\n", "")
    wanted = ["https://first.example/", "https://bücher.example/ü", *(f"https://site.example/{n}" for n in range(95))]
    assert Counter(body["url"] for body in queues.bodies()) == Counter(wanted)


def test_the_mark_with_which_some_programs_begin_a_file_costs_no_url(queues: Queues, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("https://first.example/\nhttps://second.example/\n", encoding="utf-8-sig")
    assert queues.seed("--file", str(file)).returncode == 0
    assert {body["url"] for body in queues.bodies()} == {"https://first.example/", "https://second.example/"}


def test_what_is_said_of_them_stands_in_each_message(queues: Queues) -> None:
    result = queues.seed(
        "--file", "-", "--crawl", "mine", "--priority", "low", "--depth", "3", stdin="http://a.example/"
    )
    assert result.returncode == 0, result.stderr
    assert queues.bodies("Low") == [{"url": "http://a.example/", "crawl": "mine", "priority": "low", "depth": 3}]


def test_lines_that_are_no_urls_are_named_and_the_others_sent(queues: Queues, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    long = "https://long.example/" + "x" * 100_000
    lines = [
        "https://good.example/",
        "good.example",
        "ftp://a.example/",
        "http://",
        "http://a b.example/",
        "http://x:y/",
    ]
    file.write_text("\n".join([*lines, long, "https://last.example/"]))
    result = queues.seed("--file", str(file))
    assert (result.returncode, result.stdout) == (2, "2 URLs sent, 6 left out\n")
    told = result.stderr.splitlines()
    assert [line.partition(": ")[2].partition(": ")[0] for line in told] == [f"{file}, line {n}" for n in range(2, 8)]
    assert told[0].endswith("'good.example' is not a URL that can be crawled: write for example https://example.com/")
    assert told[-1].endswith("a URL of 100,021 characters is too long")
    assert {body["url"] for body in queues.bodies()} == {lines[0], "https://last.example/"}


async def test_no_request_is_larger_than_sqs_takes(queues: Queues, proxy: Proxy) -> None:
    sizes: list[tuple[int, int]] = []

    async def look(asked: dict[str, Any], _: Any) -> None:
        bodies = [entry["MessageBody"] for entry in asked["Entries"]]
        sizes.append((len(bodies), sum(len(body.encode()) for body in bodies)))

    proxy.on("SendMessageBatch", look, times=100)
    lines = "".join(f"https://site.example/{n}/{'x' * 60_000}\n" for n in range(12))
    assert (await asyncio.to_thread(queues.seed, "--file", "-", stdin=lines)).returncode == 0
    assert sum(count for count, _ in sizes) == 12
    assert max(size for _, size in sizes) <= 262_144
    assert len(sizes) == 3
    assert len(queues.bodies()) == 12


async def test_what_a_batch_leaves_out_is_sent_again_or_reported(queues: Queues, proxy: Proxy) -> None:
    async def first(asked: dict[str, Any], forward: Any) -> dict[str, Any]:
        left = [{"Id": "1", "SenderFault": False, "Code": "InternalError"}]
        left.append({"Id": "2", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "no"})
        asked["Entries"] = asked["Entries"][:1]
        return {**await forward(), "Failed": left}

    proxy.on("SendMessageBatch", first)
    result = await asyncio.to_thread(queues.seed, "http://a.example/", "http://b.example/", "http://c.example/")
    assert (result.returncode, result.stdout) == (2, "2 URLs sent, 1 left out\n")
    assert result.stderr == "seed.py: argument 3: SQS does not take it: no\n"
    assert {body["url"] for body in queues.bodies()} == {"http://a.example/", "http://b.example/"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Nowhere", "http://a.example/"), "AWS refused DescribeStacks"),
        (("no stack's name", "http://a.example/"), "AWS "),
        (("S", "--priority", "urgent", "http://a.example/"), "invalid choice"),
        (("S", "--crawl", "a/b", "http://a.example/"), "'a/b'"),
        (("S", "--depth", "-1", "http://a.example/"), "--depth"),
        (("S",), "give URLs, or --file F"),
    ],
)
def test_what_is_wrong_is_one_line(emulator: Emulator, arguments: tuple[str, ...], says: str) -> None:
    result = seed(emulator.environment, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("seed.py: ")
    assert says in line


@pytest.mark.parametrize(
    ("missing", "advice"), [("AWS_ACCESS_KEY_ID", "set AWS_PROFILE"), ("AWS_DEFAULT_REGION", "set AWS_DEFAULT_REGION")]
)
def test_an_account_that_cannot_be_used_is_one_line(
    emulator: Emulator, tmp_path: Path, missing: str, advice: str
) -> None:
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"), "AWS_CONFIG_FILE": str(tmp_path / "none")}
    env = {name: value for name, value in emulator.environment.items() if name != missing} | nowhere
    result = seed(env, "S", "http://a.example/")
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("seed.py: AWS cannot be asked: ")
    assert advice in line


def test_a_file_that_cannot_be_read_is_one_line(queues: Queues) -> None:
    result = queues.seed("--file", "/nowhere/urls.txt")
    assert (result.returncode, result.stderr) == (2, "seed.py: --file /nowhere/urls.txt: No such file or directory\n")


def test_an_output_that_names_a_host_is_refused(emulator: Emulator) -> None:
    outputs = {"FrontierNormal": {"Value": "https://elsewhere.example/1/queue"}}
    emulator.deploy({"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": outputs}, "Hostile")
    result = seed(emulator.environment, "Hostile", "http://a.example/")
    assert (result.returncode, result.stdout) == (2, "")
    assert "has no output FrontierNormal with a queue's name" in result.stderr


def test_ctrl_c_says_what_was_sent_and_leaves_with_130(queues: Queues) -> None:
    with subprocess.Popen(
        [sys.executable, SCRIPT, queues.name, "--file", "-"],
        env=command.clean_environment(queues.env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        # More than one round of requests, and then no end.
        process.stdin.write("".join(f"http://a.example/{number}\n" for number in range(1_000)))
        process.stdin.flush()
        sqs = queues.emulator.client("sqs")
        url = sqs.get_queue_url(QueueName=queues.outputs["FrontierNormal"])["QueueUrl"]
        ask = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
        command.wait_for(
            lambda: int(sqs.get_queue_attributes(**ask)["Attributes"]["ApproximateNumberOfMessages"]) > 100
        )
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert output.endswith(" URLs sent\n")
    assert errors == "seed.py: stopped; sending all again does no harm\n"


def test_urls_are_sent_though_nobody_reads_how_many(queues: Queues) -> None:
    with subprocess.Popen(
        [sys.executable, SCRIPT, queues.name, "http://a.example/"],
        env=command.clean_environment(queues.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert len(queues.bodies()) == 1


def test_a_worker_crawls_what_the_script_sent(queues: Queues, tmp_path: Path) -> None:
    env = {**queues.env, "CRAWLER_STATE": f"aws://{queues.name}"}
    with demo_site_process(tmp_path, pages=150) as site:
        first, *others = site.seeds
        begun = command.run("seed", first, "--rate", "0", "--allow-private", "--crawl", "mine", env=env)
        assert begun.returncode == 0, begun.stderr
        sent = queues.seed(*others, "--crawl", "mine")
        assert (sent.returncode, sent.stdout) == (0, f"{len(others)} URLs sent\n")
        worker = command.start("work", env=env)
        command.wait_for(lambda: site.truth.fetched <= set(site.fetched()))
        worker.terminate()
        _, errors = worker.communicate(timeout=20)
        assert worker.returncode == 130, errors
        assert command.status(env=env)["done"] == len(site.truth.fetched)
