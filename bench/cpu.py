"""CPU a page of this crawler beside other crawlers, in turns on the same site."""

from __future__ import annotations

import compileall
import importlib.util
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import crawler
from bench import manners, measure, web
from bench.site.plan import Shape
from bench.site.write import site


@dataclass(frozen=True, slots=True)
class Crawler:
    """A crawler under measurement. `arguments` are Python's, with {seed} and {out} in them; `needs` is a package."""

    name: str
    arguments: str
    needs: str

    def command(self, seed: str, out: Path) -> list[str]:
        """The command that crawls from `seed` and keeps what it writes in the folder `out`."""
        return [sys.executable, *(word.format(seed=seed, out=out) for word in self.arguments.split())]

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None


OURS = (
    "-m crawler crawl {seed} --scope any --rate 0 --allow-private --processes 1 --contact bench@example.com --quiet "
    "--out {out}/crawl"
)
NAIVE = "naive"
CRAWLERS = {
    crawler.name: crawler
    for crawler in (
        Crawler(NAIVE, "-m bench.peers.naive", "aiohttp"),
        Crawler("crawler", OURS, "crawler"),
        Crawler("scrapy", "-m bench.peers.scrapy_run plain", "scrapy"),
        Crawler("scrapy-tuned", "-m bench.peers.scrapy_run tuned", "scrapy"),
    )
}


@dataclass(frozen=True, slots=True)
class Run:
    """One crawl measured."""

    cost: measure.Cost
    manners: manners.Manners

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a page of the site."""
        return 1000 * self.cost.cpu / self.manners.pages

    @property
    def sound(self) -> bool:
        """Whether the crawl ended well and fetched every page, so that its cost means something."""
        return self.cost.code == 0 and not self.manners.missed


def compare(shape: Shape, runs: int, names: Sequence[str], cache: Path) -> bool:
    """Measure the crawlers in turns and print a table; True unless ours failed or did not fetch each page once."""
    folder = site(shape, cache)
    # As an installer does; without it, each process would compile what it imports.
    compileall.compile_dir(crawler.__path__[0], quiet=1)
    print(f"{shape.pages} pages on {shape.hosts} hosts, served by {web.server_name()}; {runs} runs in turns, medians")
    measured: dict[str, list[Run]] = {name: [] for name in names}
    for turn in range(runs):
        for name in names:
            out = cache / "runs" / f"{name}-{turn + 1}"
            run = _once(CRAWLERS[name], folder, shape.port, out)
            measured[name].append(run)
            ended = (
                f"{run.cpu_ms:.3f} ms a page, {run.cost.wall:.1f} s" if run.sound else f"failed: see {out}/output.txt"
            )
            print(f"  run {turn + 1}  {name:12} {ended}", flush=True)
    _table(measured)
    ours = measured.get("crawler", [])
    return all(run.sound and run.manners.faultless for run in ours)


def _once(crawler: Crawler, folder: Path, port: int, out: Path) -> Run:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    seed = (folder / "urls.txt").read_text().split("\n", 1)[0]
    environment = {**os.environ, "SEED": seed, "OUT": str(out)}
    with web.served(folder, port, out / "web") as log:
        cost = measure.run(crawler.command(seed, out), env=environment, output=out / "output.txt")
    return Run(cost, manners.read(log, folder))


def _table(measured: dict[str, list[Run]]) -> None:
    yardstick = statistics.median(run.cpu_ms for run in measured[NAIVE]) if measured.get(NAIVE) else None
    heading = f"{'CPU ms/page':>12} {'to naive':>9} {'peak MB':>8} {'missed':>7} {'doubled':>8} {'forbidden':>10}  exit"
    print(f"\n{'':12} {heading}")
    for name, runs in measured.items():
        cpu = statistics.median(run.cpu_ms for run in runs)
        sound = all(run.sound for run in runs)
        ratio = (f"{cpu / yardstick:.2f}x" if yardstick else "-") if sound else "failed"
        memory = statistics.median(run.cost.rss for run in runs) / 1e6
        worst = [max(getattr(run.manners, field) for run in runs) for field in ("missed", "doubled", "forbidden")]
        codes = ",".join(sorted({str(run.cost.code) for run in runs}))
        print(f"{name:12} {cpu:12.3f} {ratio:>9} {memory:8.0f} {worst[0]:7} {worst[1]:8} {worst[2]:10}  {codes}")
