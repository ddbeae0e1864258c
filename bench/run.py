"""The measurements' command line: `python -m bench.run crawl` and `python -m bench.run aws`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bench import cpu
from bench.site.plan import Shape

CACHE = Path(".cache/bench")


@click.group()
def main() -> None:
    """Measure what a page costs."""


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


if __name__ == "__main__":
    main()
