"""What a crawl is modelled to take beside what it takes: requests by operation, real workers on the emulator.

The workers stay until the crawl has nothing left, as a fleet's do, and are then told to stop: no worker asks whether
the crawl is complete, as `--until-complete` would have it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import aws, web
from bench.counting_proxy import CountingProxy
from bench.linked import Linked, write
from crawler.cost.model import Site, model
from crawler.cost.prices import by_service, requests
from crawler.cost.usage import Unit, Usage
from crawler.state.aws.state import AwsState
from tests import emulator

SERVICES = ("sqs", "dynamodb", "s3")

MANY = 300
"""Requests from which on a service's own are compared: of fewer, chance is a large part."""


class Crawled(NamedTuple):
    """A crawl as it was: what the fleet counted, what passed on the wire, its pages, how long it took from the first
    claim on, and the seconds of processor time of all workers."""

    counted: Usage
    wire: Usage
    done: int
    seconds: float
    cpu: float

    def modelled(self, sites: Linked, rate: float, workers: int) -> Usage:
        """What the model says of a crawl of this size and duration."""
        stored = self.counted.units[Unit.STORED] / self.done
        listed = 1.0 if sites.listed else 0.0
        found = Site(pages=self.done, hosts=sites.hosts, links=sites.links, rate=rate, stored=stored, listed=listed)
        return model(found, workers, self.seconds)


def measure(sites: Linked, rate: float, workers: int, cache: Path) -> bool:
    """Crawl sites, print what it took beside the model. True when the requests are not off by a twentieth, in all and
    at each service that has many."""
    try:
        crawled = run(sites, rate, workers, cache, aws.template(cache / "runs" / "cost" / "cdk.out"))
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
        sys.exit(f"bench: {missing}")
    print(f"{sites}, rate {rate:g}, {workers} workers: {crawled.done} pages in {crawled.seconds:.1f} s")
    print(f"{1000 * crawled.cpu / crawled.done:.2f} ms of processor time a page, the workers' start among it")
    return report(crawled, crawled.modelled(sites, rate, workers))


def run(sites: Linked, rate: float, workers: int, cache: Path, template: emulator.Template) -> Crawled:
    """Crawl the sites with workers on a stack of its own."""
    where = cache / "runs" / f"cost-{sites.port}"
    shutil.rmtree(where, ignore_errors=True)
    folder = write(sites, where / "sites")
    manner = ("--scope", "any", "--pace-by", "host", "--rate", f"{rate:g}", "--allow-private")
    with emulator.running(where / "emulator") as stack, web.served(folder, sites.port, where / "web"):
        stack.deploy(template, aws.STACK)
        return asyncio.run(_crawl(stack.endpoint, stack.environment, (sites.url(0), *manner), workers, where))


async def _crawl(
    endpoint: str, environment: Mapping[str, str], seeds: Sequence[str], workers: int, where: Path
) -> Crawled:
    env = {**os.environ, **environment, "CRAWLER_STATE": f"aws://{aws.STACK}"}
    async with CountingProxy(endpoint) as proxy:
        counted = {**env, "AWS_ENDPOINT_URL": proxy.endpoint}
        begun = 0.0
        seeding = await _start(("seed", *seeds, "--contact", "bench@example.com"), counted, where / "seed.txt")
        if await seeding.wait():
            sys.exit(f"bench: seeding failed: {(where / 'seed.txt').read_text()}")
        fleet = [await _start(("work",), counted, where / f"worker-{number}.txt") for number in range(workers)]
        os.environ.update(environment)
        state = await AwsState.open(aws.STACK, worker="bench")  # not through the proxy
        try:
            crawl = (await state.crawls())[-1].id
            while not (counts := await state.counts(crawl)).discovered or counts.outstanding:
                if all(worker.returncode is not None for worker in fleet):
                    sys.exit(f"bench: the workers ended: {(where / 'worker-0.txt').read_text()[-500:]}")
                await asyncio.sleep(0.2)
                if not begun and proxy.counts["SQS", "ReceiveMessage"]:
                    begun = time.time()
            seconds = time.time() - begun
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for worker in fleet:
                worker.send_signal(signal.SIGTERM)
            await asyncio.gather(*(worker.wait() for worker in fleet))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            account, idle = await state.accounts(crawl)
        finally:
            await state.close()
            for worker in fleet:
                if worker.returncode is None:
                    worker.kill()
                    await worker.wait()
        wire = sum((call.used for call in proxy.calls), Usage())
    return Crawled(account.used + idle.used, wire, counts.done, seconds, cpu)


async def _start(arguments: Sequence[str], env: Mapping[str, str], output: Path) -> asyncio.subprocess.Process:
    with output.open("wb") as stream:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "crawler",
            *arguments,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )


def shares(counted: Usage, modelled: Usage) -> dict[str, float]:
    """How far the modelled requests are from the counted, as a share of these: of the services that have MANY, and of
    all together."""
    found = {service: (counted.of(service), modelled.of(service)) for service in SERVICES}
    compared = {service: pair for service, pair in found.items() if pair[0] >= MANY}
    compared["all"] = sum(count for count, _ in found.values()), sum(thought for _, thought in found.values())
    return {name: thought / count - 1 for name, (count, thought) in compared.items()}


def report(crawled: Crawled, modelled: Usage) -> bool:
    """Print both, by operation and by service."""
    counted, pages = crawled.counted, crawled.done
    print(f"{'':36}{'counted':>9}{'modelled':>9}{'a page':>9}")
    names = Counter(dict(counted.requests)) + Counter(dict(modelled.requests))
    for name in sorted(names):
        count = counted.requests.get(name, 0)
        print(f"{name:36}{count:9}{modelled.requests.get(name, 0):9}{count / pages:9.3f}")
    for unit in Unit:
        print(f"{'unit ' + unit:36}{counted.units.get(unit, 0):9}{modelled.units.get(unit, 0):9}")
    off = shares(counted, modelled)
    spent, thought = by_service(requests(counted)), by_service(requests(modelled))
    for service in SERVICES:
        print(f"{service:36}{counted.of(service):9}{modelled.of(service):9}")
    print("off: " + ", ".join(f"{name} {share:+.1%}" for name, share in off.items()))
    million = 1e6 / pages
    for service, dollars in spent.items():
        print(f"{service + ', $ per million pages':36}{million * dollars:9.3f}{million * thought[service]:9.3f}")
    return all(abs(share) <= 0.05 for share in off.values())
