"""A deployed stack whose doings become metrics: lines of real workers and of the janitor's looks, attributes of queues.

Real runs take seconds and alarms quarters of an hour. So what was really written is given times of a clock of the
test's own, and what is meant to last is written again each minute, or at each look.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import Any

from aiohttp import web

from crawler.entrypoints.opening import open_with_rows
from crawler.janitor.look import Found, Janitor
from crawler.state.port import CrawlState
from tests import command
from tests.emulator import Emulator, Template, output_id
from tests.infra.alarm_evaluation import Alarm, Metrics, State, alarms
from tests.telemetry.emf_rules import metrics_of

START = 1_800_000_000 - 1_800_000_000 % 86_400.0
"""When the test's clock begins."""

LOOK = 300.0
"""Seconds between two looks of the janitor."""

LASTING = 3600.0
"""Seconds for which a condition holds."""

CALL = "60"
"""Seconds of a call of a function."""

LANES = ("High", "Normal", "Low")

_names = itertools.count(1)


class Watched:
    """A stack of the test's own in the emulator, its metrics and its alarms."""

    def __init__(self, emulator: Emulator, template: Template, *, watching: Template | None = None) -> None:
        """`watching`: the template whose alarms are looked at, where it is not the one that is deployed."""
        self.name = f"Watched{next(_names)}"
        self.outputs = emulator.deploy(template, self.name)
        self.address = f"aws://{self.name}"
        self.env = {**emulator.environment, "CRAWLER_STATE": self.address, "CRAWLER_METRICS": "emf"}
        self.metrics = Metrics()
        self.alarms: dict[str, Alarm] = alarms(watching or template, self.name)
        self.sqs, self.normal = emulator.client("sqs"), self.outputs["FrontierNormal"]
        self._template = watching or template
        self._workers: list[subprocess.Popen[str]] = []

    async def seed(self, *arguments: str) -> None:
        polite = ("--rate", "0", "--allow-private", "--contact", "a@b.example")
        seeded = await asyncio.to_thread(command.run, "seed", *arguments, *polite, env=self.env)
        assert seeded.returncode == 0, seeded.stderr

    def worker(self, *arguments: str, endpoint: str = "") -> subprocess.Popen[str]:
        """A worker on the stack, by way of another endpoint if one is given."""
        env = {**self.env, **({"AWS_ENDPOINT_URL": endpoint} if endpoint else {})}
        self._workers.append(command.start("work", *arguments, env=env))
        return self._workers[-1]

    def close(self) -> None:
        """Leave no worker behind, whatever failed."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()

    async def call(self, function: str, event: Mapping[str, Any], **env: str) -> tuple[bool, list[str]]:
        """Call a function's handler in a process of its own, which then ends without a word, as Lambda ends them:
        whether it failed, and what it printed."""
        module = f"crawler.entrypoints.{function}"
        command_line = [sys.executable, "-m", "tests.stack.calling", module, CALL, json.dumps(event)]
        called = await asyncio.create_subprocess_exec(
            *command_line, env=command.clean_environment({**self.env, **env}), stdout=PIPE, stderr=PIPE
        )
        out, _ = await called.communicate()
        return called.returncode != 0, out.decode().splitlines()

    def url(self, queue: str) -> str:
        return str(self.sqs.get_queue_url(QueueName=queue)["QueueUrl"])

    def queue(self, key: str) -> str:
        """URL of a queue, by the key of the output that names it."""
        return self.url(self.outputs[key])

    def put_queues(self, at: float) -> None:
        """What SQS would write of the queues now: their attributes."""
        for key in (*(f"Frontier{lane}" for lane in LANES), "DeadLetters"):
            told = self.sqs.get_queue_attributes(QueueUrl=self.queue(key), AttributeNames=["All"])["Attributes"]
            for state in ("", "NotVisible", "Delayed"):
                value = float(told[f"ApproximateNumberOfMessages{state}"])
                self.put_queue(key, f"ApproximateNumberOfMessages{state or 'Visible'}", at, value)

    def waiting(self, key: str) -> int:
        """Messages that can be received."""
        name = "ApproximateNumberOfMessages"
        told = self.sqs.get_queue_attributes(QueueUrl=self.queue(key), AttributeNames=[name])["Attributes"]
        return int(told[name])

    def put_queue(self, key: str, metric: str, at: float, value: float) -> None:
        """What SQS writes of a queue, by the key of the output that names it."""
        self.metrics.put("AWS/SQS", metric, {"QueueName": output_id(self._template, key)}, at, value)

    def put_call(self, key: str, at: float, *, failed: bool) -> None:
        """What Lambda writes of a call of a function."""
        function = {"FunctionName": output_id(self._template, key)}
        self.metrics.put("AWS/Lambda", "Errors", function, at, float(failed))

    def put_dropped(self, key: str, at: float) -> None:
        """What Lambda writes of an event that it has given up, after the calls for it have failed."""
        self.metrics.put("AWS/Lambda", "AsyncEventsDropped", {"FunctionName": output_id(self._template, key)}, at, 1.0)

    def put_lasting(self, lines: Iterable[str], *, workers: int = 1, every: float = 60) -> None:
        """The lines of a worker as so many like it would write them every so many seconds."""
        kept = list(lines)
        told = [line for line in kept if "_aws" in line]
        assert told, "no line of metrics"
        for line in told:
            metrics_of(line)  # which CloudWatch must take
        for number in range(int(LASTING / every)):
            for line in kept * workers:
                self.metrics.put_line(line, START + number * every + 1)

    def states(self) -> dict[str, list[State]]:
        """The states of all alarms over the time for which conditions hold."""
        return {name: alarm.history(self.metrics, START, START + LASTING) for name, alarm in self.alarms.items()}

    def ringing(self) -> set[str]:
        """The alarms that ring at some time, but for the janitor's, which rings wherever a test has no looks."""
        return {name for name, states in self.states().items() if State.ALARM in states} - {"Janitor"}

    @asynccontextmanager
    async def janitor(self) -> AsyncIterator[Looking]:
        """The janitor, in this process; its environment must lead to the emulator."""
        state = await open_with_rows(self.address, worker="janitor")
        try:
            yield Looking(self, state)
        finally:
            await state.close()


