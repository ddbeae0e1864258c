"""Seed a stack's crawl from anywhere: needs Python 3.11 and boto3, and nothing else of this project.

    python seed.py STACK https://example.com/ ...
    python seed.py STACK --file urls.txt --crawl spring --priority high
    zcat urls.gz | python seed.py STACK --file -

Each URL becomes a plain message on the frontier queue of its priority, as anything that can send to SQS may write it. A
URL that is sent twice is crawled once. Credentials and region come from where AWS tools look for them, the endpoint
from AWS_ENDPOINT_URL. Rights: cloudformation:DescribeStacks on the stack; sqs:GetQueueUrl and sqs:SendMessage on the
queue.

Exit codes: 0 all were sent, 2 something was not: each line of the input that was left out is named on standard error;
130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

import boto3  # type: ignore[import-untyped]
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

OUTPUTS = {"high": "FrontierHigh", "normal": "FrontierNormal", "low": "FrontierLow"}
"""Outputs of the stack that name its queues, by priority."""

BATCH = 10
"""Messages a request (SQS, SendMessageBatch)."""

REQUEST_BYTES = 262_144
"""Bytes of all messages of a request: the smaller of the limits that SQS has had (now 1 MiB)."""

LONGEST_URL = 100_000
"""Characters; workers drop a longer one."""

SIDE_BY_SIDE = 8
"""Requests at a time."""

ATTEMPTS = 6
"""Times that a message is sent which SQS refuses for the moment; pauses in between double from PAUSE seconds on."""

PAUSE = 0.2

STOPPED = 130
"""Exit code after Ctrl-C."""

ADVICE = {
    NoCredentialsError: "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    NoRegionError: "set AWS_DEFAULT_REGION, or one in the profile",
}
"""What to do about errors that do not say it themselves."""


class Seed(NamedTuple):
    """A message to send, and where its URL stands in the input."""

    where: str
    body: str


class Refused(Exception):
    """What went wrong, in one line."""


class Report:
    """Counts what was sent, and names what was not."""

    def __init__(self) -> None:
        self.sent = self.left_out = 0

    def leave_out(self, where: str, why: str) -> None:
        self.left_out += 1
        say(f"{where}: {why}")


def say(line: str) -> None:
    sys.stderr.write(f"seed.py: {' '.join(line.split())}\n")


def tell(line: str) -> None:
    """A line of result; that nobody reads it any more changes nothing of what was sent."""
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ---------------------------------------------------------------- from lines to messages


def lines(arguments: Iterable[str], file: str | None) -> Iterator[tuple[str, str]]:
    """Where each URL stands, and the URL: arguments first, then the lines of a file; # begins a comment."""
    yield from ((f"argument {number}", text) for number, text in enumerate(arguments, 1))
    if file is None:
        return
    name = "standard input" if file == "-" else file
    try:
        with open(0 if file == "-" else file, encoding="utf-8-sig", errors="replace") as stream:
            for number, line in enumerate(stream, 1):
                if (text := line.strip()) and not text.startswith("#"):
                    yield f"{name}, line {number}", text
    except OSError as error:
        raise Refused(f"--file {file}: {error.strerror or error}") from None


def fault(url: str) -> str:
    """Why a text is no URL that can be crawled; "" when it is one."""
    try:
        parts = urlsplit(url)
        plausible = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        plausible = False
    if not plausible or re.search(r"[\s\x00-\x1f\x7f\ufffd]", url):
        return f"{url[:200]!r} is not a URL that can be crawled: write for example https://example.com/"
    return f"a URL of {len(url):,} characters is too long" if len(url) > LONGEST_URL else ""


def seeds(found: Iterable[tuple[str, str]], more: dict[str, Any], report: Report) -> Iterator[Seed]:
    """The messages of those that are URLs; the others are reported."""
    for where, url in found:
        if why := fault(url):
            report.leave_out(where, why)
        else:
            yield Seed(where, json.dumps({"url": url, **more}))


def batches(found: Iterable[Seed]) -> Iterator[list[Seed]]:
    """Cut by count and by bytes; bodies are ASCII."""
    batch: list[Seed] = []
    size = 0
    for seed in found:
        if batch and (len(batch) == BATCH or size + len(seed.body) > REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(seed)
        size += len(seed.body)
    if batch:
        yield batch


# ---------------------------------------------------------------- AWS


def queue_url(stack: str, priority: str, sqs: Any) -> str:
    """URL of the stack's queue. Asked for by name, since whoever may change outputs must not choose the host that
    messages go to."""
    found = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0].get("Outputs", [])
    name = {output["OutputKey"]: output["OutputValue"] for output in found}.get(OUTPUTS[priority], "")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}(\.fifo)?", name):
        raise Refused(f"the stack {stack!r} has no output {OUTPUTS[priority]} with a queue's name: is it a crawler's?")
    return str(sqs.get_queue_url(QueueName=name)["QueueUrl"])


