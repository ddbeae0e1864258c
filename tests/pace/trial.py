"""One trial of the pace: a fleet of real workers on hosts that never run out of pages, killed and restarted on the way.

start -> steady -> kills, one after the other -> steady -> all stopped, nothing for a while, all started -> steady
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests import command
from tests.chaos.backends import Backend
from tests.chaos.fleet import Blow, Fleet
from tests.pace.figures import by_host
from tests.pace.server import Behaviour
from tests.pace.site import MeasuredSite, Request, measured_site

CRAWL = "pace"

LEASE = 120
"""Seconds: the default of a crawl, and on a stack what the trial's queues get."""

STILL = 3.0
"""Seconds between the end of the whole fleet and its start."""

START = 60.0
"""Seconds that a fleet gets until every host has seen a request."""

LOOK = 0.05
"""Seconds between two looks at the server's log."""

LINKS = 3
"""Links of each page: the fleet finds more than it can fetch."""

BUSY = "busy.localhost"
"""The host that turns requests away for a while."""

BUSY_AFTER, RETRY_AFTER = 8, 5
"""Requests that it answers before, and seconds for which it then wants to be left alone."""


@dataclass(frozen=True)
class Trial:
    """What to run. `rate`: requests a second to each host. `seconds`: of each steady phase. `apart`: seconds from one
    kill to the next. `restart`: the signal that ends the whole fleet, None for no restart. `delay`: seconds that an
    answer takes, after `prompt` answers that take none. `busy`: one host more, which turns away
    requests for a while."""

    processes: int = 3
    hosts: int = 6
    rate: float = 2.0
    seconds: float = 60.0
    kills: int = 0
    apart: float = 8.0
    restart: signal.Signals | None = None
    delay: float = 0.0
    prompt: int = 0
    busy: bool = False
    seed: int = 1

    @property
    def names(self) -> list[str]:
        """The hosts that never ask for anything."""
        return [f"h{number}.localhost" for number in range(self.hosts)]


class Phase(msgspec.Struct, frozen=True):
    """A steady phase in monotonic seconds. A host's part of it is from its first request since `begin` on."""

    name: str
    begin: float
    end: float


class Outcome(msgspec.Struct, frozen=True):
    """What the server saw: every request, and when (monotonic) what happened to the fleet."""

    requests: Mapping[str, list[Request]]
    phases: list[Phase]
    kills: list[float]
    faults: list[str]


def run(backend: Backend, trial: Trial, folder: Path) -> Outcome:
    """Run in an empty folder, which keeps the state, the archive and the logs."""
    behaviours = {
        "*": Behaviour(delay=trial.delay, prompt=trial.prompt, links=LINKS),
        BUSY: Behaviour(links=LINKS, busy_after=BUSY_AFTER, retry_after=RETRY_AFTER),
    }
    with backend(folder, LEASE) as place:
        with measured_site(folder, behaviours) as site:
            _seed(site, trial, folder, place.env)
            fleet = Fleet(trial.processes, CRAWL, place.env, folder, random.Random(trial.seed))
            try:
                phases, kills = _events(fleet, trial, site)
            finally:
                fleet.end()
        faults = [worker.fault for worker in fleet.workers if worker.fault and worker.process.returncode >= 0]
        faults += [line for line in fleet.said() if "internal fault" in line]
        return Outcome(by_host(site.requests()), phases, kills, faults)


def _seed(site: MeasuredSite, trial: Trial, folder: Path, env: Mapping[str, str]) -> None:
    """As many seeds as a host can be asked for in all: links come on top, so that no host ever waits for pages."""
    steady = trial.seconds * (1 + bool(trial.kills) + bool(trial.restart))
    pages = round(trial.rate * (steady + trial.kills * trial.apart)) + 50
    hosts = trial.names + [BUSY] * trial.busy
    seeds = folder / "seeds.txt"
    seeds.write_text("".join(f"{site.url(host, f'/{page}')}\n" for page in range(pages) for host in hosts))
    options = ["--rate", str(trial.rate), "--allow-private", "--contact", "pace@example.com"]
    seeded = command.run("seed", "--file", str(seeds), "--crawl", CRAWL, *options, env=env)
    assert seeded.returncode == 0, seeded.stderr


def _events(fleet: Fleet, trial: Trial, site: MeasuredSite) -> tuple[list[Phase], list[float]]:
    kills: list[float] = []
    phases = [_steady("before", trial, site)]
    if trial.kills:
        for _ in range(trial.kills):
            kills.append(time.monotonic())
            fleet.strike(Blow.ONE)
            time.sleep(trial.apart)
        phases.append(_steady("after kills", trial, site))
    if trial.restart is not None:
        _stop(fleet, trial.restart)
        time.sleep(STILL)
        for _ in range(trial.processes):
            fleet.start()
        phases.append(_steady("after restart", trial, site))
    return phases, kills


def _steady(name: str, trial: Trial, site: MeasuredSite) -> Phase:
    """Let the fleet run for a phase's time, counted from when every host has seen a request."""
    begin = time.monotonic()

    def started() -> bool:
        seen = {request.host for request in site.requests() if request.arrived >= begin}
        return seen.issuperset(trial.names)

    _until(started, START)
    time.sleep(trial.seconds)
    return Phase(name, begin, time.monotonic())


def _stop(fleet: Fleet, with_signal: signal.Signals) -> None:
    """End every worker at once."""
    workers = fleet.alive
    for worker in workers:
        worker.told, worker.killed = True, with_signal == signal.SIGKILL
        worker.process.send_signal(with_signal)
    for worker in workers:
        worker.process.wait(timeout=30)


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not every host saw a request: see the workers' logs"
        time.sleep(LOOK)
