"""Whether one big slow host keeps small ones waiting on AWS, and what its backlog costs: four workers without network
on a state in the emulator."""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from crawler.config import crawl_settings
from crawler.model import CrawlRecord, Health, Lease, done
from crawler.state.aws import backlog
from crawler.state.aws.state import AwsState
from tests import emulator
from tests.aws.places import Place, page, pages

HOSTS, PAGES = 25, 10
"""Small hosts, and pages of each."""

SLOW = 10.0
"""Seconds between two requests to the big host; the small ones have one a second."""

LEASE = 120
WORKERS = 4
SLACK = 1.25
"""How much longer the small hosts may take beside the big one: claims look at clocks by the second."""


def measure(big: int, cache: Path) -> bool:
    """Time the small hosts without and with the big one's pages. True when they took about as long."""
    try:
        with emulator.running(cache / "runs" / "starving") as stack, mock.patch.dict(os.environ, stack.environment):
            alone = asyncio.run(_run(stack, 0))
            beside = asyncio.run(_run(stack, big))
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
        sys.exit(f"bench: {missing}")
    print(f"{HOSTS} hosts of {PAGES} pages at one a second: {alone:.1f} s alone, {beside:.1f} s beside {big:,} pages")
    return beside <= alone * SLACK


async def _run(stack: emulator.Emulator, big: int) -> float:
    place = Place(stack, LEASE)
    states = [await AwsState.open(place.address, worker=f"w{number}") for number in range(WORKERS)]
    try:
        await states[0].create(CrawlRecord(id="c", started_at=time.time(), settings=crawl_settings({"rate": 1.0})))
        if big:
            await _fill(states[0], place, big)
        small = [page(f"https://h{host}.example/{number}") for number in range(PAGES) for host in range(HOSTS)]
        await asyncio.gather(*(states[0].diagnose(f"h{host}.example", Health(prompt=True)) for host in range(HOSTS)))
        began = time.monotonic()
        await states[0].add("c", small)
        left = {page.digest for page in small}
        await asyncio.gather(*(_work(state, left) for state in states))
        return time.monotonic() - began
    finally:
        for state in states:
            await state.close()
        place.remove()


async def _fill(state: AwsState, place: Place, big: int) -> None:
    """Add the big host's pages, and print what waits where."""
    await state.hold("big.example", interval=SLOW)
    before = state.requests.copy()
    added = pages(big, host="big.example")
    for start in range(0, big, 1_000):
        await state.add("c", added[start : start + 1_000])
    used = state.requests - before
    scan = place.dynamodb.get_paginator("scan").paginate(TableName=place.control)
    chunks = [item for found in scan for item in found["Items"] if backlog.NUMBER in item["pk"]["S"]]
    waiting = sum(int(item["count"]["N"]) for item in chunks)
    sizes = [len(item["pk"]["S"]) + len(item["pages"]["B"]) + 20 for item in chunks]
    # Written and emptied once, each; the line is written for every call that adds and for every ten chunks fed.
    units = 2 * sum(math.ceil(size / 1024) for size in sizes) + big / 1_000 + len(chunks) / 10
    print(f"{big:,} pages of one host: {sum(place.depth())} messages, {waiting:,} pages in {len(chunks):,} chunks")
    print(f"  {units / max(1, waiting):.3f} write units a page of backlog, {sum(sizes) / max(1, waiting):.0f} bytes")
    print(f"  {used['sqs.SendMessageBatch']} requests to send them")


async def _work(state: AwsState, left: set[bytes]) -> None:
    """Take part until none of the pages is left: each takes the time of its turn and no more."""
    visits: set[asyncio.Task[None]] = set()

    async def visit(lease: Lease) -> None:
        await asyncio.sleep(max(0.0, lease.start_at - time.time()))
        await state.settle([(lease, done(1))])
        left.discard(lease.digest)

    while left:
        for lease in await state.claim(64):
            visits.add(task := asyncio.create_task(visit(lease)))
            task.add_done_callback(visits.discard)
    await asyncio.gather(*visits)