def send(sqs: Any, url: str, batch: list[Seed]) -> list[tuple[Seed, str]]:
    """Send a batch; those that SQS did not take, each with its reason."""
    refused: list[tuple[Seed, str]] = []
    again: list[tuple[Seed, str]] = []
    left = batch
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        entries = [{"Id": str(number), "MessageBody": seed.body} for number, seed in enumerate(left)]
        failed = sqs.send_message_batch(QueueUrl=url, Entries=entries).get("Failed", [])
        told = [(left[int(entry["Id"])], entry) for entry in failed]
        refused += [(seed, _reason(entry)) for seed, entry in told if entry["SenderFault"]]
        again = [(seed, _reason(entry)) for seed, entry in told if not entry["SenderFault"]]
        left = [seed for seed, _ in again]
        if not left:
            break
    return refused + again


def _reason(entry: dict[str, Any]) -> str:
    return f"SQS does not take it: {entry.get('Message') or entry['Code']}"


def send_all(sqs: Any, url: str, found: Iterator[list[Seed]], report: Report) -> None:
    """Send batches side by side, reading no more of the input than what is being sent."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        while some := list(itertools.islice(found, SIDE_BY_SIDE)):
            for batch, refused in zip(some, pool.map(lambda batch: send(sqs, url, batch), some), strict=True):
                report.sent += len(batch) - len(refused)
                for seed, why in refused:
                    report.leave_out(seed.where, why)


# ---------------------------------------------------------------- the command


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"seed.py: {message} (see --help)\n")


def crawl_id(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: up to 64 letters, digits, '.', '_' and '-'")
    return text


def depth(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r}: a number from 0 to 1000000")
    return int(text)


def arguments(given: list[str]) -> argparse.Namespace:
    parser = Parser(prog="seed.py", description="Send URLs as plain messages to a stack's frontier queue.")
    parser.add_argument("stack", metavar="STACK", help="name of the CloudFormation stack")
    parser.add_argument("urls", nargs="*", metavar="URL")
    parser.add_argument("--file", metavar="F", help="read URLs from a file, one a line, # begins a comment; - is stdin")
    parser.add_argument("--crawl", type=crawl_id, metavar="ID", help="which crawl; without it the stack's latest")
    parser.add_argument("--priority", choices=list(OUTPUTS), default="normal")
    parser.add_argument("--depth", type=depth, default=0, metavar="N", help="links are followed from there (default 0)")
    parsed = parser.parse_args(given)
    if not parsed.urls and parsed.file is None:
        parser.error("give URLs, or --file F with one URL a line")
    return parsed


def run(given: argparse.Namespace, report: Report) -> None:
    """Send everything. Raises Refused, ClientError, BotoCoreError."""
    more: dict[str, Any] = {"priority": given.priority} if given.priority != "normal" else {}
    more |= {"crawl": given.crawl} if given.crawl else {}
    more |= {"depth": given.depth} if given.depth else {}
    sqs = boto3.client(
        "sqs", config=Config(retries={"mode": "standard", "max_attempts": 5}, max_pool_connections=SIDE_BY_SIDE)
    )
    url = queue_url(given.stack, given.priority, sqs)
    send_all(sqs, url, batches(seeds(lines(given.urls, given.file), more, report)), report)


def main() -> int:
    report = Report()
    given = arguments(sys.argv[1:])
    stopped, code = "", 2
    try:
        run(given, report)
    except Refused as error:
        stopped = str(error)
    except ClientError as error:
        told = error.response.get("Error", {})
        stopped = f"AWS refused {error.operation_name}: {told.get('Message') or told.get('Code')}"
    except (BotoCoreError, ValueError) as error:
        advice = next((f"; {text}" for kind, text in ADVICE.items() if isinstance(error, kind)), "")
        stopped = f"AWS cannot be asked: {str(error).rstrip('.')}{advice}"
    except KeyboardInterrupt:
        stopped, code = "stopped", STOPPED
    if report.sent or not stopped:
        tell(f"{report.sent} URLs sent" + (f", {report.left_out} left out" if report.left_out else ""))
    if stopped:
        say(f"{stopped}{'; sending all again does no harm' if report.sent else ''}")
    return code if stopped or report.left_out else 0


if __name__ == "__main__":
    sys.exit(main())
