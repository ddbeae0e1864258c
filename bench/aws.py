"""AWS requests a page, by operation: the deployed template in the emulator, real workers, a counting proxy between."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench import manners, web
from bench.counting_proxy import Call, CountingProxy
from bench.site.plan import Shape
from bench.site.write import site
from crawler.cost.prices import AS_OF, REGION, dollars
from tests import emulator

STACK = "Bench"
COUNTED = ("SQS", "DynamoDB", "S3")
"""The services whose requests grow with the pages."""


def measure(shape: Shape, workers: int, cache: Path) -> bool:
    """Crawl the site with `workers` processes on a stack in the emulator and print what it took.

    True when each page was fetched exactly once. SystemExit that says what is missing.
    """
    try:
        return _measure(site(shape, cache), shape, workers, cache / "runs" / "aws")
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
        sys.exit(f"bench: {missing}")


def _measure(folder: Path, shape: Shape, workers: int, run: Path) -> bool:
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    synthesized = template(run / "cdk.out")
    print(f"{shape.pages} pages on {shape.hosts} hosts, {workers} workers on one stack, served by {web.server_name()}")
    with emulator.running(run / "emulator") as aws, web.served(folder, shape.port, run / "web") as log:
        aws.deploy(synthesized, STACK)
        seed = (folder / "urls.txt").read_text().split("\n", 1)[0]
        manner = ("--scope", "any", "--rate", "0", "--allow-private")
        calls, codes = asyncio.run(crawl(aws.endpoint, aws.environment, seed, manner, workers, run))
    found = manners.read(log, folder)
    _table(calls, shape.pages)
    print(f"\nmissed {found.missed}, doubled {found.doubled}, forbidden {found.forbidden}; exit codes {codes}")
    return found.faultless and not any(codes)


def template(out: Path) -> emulator.Template:
    synthesized = emulator.synthesize(out.resolve())
    if synthesized.returncode:
        sys.exit(f"bench: the stack cannot be synthesized: {synthesized.stderr.strip()}")
    return emulator.read_template(out / "Crawler.template.json")


async def crawl(
    endpoint: str, environment: Mapping[str, str], seed: str, manner: Sequence[str], workers: int, run: Path
) -> tuple[list[Call], list[int]]:
    """Seed and crawl to completion through the proxy: the requests made, and the exit codes."""
    async with CountingProxy(endpoint) as proxy:
        env = {**os.environ, **environment, "AWS_ENDPOINT_URL": proxy.endpoint, "CRAWLER_STATE": f"aws://{STACK}"}
        codes = [await _command(("seed", seed, *manner, "--contact", "bench@example.com"), env, run / "seed.txt")]
        if codes == [0]:
            work = ("work", "--until-complete")
            codes += await asyncio.gather(
                *(_command(work, env, run / f"worker-{number}.txt") for number in range(workers))
            )
        return proxy.calls, codes


async def _command(arguments: Sequence[str], env: Mapping[str, str], output: Path) -> int:
    with output.open("wb") as stream:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "crawler",
            *arguments,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.kill()
            raise
    if code:
        print(f"crawler {arguments[0]} ended with {code}: {output.read_text().strip()[-500:]}")
    return code


def _table(calls: Sequence[Call], pages: int) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    cost: defaultdict[tuple[str, str], float] = defaultdict(float)
    for call in calls:
        counts[call.service, call.operation] += 1
        cost[call.service, call.operation] += sum(dollars(call.used).values())
    print(f"\n{'':32} {'requests':>9} {'a page':>8} {'$ per million pages':>20}")
    for (service, operation), count in counts.most_common():
        price = 1e6 * cost[service, operation] / pages
        print(f"{service + ' ' + operation:32} {count:9} {count / pages:8.3f} {price:20.3f}")
    total = sum(count for (service, _), count in counts.items() if service in COUNTED)
    print(f"{' + '.join(COUNTED):32} {total:9} {total / pages:8.3f} {1e6 * sum(cost.values()) / pages:20.3f}")
    print(f"list prices of {REGION}, {AS_OF}")
