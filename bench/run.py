"""The measurements' command line: `python -m bench.run crawl`, `aws`, `pace` and `fairness`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click

from bench import cpu
from bench.site.plan import Shape

CACHE = Path(".cache/bench")


@click.group()
def main() -> None:
    """Measure what a page costs, and how polite and how fair a fleet is."""


@main.command()
@click.option("--pages", default=5000, show_default=True, help="Pages of the site.")
@click.option("--runs", default=3, show_default=True, help="Turns; medians are printed.")
@click.option("--port", default=8099, show_default=True, help="Port of the site on 127.0.0.1.")
@click.option("--only", multiple=True, type=click.Choice(list(cpu.CRAWLERS)), help="Measure these alone; repeatable.")
def crawl(pages: int, runs: int, port: int, only: tuple[str, ...]) -> None:
    """CPU a page beside the naive loop, and beside Scrapy where it is installed.

    Exit code 1 says that this crawler failed, did not fetch each page exactly once, or was impolite.
    """
    names = only or [name for name, crawler in cpu.CRAWLERS.items() if crawler.installed]
    sys.exit(not cpu.compare(Shape(pages=pages, port=port), runs, names, CACHE))


@main.command()
@click.option("--pages", default=1000, show_default=True, help="Pages of the site.")
@click.option("--workers", default=2, show_default=True, help="Worker processes on the stack.")
@click.option("--port", default=8099, show_default=True, help="Port of the site on 127.0.0.1.")
def aws(pages: int, workers: int, port: int) -> None:
    """AWS requests a page, by operation, against the emulator.

    Exit code 1 says that a process failed or that not each page was fetched exactly once.
    """
    from bench import aws as on_aws  # needs the emulator and the CDK, which the other measurement does not

    sys.exit(not on_aws.measure(Shape(pages=pages, port=port), workers, CACHE))


backend = click.option(
    "--backend", type=click.Choice(["sqlite", "redis", "aws"]), default="sqlite", show_default=True, help="The state."
)
processes = click.option("--processes", default=3, show_default=True, help="Worker processes.")


@main.command()
@backend
@processes
@click.option("--rate", default=2.0, show_default=True, help="Requests a second to one host.")
@click.option("--hosts", default=6, show_default=True, help="Hosts that never run out of pages.")
@click.option("--seconds", default=60.0, show_default=True, help="Of each steady phase.")
@click.option("--kills", default=0, show_default=True, help="Workers killed (and replaced), one after the other.")
@click.option("--restart", is_flag=True, help="Stop the whole fleet, and start it anew after a while.")
@click.option("--kill-all", is_flag=True, help="Restart after a kill of the whole fleet.")
@click.option("--delay", default=0.0, show_default=True, help="Seconds that an answer takes.")
@click.option("--prompt", default=0, show_default=True, help="Answers of each host that take no time, before that.")
@click.option("--busy", is_flag=True, help="One host more, which answers 429 with a Retry-After for a while.")
def pace(
    backend: str,
    processes: int,
    rate: float,
    hosts: int,
    seconds: float,
    kills: int,
    restart: bool,
    kill_all: bool,
    delay: float,
    prompt: int,
    busy: bool,
) -> None:
    """Rate, allowance and requests in flight of each host, measured at the server, before and after kills and restart.

    Exit code 1 says that a promise was broken.
    """
    from bench import pace as on_pace  # needs what the tests need
    from tests.pace.trial import Trial

    ending = signal.SIGKILL if kill_all else signal.SIGTERM if restart else None
    trial = Trial(processes, hosts, rate, seconds, kills, restart=ending, delay=delay, prompt=prompt, busy=busy)
    sys.exit(not on_pace.measure(backend, trial))


@main.command()
@backend
@processes
@click.option("--big", default=100_000, show_default=True, help="Pages of the big host.")
@click.option("--rate", default=1.0, show_default=True, help="Requests a second to one host.")
@click.option(
    "--kind",
    multiple=True,
    type=click.Choice(["paced", "plain", "slow", "silent"]),
    default=["paced", "slow", "silent"],
    show_default=True,
    help="The big host: Crawl-delay 10, as the others, three seconds an answer, no answer ever; repeatable.",
)
def fairness(backend: str, processes: int, big: int, rate: float, kind: tuple[str, ...]) -> None:
    """The time that 25 hosts of 10 pages take, alone and beside a host with very many.

    Exit code 1 says that they took more than 1.15 times as long and two seconds on top.
    """
    from bench import fairness as on_fairness  # needs what the tests need
    from tests.pace.fairness import Contest, Kind

    kinds = [Kind.ABSENT, *map(Kind, kind)]
    sys.exit(not on_fairness.measure(backend, [Contest(one, big=big, rate=rate, processes=processes) for one in kinds]))


@main.command()
@click.option("--rate", default=1.0, show_default=True, help="Requests a second to the host.")
@click.option("--workers", default=4, show_default=True, help="Worker processes on the stack.")
@click.option("--pages", default=150, show_default=True, help="Pages of the site.")
@click.option("--port", default=8099, show_default=True, help="Port of the site on 127.0.0.1.")
def pace_aws(rate: float, workers: int, pages: int, port: int) -> None:
    """SQS requests a page of one paced host, and how much of its allowance it gets, against the emulator.

    Exit code 1 says that a page costs too much, or that the host got too few requests or too many.
    """
    from bench import pace_aws as paced  # needs the emulator and the CDK

    sys.exit(not paced.measure(rate, workers, pages, CACHE, port))


@main.command()
@click.option("--pages", default=20_000, show_default=True, help="Pages of the big host.")
def starving_aws(pages: int) -> None:
    """Whether a big slow host keeps small ones waiting on AWS, and what its backlog costs, against the emulator.

    Exit code 1 says that the small hosts took noticeably longer.
    """
    from bench import starving_aws as starving  # needs the emulator

    sys.exit(not starving.measure(pages, CACHE))


@main.command()
@click.option("--hosts", default=30, show_default=True, help="Hosts.")
@click.option("--size", default=20, show_default=True, help="Pages of each.")
@click.option("--links", default=60, show_default=True, help="Links of a page.")
@click.option("--listed", is_flag=True, help="The pages are in sitemaps.")
@click.option("--rate", default=1.0, show_default=True, help="Requests a second to one host; 0: no limit.")
@click.option("--workers", default=2, show_default=True, help="Worker processes on the stack.")
@click.option("--port", default=8099, show_default=True, help="Port of the sites on 127.0.0.1.")
def cost(hosts: int, size: int, links: int, listed: bool, rate: float, workers: int, port: int) -> None:
    """AWS requests as `crawler cost --estimate` models them beside those that a crawl took, against the emulator.

    Exit code 1 says that a service's requests were modelled wrongly by more than a twentieth.
    """
    from bench import cost as costs  # needs the emulator and the CDK
    from bench.linked import Linked

    sys.exit(not costs.measure(Linked(hosts, size, links, port, listed), rate, workers, CACHE))


if __name__ == "__main__":
    main()
