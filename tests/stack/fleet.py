"""What fetches for a deployed stack in the emulator: tasks, which this process runs as ECS would, and functions."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil

from crawler.janitor.look import SILENT
from crawler.model import Beat
from tests import command
from tests.e2e.test_aws import Stack

SPOOL = "/spool"
"""Where a task has its volume."""

LEFT = 130
"""How a worker ends that was told to."""


class Tasks:
    """The stack's service: processes with the command and environment of the task definition that it has now."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._ecs = stack.emulator.client("ecs")
        self._cluster, self._service = stack.outputs["Cluster"], stack.outputs["Service"]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._started = 0

    @property
    def desired(self) -> int:
        return int(self._description()["desiredCount"])

    def want(self, count: int) -> None:
        """What scaling does when messages wait."""
        self._ecs.update_service(cluster=self._cluster, service=self._service, desiredCount=count)
        self.start()

    def start(self) -> None:
        """Run as many tasks as are wanted."""
        while len(self._processes) < self.desired:
            self._started += 1
            spool = self._folder / f"task-{self._started}"
            spool.mkdir()
            self._processes.append(self._run(spool))

    def kill_one(self) -> None:
        """Kill a task as when its machine is lost; ECS starts another."""
        victim = self._processes.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        forget(self._stack, victim.pid)
        self.start()

    def leave(self) -> None:
        """Tell all tasks to stop, as ECS does for a smaller service or another task definition."""
        for process in self._processes:
            process.terminate()
        assert {process.wait(timeout=60) for process in self._processes} == {LEFT}
        self._processes.clear()

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _run(self, spool: Path) -> subprocess.Popen[bytes]:
        container = self._container()
        given = {entry["name"]: entry["value"].replace(SPOOL, str(spool)) for entry in container["environment"]}
        with (spool / "log").open("wb") as log:
            return subprocess.Popen(
                [*command.COMMAND, *container["command"]],
                env=command.clean_environment({**given, **self._stack.emulator.environment}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _container(self) -> dict[str, Any]:
        name = self._description()["taskDefinition"]
        definition = self._ecs.describe_task_definition(taskDefinition=name)["taskDefinition"]
        (container,) = definition["containerDefinitions"]
        assert isinstance(container, dict)
        return container

    def _description(self) -> dict[str, Any]:
        (service,) = self._ecs.describe_services(cluster=self._cluster, services=[self._service])["services"]
        assert isinstance(service, dict)
        return service


@contextmanager
def tasks(stack: Stack, folder: Path) -> Iterator[Tasks]:
    found = Tasks(stack, folder)
    try:
        yield found
    finally:
        found.end()


def forget(stack: Stack, pid: int) -> None:
    """Let a minute pass for the last sign of life of a worker that was killed, until which it may be alive."""
    dynamodb, table = stack.emulator.client("dynamodb"), stack.outputs["ControlTable"]
    for item in dynamodb.scan(TableName=table)["Items"]:
        if "beat" not in item:
            continue
        beat = msgspec.json.decode(item["beat"]["S"], type=Beat)
        if f"-{pid}-" in beat.worker:
            older = msgspec.structs.replace(beat, at=beat.at - SILENT)
            item["beat"]["S"] = msgspec.json.encode(older).decode()
            dynamodb.put_item(TableName=table, Item=item)


def kill_a_function(folder: Path) -> None:
    """Kill one of the processes in which the emulator that runs in `folder` runs functions."""
    command.wait_for(lambda: _functions(folder))[0].kill()


def _functions(folder: Path) -> list[psutil.Process]:
    ours = f"{folder}/ministack-lambda-"
    every = psutil.process_iter(["cmdline"])
    return [one for one in every if any(ours in word for word in one.info["cmdline"] or ())]
