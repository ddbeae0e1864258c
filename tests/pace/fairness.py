"""Whether one host can keep the others waiting: many small hosts are crawled beside a big one and without it."""

from __future__ import annotations

import math
import random
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from tests.chaos.backends import Backend
from tests.chaos.fleet import Fleet
from tests.command import COMMAND, clean_environment
from tests.pace.server import Behaviour
from tests.pace.site import MeasuredSite, Request, measured_site

CRAWL = "fairness"
BIG = "big.localhost"
LEASE = 120
LOOK = 0.05
SEEDING = 1800.0
"""Seconds that adding the seeds may take."""

PATIENCE = 180.0
"""Seconds after which the small hosts count as starved."""


class Kind(StrEnum):
    """How the big host is."""

    ABSENT = "absent"
    PACED = "paced"
    """It asks for ten seconds between two requests."""
    PLAIN = "plain"
    """It is as fast as the small ones."""
    SLOW = "slow"
    """It takes three seconds for an answer."""
    SILENT = "silent"
    """It takes requests and never answers."""


_BEHAVIOURS = {
    Kind.PACED: Behaviour(crawl_delay=10.0),
    Kind.SLOW: Behaviour(delay=3.0),
    Kind.SILENT: Behaviour(silent=True),
}


@dataclass(frozen=True)
class Contest:
    """What to crawl: `hosts` small hosts with so many `pages` each, and behind a big one `big` pages, all of them
    seeds, the big host's first. `rate`: requests a second to each host."""

    kind: Kind
    big: int = 100_000
    hosts: int = 25
    pages: int = 10
    rate: float = 1.0
    processes: int = 3

    def urls(self, site: MeasuredSite) -> list[str]:
        big = 0 if self.kind is Kind.ABSENT else self.big
        seeds = [site.url(BIG, f"/{page}") for page in range(big)]
        return seeds + [site.url(host, f"/{page}") for page in range(self.pages) for host in self.names]

    @property
    def names(self) -> list[str]:
        """The small hosts."""
        return [f"s{number}.localhost" for number in range(self.hosts)]


class Result(msgspec.Struct, frozen=True):
    """When it was over for the small hosts: seconds from the fleet's first request on, infinite when they starved.

    starting: seconds from the fleet's start to that request, which is to any host. answered: pages of the small hosts.
    meanwhile: the big host's requests that arrived until it was over; `waited` of them had no answer yet.
    """

    seconds: float
    starting: float
    answered: int
    meanwhile: int
    waited: int


def run(backend: Backend, contest: Contest, folder: Path) -> Result:
    """Crawl in an empty folder until the small hosts are finished, and no further."""
    behaviour = _BEHAVIOURS.get(contest.kind)
    with backend(folder, LEASE) as place:
        with measured_site(folder, {BIG: behaviour} if behaviour else None) as site:
            (folder / "seeds.txt").write_text("".join(f"{url}\n" for url in contest.urls(site)))
            options = ["--rate", str(contest.rate), "--allow-private", "--contact", "pace@example.com"]
            subprocess.run(
                [*COMMAND, "seed", "--file", str(folder / "seeds.txt"), "--crawl", CRAWL, *options],
                env=clean_environment(place.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=SEEDING,
                check=True,
            )
            began = time.monotonic()
            fleet = Fleet(contest.processes, CRAWL, place.env, folder, random.Random(0))
            try:
                while not finished(site.requests(), contest) and time.monotonic() < began + PATIENCE:
                    time.sleep(LOOK)
            finally:
                fleet.end()
        return result(site.requests(), contest, began)


def finished(requests: Sequence[Request], contest: Contest) -> float | None:
    """When the last page of the small hosts was answered; None when not all are."""
    first: dict[tuple[str, str], float] = {}
    for request in requests:
        if request.host != BIG and not request.is_robots and request.status == 200:
            first.setdefault((request.host, request.target), request.left)
    return max(first.values()) if len(first) == contest.hosts * contest.pages else None


def result(requests: Sequence[Request], contest: Contest, began: float) -> Result:
    """What the log says of a contest whose fleet was started at `began`."""
    over = finished(requests, contest)
    big = [request for request in requests if request.host == BIG and request.arrived <= (over or math.inf)]
    first = min((request.arrived for request in requests), default=math.inf)
    return Result(
        seconds=math.inf if over is None else over - first,
        starting=first - began,
        answered=len({(r.host, r.target) for r in requests if r.host != BIG and not r.is_robots and r.status == 200}),
        meanwhile=len(big),
        waited=sum(over is not None and request.left > over for request in big),
    )
