"""The options that commands share, each with the environment variable that sets it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from crawler import config
from crawler.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def option(*names: str, **more: Any) -> Callable[[F], F]:
    """A click option that an environment variable named after it can set; `--help` shows the variable."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "CRAWLER_" + long.removeprefix("--").replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, **more)


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one, in the order in which `--help` shall show them."""

    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def quietness(function: F) -> F:
    """-v/-q, on every command."""
    return together(
        option("-v", "--verbose", count=True, help="Say more; -vv shows tracebacks."),
        option("-q", "--quiet", is_flag=True, help="Say only what went wrong, and what was asked for."),
    )(function)


state_option = option(
    "--state", help="Where the crawl's state is: a SQLite file, redis://host:6379/0, or aws://STACK.", metavar="URL"
)
store_option = option("--store", help="Where the archive is: a folder, or s3://bucket/prefix.", metavar="URL")
crawl_option = option("--crawl", help="Which crawl; without it the only one, else the latest.", metavar="ID")
json_option = option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")

common = together(state_option, store_option, crawl_option, json_option, quietness)


class Duration(click.ParamType[float]):
    """`90s`, `15m`, `2h`, `1d`; seconds when no unit is given."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return config.seconds(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


class PerSecond(click.ParamType[float]):
    """`5/s`, `300/m`, `1000/h`; per second when no unit is given."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*([smh]))?\s*", str(value))
        rate = float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2] or "s"] if match else 0.0
        if not rate:
            self.fail(f"{str(value)!r} is not a rate: write for example 5/s, 300/m or 1000/h", param, ctx)
        return rate


crawl_settings = together(
    option("--rate", type=float, help="Requests per second to one host, over the whole fleet (default 1; 0 = no limit, for your own servers)."),
    option("--pace-by", type=click.Choice(["domain", "host"]), help="What counts as one host for the rate (default: its registrable domain)."),
    option("--scope", type=click.Choice(["host", "domain", "any"]), help="Which links to follow: the seeds' hosts (default), their registrable domains, or all."),
    option("--include", multiple=True, metavar="RE", help="Follow only links whose URL matches; repeatable."),
    option("--exclude", multiple=True, metavar="RE", help="Do not follow links whose URL matches; repeatable, wins over --include."),
    option("--max-pages", type=int, metavar="N", help="End after this many URLs answered."),
    option("--max-pages-per-host", type=int, metavar="N", help="Skip the rest of a host, as --pace-by counts hosts, after this many of its URLs answered."),
    option("--max-depth", type=int, metavar="N", help="Follow links at most this far from a seed (a seed has depth 0)."),
    option("--max-time", type=Duration(), metavar="TIME", help="End after this long, for example 90s, 15m, 2h."),
    option("--max-body", type=int, metavar="BYTES", help="Decoded bytes kept of one page (default 10 MiB; longer is cut and marked)."),
    option("--boost", multiple=True, metavar="RE=N", help="Fetch pages whose URL matches N places earlier (-5 to 5, negative: later); repeatable, several that match add up."),
    option("--in-flight-per-host", type=int, metavar="N", help="Requests at one host at a time, over the whole fleet (default 2; without meaning at --rate 0)."),
    option("--concurrency", type=int, metavar="N", help="Requests in flight per process (default 64)."),
    option("--user-agent", metavar="UA", help="The User-Agent header; robots.txt groups are matched with its part before the first '/'."),
    option("--contact", metavar="URL-or-mail", help="How a site's owner can reach you; stands in the User-Agent header, a mail address in From too."),
    option("--ignore-robots", is_flag=True, default=None, help="Do not read robots.txt; for your own servers."),
    option("--allow-private", is_flag=True, default=None, help="Permit loopback and private addresses; for your own servers."),
    option("--sessions", is_flag=True, default=None, help="Keep cookies, shared by the whole fleet, for 6 hours after their last use (default: none beyond a redirect chain)."),
    option("--from-crawl", metavar="ID", help="Revisit: ask for the pages of an earlier crawl (same state and store) only if they changed since; what did not is not stored again."),
    option("--sitemaps/--no-sitemaps", default=None, help="Read the sitemaps that robots.txt names; their URLs pass every filter and have depth 1 (default: yes)."),
    option("--keep-param", "keep_params", multiple=True, metavar="NAME", help="Query parameter that tells pages apart although it is known to track, such as utm_source; '*' at the end stands for any rest; repeatable, wins over --drop-param. Cannot change once the crawl has begun."),
    option("--drop-param", "drop_params", multiple=True, metavar="NAME", help="Query parameter that does not tell pages apart: of URLs that differ in nothing else the first found is fetched; as --keep-param."),
    option("--skip-near-duplicates", is_flag=True, default=None, help="Do not follow the links of a page whose text hardly differs from that of a page of its host that the same worker has seen; its row says of which. Costs 0.2 ms of CPU for a page of 700 words, 1 ms for one of 4,000."),
    option("--extract", metavar="module:function", help="Call this for each parsed page, in a process of its own; the flat dict it returns is kept in the page's row, as JSON in the column extra. The module lies in the folder in which the command or worker starts, or is installed there."),
    option("--lease", type=Duration(), metavar="SECONDS", help="How long a fetcher may hold a URL before another gets it (default 120; on AWS the queues' own time)."),
    option("--dedup", type=click.Choice(["exact", "bloom"]), help="How ended URLs are remembered: each with its record (exact, default), or in a Bloom filter, which saves memory and misses one URL in a million (redis:// only)."),
    option("--max-attempts", type=int, metavar="N", help="Failures before a URL becomes a dead letter (default 4)."),
)  # fmt: skip

sitemap_option = option(
    "--sitemap",
    "sitemap",
    multiple=True,
    metavar="URL",
    help="Add the URLs that a sitemap or feed lists, with depth 1; its host comes into scope; repeatable.",
)

cookies_option = option(
    "--cookies",
    metavar="FILE",
    help="Begin with the cookies of a file in Netscape format, as browsers' exporters and curl write it; implies --sessions.",
)

SETTING_NAMES = frozenset(config.CrawlSettings.__struct_fields__)


def given_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Of a command's parameters, the crawl settings that the user gave."""
    return {
        name: value for name, value in values.items() if name in SETTING_NAMES and value is not None and value != ()
    }
