"""The AWS backend in the contract suite: queues and tables of its own in an emulator, in real time."""

from __future__ import annotations

import asyncio
import atexit
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import aiohttp
from aiobotocore import endpoint
from botocore import exceptions
from botocore.parsers import ResponseParserError

from crawler.state.aws import claiming, completion, lanes
from crawler.state.aws.state import AwsState
from crawler.state.port import CrawlState
from tests.aws.places import Place
from tests.contract.backends import Backend, Difference
from tests.emulator import Emulator, running

LEASE = 5
"""Seconds: the shortest lease that a crawl's settings can ask for; here the queues' own."""


@cache
def _emulator() -> Emulator:
    """One emulator for all tests of the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(running(Path(tempfile.mkdtemp(prefix="emulator-"))))


class AwsBackend:
    """Handles on one place in the emulator."""

    differences: Mapping[Difference, str] = {
        Difference.REAL_TIME: "visibility timeouts and delays run in the emulator, by its clock",
        Difference.DUPLICATE_LEASE: "SQS delivers at least once, and a page sent again has two messages",
        Difference.PARTIAL_CLAIM: "SQS answers what it finds, in no order; only the lanes are in order",
        Difference.APPROXIMATE_COUNTS: "counters and queue depths are sums that a crash can leave behind",
        Difference.DELAYED: "a message that is delayed cannot be called back",
        Difference.NO_RELEASE: "whose messages are in flight only SQS knows, and it does not tell",
    }

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._place = Place(emulator, lease=LEASE)
        self._handles: list[AwsState] = []
        # Polls and rests short enough for a test to find out three times, within a lease, that there is nothing.
        self._patches: list[Any] = [
            mock.patch.multiple(lanes, POLL=1, LONG_POLL=1, REST=0.5, LONGEST_REST=0.5),
            mock.patch.multiple(claiming, LONGEST_REST=0.5, ELSEWHERE=0),
            mock.patch.object(completion, "OTHERS_MESSAGES", 0.0),
        ]
        for patch in self._patches:
            patch.start()

    async def open(self, worker: str = "worker-1") -> CrawlState:
        with mock.patch.dict(os.environ, self._emulator.environment):
            state = await AwsState.open(self._place.address, worker=worker)
        self._handles.append(state)
        return state

    def now(self) -> float:
        return time.time()

    async def advance(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def break_driver(self) -> None:
        """Every request fails with the next of what the client library can raise; it retries without a pause."""
        url = self._emulator.endpoint
        errors: Iterator[Exception] = cycle(
            [
                exceptions.EndpointConnectionError(endpoint_url=url),
                exceptions.ConnectionClosedError(endpoint_url=url),
                exceptions.ReadTimeoutError(endpoint_url=url),
                exceptions.HTTPClientError(error=RuntimeError("Session is closed")),
                exceptions.NoCredentialsError(),
                exceptions.ClientError({"Error": {"Code": "AccessDenied", "Message": "not\nyou"}}, "Anything"),
                aiohttp.ClientPayloadError("cut off"),
                ConnectionResetError("reset"),
                ResponseParserError("no JSON"),
            ]
        )

        def fail(**_: object) -> None:
            raise next(errors)

        for handle in self._handles:
            for service in (handle._aws.sqs, handle._aws.dynamodb):
                service.meta.events.register_first("before-send", fail)
        pause = mock.patch.object(endpoint, "asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0)))
        pause.start()
        self._patches.append(pause)

    async def close(self) -> None:
        for handle in self._handles:
            await handle.close()
        for patch in self._patches:
            patch.stop()
        self._place.remove()


async def make(_: Path) -> Backend:
    return AwsBackend(_emulator())
