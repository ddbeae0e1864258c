"""A whole crawl by real workers while every operation of AWS fails one time in ten, in one way or another."""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from aiohttp import web

from tests import command
from tests.aws.places import Place
from tests.aws.proxy import Proxy
from tests.emulator import Emulator
from tests.local_site import demo_site_process

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

STALL = 20
"""Seconds, more than the client waits for an answer."""

TWICE = 0.05
"""Share of the messages that are delivered a second time while their first receiver holds them."""

PAGES = 150
WORKERS = 2


class Fate(StrEnum):
    """What becomes of a request that fails."""

    THROTTLED = "throttled"
    BROKEN = "answered with 500"
    DROPPED = "not executed, connection closed"
    LOST = "executed, answer lost"
    CUT = "executed, answer cut off"
    STALLED = "not executed, no answer until the client gives up"


CHANCES = dict.fromkeys(Fate, 0.02) | {Fate.STALLED: 0.003}
"""Of each request: one in ten fails. A stalled one costs a worker a quarter of a minute, so these are fewer."""


class Storm(Proxy):
    """A proxy under which requests fail by chance, and messages come in any order and at times twice."""

    def __init__(self, target: str, seed: int) -> None:
        super().__init__(target)
        self._dice = random.Random(seed)
        self.fates: Counter[tuple[str, Fate]] = Counter()
        self.requests = self.doubled = 0
        self._over = asyncio.Event()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        service, _, operation = request.headers.get("X-Amz-Target", f"s3.{request.method}").rpartition(".")
        self.requests += 1
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        fate = self._fate()
        if fate is not None:
            self.fates[operation, fate] += 1
        if fate in (Fate.THROTTLED, Fate.BROKEN):
            return _error(service, fate)
        if fate is Fate.STALLED:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), STALL)
        if fate in (Fate.DROPPED, Fate.STALLED):
            return _closed(request)
        url = self._target + request.raw_path
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            status, data = answer.status, await answer.read()
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        if fate is Fate.LOST:
            return _closed(request)
        if operation == "ReceiveMessage" and status == 200:
            data = await self._deliver(json.loads(body)["QueueUrl"], json.loads(data))
        if fate is Fate.CUT and request.method != "HEAD":
            return await _cut_off(request, status, kept, data)
        return web.Response(status=status, body=data, headers=kept)

    def _fate(self) -> Fate | None:
        passes = 1 - sum(CHANCES.values())
        return self._dice.choices([None, *CHANCES], [passes, *CHANCES.values()])[0]

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        await super().__aexit__()

    async def _deliver(self, queue: str, answer: dict[str, Any]) -> bytes:
        """Let some messages be visible for others already, and mix their order."""
        messages = answer.get("Messages", [])
        self._dice.shuffle(messages)
        for message in messages:
            if self._dice.random() < TWICE:
                self.doubled += 1
                asked = {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
                headers = {
                    "X-Amz-Target": "AmazonSQS.ChangeMessageVisibility",
                    "Content-Type": "application/x-amz-json-1.0",
                }
                async with self._session.post(self._target, data=json.dumps(asked), headers=headers) as done:
                    assert done.status == 200, await done.text()
        return json.dumps(answer).encode()


HOP_BY_HOP = frozenset({"connection", "content-length", "transfer-encoding", "date", "server", "keep-alive"})


def _error(service: str, fate: Fate) -> web.Response:
    if service == "s3":
        status, code = (503, "SlowDown") if fate is Fate.THROTTLED else (500, "InternalError")
        return web.Response(status=status, text=f"<Error><Code>{code}</Code></Error>", content_type="application/xml")
    status, code = (400, "ThrottlingException") if fate is Fate.THROTTLED else (500, "InternalServerError")
    text = json.dumps({"__type": code, "message": "so the test wants it"})
    return web.Response(status=status, text=text, content_type="application/x-amz-json-1.0")


def _closed(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


async def _cut_off(request: web.Request, status: int, headers: dict[str, str], data: bytes) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(data) + 10)})
    await response.prepare(request)
    await response.write(data)
    return _closed(request)


def _work(env: dict[str, str]) -> list[str]:
    """Keep a worker running until one leaves by itself; answers what those before it could not open."""
    refusals: list[str] = []
    while len(refusals) < 10:
        result = command.run("work", "--until-complete", env=env)
        if result.returncode == 0:
            return refusals
        refusals.append(result.stderr)
        assert result.returncode == 2, result.stderr
    raise AssertionError(refusals)


@pytest.fixture
async def storm(emulator: Emulator) -> AsyncIterator[Storm]:
    async with Storm(emulator.endpoint, seed=1) as made:
        yield made


async def test_a_crawl_loses_and_doubles_nothing_while_a_tenth_of_all_requests_fails(
    emulator: Emulator, storm: Storm, tmp_path: Path
) -> None:
    place = Place(emulator, lease=5)
    emulator.client("s3").create_bucket(Bucket="storm")
    calm = {**emulator.environment, "CRAWLER_STATE": f"aws:{place.address}", "CRAWLER_STORE": "s3://storm/"}

    async def run(*arguments: str) -> str:
        result = await asyncio.to_thread(command.run, *arguments, env=calm)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    with demo_site_process(tmp_path, pages=PAGES) as site:
        await run("seed", *site.seeds, "--rate", "0", "--allow-private", "--concurrency", "16")
        stormy = {**calm, "AWS_ENDPOINT_URL": storm.endpoint}
        refusals = await asyncio.gather(*(asyncio.to_thread(_work, stormy) for _ in range(WORKERS)))
        counts = json.loads(await run("status", "--json"))
        assert counts["state"] == "complete"
        assert (counts["pending"], counts["leased"], counts["dead"]) == (0, 0, 0)
        assert counts["done"] == len(site.truth.fetched)
        merged = json.loads(await run("merge", "--json"))
        await run("verify")
        key = re.sub(r"^s3://storm/", "", merged["path"])
        body = emulator.client("s3").get_object(Bucket="storm", Key=key)["Body"].read()
        rows = pq.read_table(io.BytesIO(body), columns=["url", "url_key", "outcome"]).to_pylist()
        done = [site.canonical(row["url"]) for row in rows if row["outcome"] == "done"]
        assert sorted(done) == sorted(site.truth.fetched)
        assert len({row["url_key"] for row in rows}) == len(rows)
    print(f"{storm.fates.total()} of {storm.requests} requests failed, {storm.doubled} messages came twice")
    print(f"{len([*chain(*refusals)])} starts failed")
    assert {fate for _, fate in storm.fates} >= set(Fate) - {Fate.STALLED}
    assert {operation for operation, _ in storm.fates} >= {"ReceiveMessage", "BatchGetItem", "BatchExecuteStatement"}
    assert storm.doubled
    place.remove()
