"""The pace of a fleet, measured at the server: no host above its rate, each at all of its allowance, whatever dies."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.pace import figures
from tests.pace.site import Request
from tests.pace.trial import BUSY, RETRY_AFTER, Outcome, Phase, Trial, run

WARM = 3.0
"""Seconds from the first request to a host on that do not count for its average: the fleet shares its robots.txt."""

WITHIN = 0.02
"""How far the average may be from the rate."""

LEAST = 0.95
"""Share of its allowance that every host must get."""

CAP = 2
"""Requests that a host may have in flight: the default of a crawl."""

AHEAD = {"sqlite": 1.0, "redis": 1.0, "aws": 12.0}
"""Seconds ahead for which a worker may hold turns of a host that answers well, by backend: what dies with it."""

AFTERMATH = 7.0
"""Seconds beyond those until the next kill, or until the fleet counts as steady again."""

TRAVEL = 0.05
"""Seconds by which a request may seem early: the pause is the worker's, from when the answer arrived there."""


def measure(backend: str, trial: Trial) -> bool:
    """Run a trial and print its figures; whether every promise was kept. What a failed one leaves behind is kept.

    SystemExit that says what is missing.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"pace-{backend}-"))
    trial = replace(trial, apart=AHEAD[backend] + AFTERMATH)
    print(f"{trial.processes} processes on {backend}, {trial.hosts} hosts at {trial.rate:g}/s each", flush=True)
    try:
        outcome = run(BACKENDS[backend], trial, folder)
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
        sys.exit(f"bench: {missing}")
    broken = list(report(backend, trial, outcome))
    for sentence in broken:
        print(f"BROKEN  {sentence}")
    if broken:
        print(f"everything is kept in {folder}")
    else:
        shutil.rmtree(folder)
    return not broken


def report(backend: str, trial: Trial, outcome: Outcome) -> Iterator[str]:
    """Print the figures; yield a sentence for every promise that was broken."""
    yield from outcome.faults
    yield from _all_the_time(trial, outcome)
    if trial.delay * trial.rate < 1:  # else the hosts are too slow for the rate, and only the cap can be kept
        print(f"{'':16} {'average a second':>20} {'share of allowance':>20}")
        for phase in outcome.phases:
            yield from _steady(trial, outcome, phase)
        if outcome.kills:
            yield from _kills(trial, outcome, AHEAD[backend])
    if trial.busy:
        yield from _pause(outcome.requests.get(BUSY, []))


def _all_the_time(trial: Trial, outcome: Outcome) -> Iterator[str]:
    """What must hold in every second, whatever happens to the fleet."""
    busiest = {host: figures.busiest_second(requests) for host, requests in outcome.requests.items()}
    flights = {host: figures.most_in_flight(requests) for host, requests in outcome.requests.items()}
    allowed = figures.allowed(trial.rate)
    most, open_at_once = max(busiest.values(), default=0), max(flights.values(), default=0)
    total = sum(map(len, outcome.requests.values()))
    print(f"busiest second   {most} requests to one host of {total} in all (allowed {allowed})")
    print(f"in flight        {open_at_once} requests to one host at a time at most (allowed {CAP})")
    if most > allowed:
        yield f"{_named(busiest, allowed)} in a second; {allowed} are allowed"
    if open_at_once > CAP:
        yield f"{_named(flights, CAP)} in flight; {CAP} are allowed"


def _steady(trial: Trial, outcome: Outcome, phase: Phase) -> Iterator[str]:
    averages, shares = {}, {}
    for host in trial.names:
        requests = figures.within(outcome.requests.get(host, []), phase.begin, phase.end)
        averages[host] = figures.average(figures.within(requests, requests[0].arrived + WARM, phase.end))
        shares[host] = figures.share(requests, trial.rate, phase.end)
    print(
        f"{phase.name:16} {min(averages.values()):9.3f} … {max(averages.values()):.3f}"
        f" {min(shares.values()):13.1%} … {max(shares.values()):.1%}"
    )
    off = [host for host, value in averages.items() if abs(value / trial.rate - 1) > WITHIN]
    if off:
        yield f"{phase.name}: the average of {', '.join(off)} is off by more than {WITHIN:.0%}"
    poor = [host for host, value in shares.items() if value < LEAST]
    if poor:
        yield f"{phase.name}: {', '.join(poor)} got less than {LEAST:.0%} of the allowance"


def _kills(trial: Trial, outcome: Outcome, ahead: float) -> Iterator[str]:
    """Turns that were lost around a kill: at most those that the dead worker held."""
    held = math.ceil(trial.rate * ahead) + 1
    losses = [
        figures.lost(outcome.requests.get(host, []), trial.rate, at, at + trial.apart)
        for at in outcome.kills
        for host in trial.names
    ]
    print(
        f"kills            {len(outcome.kills)}; at most {max(losses):.1f} turns of a host lost around one,"
        f" {sum(losses) / len(losses):.2f} on average (a dead worker held at most {held})"
    )
    if max(losses) > held + 1:  # one more: where the window's edges fall
        yield f"{max(losses):.1f} turns of a host were lost around a kill; the dead worker held at most {held}"


def _pause(requests: Sequence[Request]) -> Iterator[str]:
    pause = figures.pause(requests, 429, RETRY_AFTER - TRAVEL)
    if pause is None:
        yield "the busy host saw too few requests to turn one away"
        return
    print(f"Retry-After      {RETRY_AFTER} s: next request after {pause.resumed:.2f} s, {pause.strayed} within them")
    if pause.strayed:
        yield f"{pause.strayed} requests later than {figures.OBEYED:g} s after a 429 that asked for {RETRY_AFTER} s"


def _named(counts: dict[str, int], most: int) -> str:
    return ", ".join(f"{host}: {count}" for host, count in sorted(counts.items()) if count > most)
