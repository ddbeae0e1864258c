"""The fetcher as a Lambda function: the frontier's queues call it with batches of messages, and it runs the same loop
over them as any worker.

Translates an event to deliveries and the loop's end to an answer: which messages are to stay on their queue (a partial
batch response). Between two calls the process is frozen, and nothing runs: state, archives, connections and what is
known stay open, and whatever has died meanwhile is made anew by whoever meets it.

    begin ............ stop ......... hurry ... hand back, close ... Lambda's timeout
          claim, fetch      drain          leave                spare

If the process dies anywhere here, all messages of the event come back when their visibility timeout is over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
from collections import Counter
from typing import Any, Protocol

import msgspec

import crawler.archive.s3  # noqa: F401 - now, for a process that begins has a whole processor
from crawler.cost.usage import PROCESS, Usage
from crawler.entrypoints.function_folder import own_folder
from crawler.entrypoints.function_log import guard
from crawler.entrypoints.identity import tune_memory
from crawler.errors import UsageError
from crawler.fetch import DEADLINE
from crawler.loop import DRAIN, Exit, Worker
from crawler.state.aws.delivered import Delivery
from crawler.state.aws.state import AwsState
from crawler.telemetry.report import Report

log = logging.getLogger(__name__)

WAIT = 8.0
"""Seconds of a call within which the turns lie that it waits for. A second costs as much as sending fifty pages again;
those that come off the queue when their turns are near come five seconds before the last of them."""

HURRY = DRAIN + 2.0
"""Seconds from the stop to when everything is given back that is not done."""

LEAVE = 5.0
"""Seconds within which a worker that hurries has left."""

HAND_BACK, CLOSE = 3.0, 2.0
"""Seconds for sending again what was not begun, and for closing what a stopped worker leaves open."""

RESERVE = HURRY + LEAVE + HAND_BACK + CLOSE + 2.0
"""Seconds of a call in which nothing is begun any more; the last of them is never used."""

HELD = 5.0
"""Seconds for which Lambda may have had messages before it calls: it waits for a batch to fill."""

MEMORY_PER_SLOT = 16
"""MiB of the function's memory for each slot of the worker: large bodies are few at a time all the same."""

FEWEST, MOST = 8, 64
"""Slots."""


class Context(Protocol):
    """What Lambda tells of a call."""

    def get_remaining_time_in_millis(self) -> int: ...


class Event(msgspec.Struct):
    """What an event source of SQS sends."""

    deliveries: list[Delivery] = msgspec.field(name="Records")


class Fetcher:
    """What a process keeps from one call to the next: its name in the fleet, the open state, and the worker with all
    that it has open and knows."""

    def __init__(self) -> None:
        # Many processes of a crawl's life share a host name and a process id.
        self._name = f"function-{secrets.token_hex(6)}"
        self._state: AwsState | None = None
        self._worker: Worker | None = None
        self._report: Report | None = None
        self._told = Usage()

    @property
    def requests(self) -> Counter[str]:
        """Requests of the state by `service.Operation`."""
        return self._state.requests if self._state is not None else Counter()

    async def call(self, deliveries: list[Delivery], seconds: float) -> list[str]:
        """Work on an event for at most so many seconds: the ids of its messages that are to stay on their queue.

        Raises when the state cannot be opened, and when the loop failed before a message was worked off. Once one was,
        the others alone come back: were all to, those that were sent again would be there twice.
        """
        began = asyncio.get_running_loop().time()
        state = await self._open()
        # The stack's leases are six times a call. Should one be shorter, since somebody changed a queue or the function
        # by hand, others would work on the same pages before this call had ended.
        seconds = min(seconds, state.lease - HELD)
        left = began + seconds - asyncio.get_running_loop().time() - RESERVE
        if left <= 0:
            raise TimeoutError(
                f"{seconds:.0f} s are too few for a call: nothing begins in its last {RESERVE:.0f} s, and it ends "
                "before its timeout and the visibility timeout of its messages"
            )
        state.deliver(deliveries, time.time() + min(WAIT, left))
        fault: Exception | None = None
        try:
            await self._work(state, left)
        except Exception as error:
            fault = error
        staying = await state.hand_back(HAND_BACK)
        self._tell()
        if fault is not None:
            await self._let_go()
            if len(staying) == len(deliveries):
                raise fault
            log.error("the loop failed; %d messages of %d stay", len(staying), len(deliveries), exc_info=fault)
        return staying

    async def close(self) -> None:
        """Close everything. Lambda itself ends a process without a word, and nothing is lost by that."""
        await self._let_go()
        if self._state is not None:
            await self._state.close()

    async def _open(self) -> AwsState:
        if self._state is None:
            tune_memory()
            address = os.environ.get("CRAWLER_STATE", "")
            if not address.startswith("aws:"):
                raise UsageError("CRAWLER_STATE names no state on AWS: aws://STACK, or aws:?queue=NAME&table=NAME")
            place = address.removeprefix("aws:").removeprefix("//")
            self._state = await AwsState.open(place, worker=self._name, delivered=True)
        return self._state

    async def _work(self, state: AwsState, left: float) -> None:
        """Let the worker work, and stop it when the time is over: then it goes, and the next call has another."""
        if self._worker is None:
            memory = int(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024"))
            self._worker = Worker(
                state,
                "",
                name=self._name,
                concurrency=max(FEWEST, min(MOST, memory // MEMORY_PER_SLOT)),
                until=lambda: state.worked_off,
                # A page that is slower than a call is long would never end: as a failed attempt it does.
                longest=min(DEADLINE, left + DRAIN / 2),
            )
            self._report = Report(self._worker, os.environ["CRAWLER_STATE"], self._name, self._told)
        worker, loop = self._worker, asyncio.get_running_loop()
        timers = [loop.call_later(left, worker.stop), loop.call_later(left + HURRY, worker.stop)]
        try:
            async with asyncio.timeout(left + HURRY + LEAVE):
                outcome = await worker.shift()
            if outcome is Exit.STOPPED:
                await self._let_go()
        finally:
            for timer in timers:
                timer.cancel()

    async def _let_go(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                async with asyncio.timeout(CLOSE):
                    await worker.close()
            except TimeoutError:
                log.warning("what a stopped worker had open stays open")

    def _tell(self) -> None:
        """Print the call's metrics."""
        if self._report is not None and os.environ.get("CRAWLER_METRICS") == "emf":
            sys.stdout.write(f"{self._report.minute(time.time()).decode()}\n")
            sys.stdout.flush()
            self._told = PROCESS.used()


guard()
own_folder()
_runner = asyncio.Runner()
_fetcher = Fetcher()


def handler(event: dict[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Work on the messages of an event of an SQS queue. Answers those that are to stay on it."""
    deliveries = msgspec.convert(event, Event).deliveries
    staying = _runner.run(_fetcher.call(deliveries, context.get_remaining_time_in_millis() / 1000))
    return {"batchItemFailures": [{"itemIdentifier": message} for message in staying]}
