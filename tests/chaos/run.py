"""One practice run: serve a site, crawl it while workers are killed, let the crawl end, look at everything."""

from __future__ import annotations

import io
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from crawler.demo.content import Site
from crawler.demo.plan import HOSTS, SMALLEST
from crawler.loop import AHEAD
from tests import command
from tests.chaos.backends import Backend, Place
from tests.chaos.figures import Figures, ahead, busiest_second
from tests.chaos.fleet import Blow, Fleet
from tests.local_site import DemoSite, demo_site_process

STALLED = 120.0
"""Seconds without a new page after which a crawl counts as hanging. A lapsed lease or robots.txt marker takes 30."""

TAIL = 0.95
"""Share of the pages after which few are left. The last fifth of the kills falls behind it."""

SWEPT = re.compile(r"queued (\d+) pages again")
"""What a worker says when it had to queue what a crash left on no queue."""

LOOK = 0.02
"""Seconds between two looks at the site's log."""

DELAY_MS = 20
"""How long the site takes for an answer."""


@dataclass(frozen=True)
class Practice:
    """What to run. `pages`: URLs that the crawl must answer. `rate`: requests a second to each of the three hosts.
    `lease`: seconds. `seed`: of everything that is random."""

    pages: int = 5000
    workers: int = 3
    kills: int = 20
    rate: float = 30.0
    concurrency: int = 16
    lease: int = 8
    seed: int = 1


class _Progress:
    """How much of the site was answered at least once, from the log as it grows."""

    def __init__(self, log: Path, pages: int) -> None:
        self._log, self._at, self._pages = log, 0, pages
        self._seen: set[bytes] = set()
        self._moved_at = time.monotonic()

    @property
    def missing(self) -> int:
        return self._pages - len(self._seen)

    @property
    def stalled(self) -> bool:
        return time.monotonic() - self._moved_at > STALLED

    def look(self) -> float:
        """The share now."""
        with self._log.open("rb") as log:
            log.seek(self._at)
            new = log.read()
        new = new[: new.rfind(b"\n") + 1]  # the last line may be half written
        before = len(self._seen)
        for line in new.splitlines():
            _, host, _, target = line.split(b" ", 3)
            if target != b"/robots.txt":
                self._seen.add(host + target)
        self._at += len(new)
        if len(self._seen) > before:
            self._moved_at = time.monotonic()
        return len(self._seen) / self._pages


def practise(backend: Backend, practice: Practice, folder: Path) -> Figures:
    """Run in an empty folder, which keeps the state, the archive and the logs. Takes minutes at full size."""
    others = len(Site(1, SMALLEST).truth.fetched) - SMALLEST  # files, redirects, missing pages
    with (
        backend(folder, practice.lease) as place,
        demo_site_process(folder, pages=practice.pages - others, delay_ms=DELAY_MS) as site,
    ):
        return _run(place, site, practice, folder)


def _run(place: Place, site: DemoSite, practice: Practice, folder: Path) -> Figures:
    options = ["--rate", str(practice.rate), "--concurrency", str(practice.concurrency)]
    options += ["--lease", str(practice.lease), "--allow-private"]
    crawl = _json(place, "seed", *site.seeds, *options)["crawl"]
    rng = random.Random(practice.seed)
    progress = _Progress(folder / "access.log", practice.pages)
    began = time.monotonic()
    fleet = Fleet(practice.workers, crawl, place.env, folder, rng)
    try:
        for share, blow in blows(practice, rng):
            while progress.look() < share and not fleet.left and not progress.stalled:
                time.sleep(LOOK)
            if not fleet.left:
                fleet.strike(blow)
        while not fleet.left and not progress.stalled:
            time.sleep(LOOK)
            progress.look()
        missing_at_exit = progress.missing
        # The others leave at this moment: what they lose now must not matter.
        fleet.strike(Blow.ALL)
        while fleet.alive and not progress.stalled:
            time.sleep(LOOK)
    finally:
        stalled = bool(fleet.alive)
        fleet.end()
    seconds = time.monotonic() - began
    status, merged = _json(place, "status"), _json(place, "merge")
    verified = _json(place, "verify", codes=(0, 1))
    swept = _json(place, "sweep")["queued"] + sum(
        int(found[1]) for line in fleet.said() if (found := SWEPT.search(line))
    )
    rows = pq.read_table(io.BytesIO(place.read(merged["path"])), columns=["url", "url_key", "outcome"]).to_pylist()
    done = {site.canonical(row["url"]) for row in rows if row["outcome"] == "done"}
    requests, fetched = site.requests(), site.fetched()
    return Figures(
        pages=len(site.truth.fetched),
        seconds=seconds,
        kills=fleet.kills,
        in_flight=AHEAD * practice.concurrency + round(len(HOSTS) * practice.rate * place.flush_every),
        missing_at_exit=missing_at_exit,
        stalled=stalled,
        ended=[worker.fault for worker in fleet.workers if worker.fault],
        said=[line for line in fleet.said() if "internal fault" in line],
        requests=len(requests),
        unfetched=sorted(site.truth.fetched - fetched.keys()),
        unasked=sorted(fetched.keys() - site.truth.fetched),
        refetched=fetched.total() - len(fetched),
        rate=practice.rate,
        busiest=busiest_second(requests),
        ahead=ahead(requests, practice.rate),
        discovered=status["discovered"],
        done=status["done"],
        dead=status["dead"],
        leases=status["leased"] + status["pending"],
        swept=swept,
        rows=len(rows),
        lost=sorted(site.truth.fetched - done),
        strange=sorted(done - site.truth.fetched),
        doubled=len(rows) - len({row["url_key"] for row in rows}),
        faults=verified["faults"],
    )


def blows(practice: Practice, rng: random.Random) -> Iterator[tuple[float, Blow]]:
    """When (by the share of the pages answered) and how workers are lost: the first before anything is answered,
    most on the way, a fifth while few pages are left, and all workers at once when the last page was answered but
    perhaps not settled."""
    tail = max(1, practice.kills // 5)
    ways = practice.kills - tail
    shares = [0.0] + [TAIL * (n + rng.random()) / ways for n in range(1, ways)]
    shares += [TAIL + (1 - TAIL) * (n + rng.random()) / tail for n in range(tail)]
    for share in shares:
        yield share, rng.choices(list(Blow), weights=(6, 2, 2, 1))[0]
    yield 1.0, Blow.ALL


def _json(place: Place, *arguments: str, codes: tuple[int, ...] = (0,)) -> Mapping[str, Any]:
    """The JSON object that a command prints."""
    result = command.run(*arguments, "--json", env=place.env)
    assert result.returncode in codes, result.stdout + result.stderr
    answer: Mapping[str, Any] = msgspec.json.decode(result.stdout)
    return answer