class Looking:
    """Looks of the janitor, a number of minutes apart on a clock of its own, which begins now."""

    def __init__(self, watched: Watched, state: CrawlState) -> None:
        self._watched, self._ahead, self._looks = watched, 0.0, 0
        self.state = state
        self.lines: list[str] = []
        self._janitor = Janitor(
            state,
            watched.address,
            announce=_nobody,
            stop_workers=None,
            emit=lambda line: self.lines.append(line.decode()),
            clock=lambda: time.time() + self._ahead,
        )

    async def look(self) -> Found:
        """Look once, and write what it tells at the time of that look."""
        self.lines.clear()
        dead = self._watched.waiting("DeadLetters")
        found = await self._janitor.look(time.time() + self._ahead + 600)
        at = START + self._looks * LOOK + 1
        taken = dead - self._watched.waiting("DeadLetters")
        self._watched.put_queue("DeadLetters", "NumberOfMessagesReceived", at, taken)
        for line in self.lines:
            metrics_of(line)  # which CloudWatch must take
            self._watched.metrics.put_line(line, at)
        self._watched.put_call("JanitorFunction", at, failed=bool(found.faults))
        self._watched.put_queues(at)
        self._looks += 1
        self._ahead += LOOK
        return found


async def _nobody(_: str) -> None:
    """There is no event bus."""


async def stopped(worker: subprocess.Popen[str]) -> list[str]:
    """Tell a worker to stop, and give what it wrote."""
    worker.send_signal(signal.SIGTERM)
    return await ended(worker, 130)


async def ended(worker: subprocess.Popen[str], code: int = 0) -> list[str]:
    """Wait for a worker's end, and give what it wrote."""
    out, errors = await asyncio.to_thread(worker.communicate, timeout=60)
    assert worker.returncode == code, errors
    return out.splitlines()


class Site:
    """A front page, and pages that it links to, each of which answers as its path says: with a status; that of 1 is
    200, when `released`. robots.txt disallows /999/."""

    def __init__(self, *statuses: int) -> None:
        self.released = asyncio.Event()
        self._links = "".join(f'<a href="/{status}/{n}">{n}</a>' for n, status in enumerate(statuses))
        self.asked: Counter[str] = Counter()
        """How often for each page but the front."""
        self.url = ""

    async def __aenter__(self) -> Site:
        app = web.Application()
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/", self._front)
        app.router.add_get(r"/{status:\d+}/{n}", self._page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def until_asked(self, times: int) -> None:
        """Wait until so many requests for pages have come."""
        await asyncio.to_thread(command.wait_for, lambda: self.asked.total() >= times)

    async def _robots(self, _: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nDisallow: /999/\n")

    async def _front(self, _: web.Request) -> web.Response:
        return web.Response(text=f"<html><body>{self._links}</body></html>", content_type="text/html")

    async def _page(self, request: web.Request) -> web.Response:
        self.asked[request.path] += 1
        status = int(request.match_info["status"])
        if status == 1:
            await self.released.wait()
        headers = {301: {"Location": f"/200/{request.match_info['n']}"}, 429: {"Retry-After": "600"}}.get(status, {})
        return web.Response(status=max(status, 200), text=f"{status}", headers=headers)
