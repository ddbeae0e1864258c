"""SQS requests a page of one paced host: real workers on one stack in the emulator, a counting proxy between."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import aws, web
from bench.counting_proxy import Call
from bench.site.plan import Shape
from bench.site.write import site
from crawler.cost.prices import dollars
from crawler.cost.usage import Unit
from tests import emulator

FRONTIER = ("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
WARM = 15.0
"""Seconds that do not count for the allowance: the first pages are alone, and how fast the host is nobody knows yet."""

MOST = 1.5
"""SQS requests a page that are not too many."""

LEAST = 0.95
"""Share of its allowance that the host is to get."""


def measure(rate: float, workers: int, pages: int, cache: Path, port: int) -> bool:
    """Crawl one host at `rate` and print what it took. True when the limits above are kept."""
    try:
        shape = Shape(pages=pages, hosts=1, port=port)
        return _measure(site(shape, cache), shape, rate, workers, cache / "runs" / "pace")
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
        sys.exit(f"bench: {missing}")


def _measure(folder: Path, shape: Shape, rate: float, workers: int, run: Path) -> bool:
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    template = aws.template(run / "cdk.out")
    print(f"one host at {rate:g} requests a second, {shape.pages} pages, {workers} workers on one stack")
    with emulator.running(run / "emulator") as stack, web.served(folder, shape.port, run / "web") as log:
        stack.deploy(template, aws.STACK)
        seed = (folder / "urls.txt").read_text().split("\n", 1)[0]
        manner = ("--scope", "any", "--pace-by", "host", "--rate", f"{rate:g}", "--allow-private")
        calls, codes = asyncio.run(aws.crawl(stack.endpoint, stack.environment, seed, manner, workers, run))
    times = sorted(float(line.split(" ", 1)[0]) for line in log.read_text().splitlines())
    return not any(codes) and _report(calls, times, rate)


def _report(calls: Sequence[Call], times: Sequence[float], rate: float) -> bool:
    """Print what the requests at the host cost, and when they were made."""
    begins, ends = times[0] + WARM, times[-1] - 1
    share = sum(begins <= at < ends for at in times) / (rate * (ends - begins))
    pages = len(times)
    counts = Counter(call.operation for call in calls if call.service == "SQS")
    for operation, count in counts.most_common():
        print(f"  SQS {operation:32} {count:6} {count / pages:7.3f} a page")
    total = sum(counts[operation] for operation in FRONTIER)
    units = sum(call.used.units.get(Unit.WRITES, 0) for call in calls)
    spent = sum(sum(dollars(call.used).values()) for call in calls)
    most = _fullest_second(times)
    print(f"  {total / pages:.2f} SQS requests a page (at most {MOST}), {units / pages:.2f} write units a page")
    print(f"  {1e6 * spent / pages:.2f} dollars per million pages for requests of all services")
    print(f"  {share:.1%} of the allowance (at least {LEAST:.0%}), at most {most} requests in a sliding second")
    return total <= MOST * pages and share >= LEAST and most <= rate + 1


def _fullest_second(times: Sequence[float]) -> int:
    window: deque[float] = deque()
    most = 0
    for at in times:
        window.append(at)
        while window[0] <= at - 1:
            window.popleft()
        most = max(most, len(window))
    return most
