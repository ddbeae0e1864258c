"""The worker processes of a practice run: started, killed, replaced."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.command import COMMAND, clean_environment

START_UP = 1.5
"""Seconds within which a worker is still starting: importing, opening the state, asking for its first pages."""

DRAINING = 0.3
"""Seconds within which a worker that was told to stop is killed."""


class Blow(StrEnum):
    """A way to lose workers."""

    ONE = "one"
    STARTING = "one, then the one that replaces it while it starts"
    DRAINING = "one that was told to stop"
    ALL = "all at once"


@dataclass
class Worker:
    """A worker process. `killed` and `told`: what was done to it, so what its exit code may be."""

    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False
    told: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def fault(self) -> str:
        """What is wrong with how it ended; "" when nothing is."""
        code = self.process.returncode
        if self.killed or code == 0 or (self.told and code in (130, -15)):
            return ""
        last = self.log.read_text(errors="replace").strip().rpartition("\n")[2]
        return f"a worker ended with {code}: {last}"


class Fleet:
    """Keeps `size` workers of one crawl alive, whatever `strike` does to them, until they leave by themselves."""

    def __init__(self, size: int, crawl: str, env: Mapping[str, str], logs: Path, rng: random.Random) -> None:
        self._command = [*COMMAND, "work", "--until-complete", "--crawl", crawl]
        self._env, self._logs, self._rng = clean_environment(env), logs, rng
        self.workers: list[Worker] = []
        for _ in range(size):
            self.start()

    @property
    def alive(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.alive]

    @property
    def kills(self) -> int:
        return sum(worker.killed for worker in self.workers)

    @property
    def left(self) -> bool:
        """Whether a worker has left by itself: for it the crawl is complete, or it failed."""
        return any(not (worker.alive or worker.killed or worker.told) for worker in self.workers)

    def said(self) -> list[str]:
        """Every line that a worker wrote."""
        return [line for worker in self.workers for line in worker.log.read_text(errors="replace").splitlines()]

    def start(self) -> Worker:
        log = self._logs / f"worker-{len(self.workers) + 1}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command, env=self._env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def strike(self, blow: Blow) -> None:
        """Kill at least one worker, unless none is alive any more, and replace at once whom that costs."""
        alive = self.alive
        if not alive:
            return
        victim = self._rng.choice(alive)
        if blow is Blow.ALL:
            for worker in alive:
                self._kill(worker)
            for _ in alive:
                self.start()
        elif blow is Blow.STARTING:
            heir = self._replace(victim)
            time.sleep(self._rng.uniform(0, START_UP))
            self._replace(heir)
        elif blow is Blow.DRAINING:
            victim.told = True
            victim.process.terminate()
            time.sleep(self._rng.uniform(0, DRAINING))
            survivor = victim.alive
            self._replace(victim)
            if not survivor:  # it was quicker
                self.strike(Blow.ONE)
        else:
            self._replace(victim)

    def end(self) -> None:
        """Kill whoever is still there."""
        for worker in self.alive:
            worker.process.kill()
            worker.process.wait()

    def _replace(self, worker: Worker) -> Worker:
        self._kill(worker)
        return self.start()

    def _kill(self, worker: Worker) -> None:
        if worker.alive:
            worker.process.kill()
            # It may have ended by itself just before the signal.
            worker.killed = worker.process.wait() < 0
            with (self._logs / "kills.log").open("a") as log:
                log.write(f"{time.time():.6f} {worker.log.name} {worker.process.returncode}\n")
