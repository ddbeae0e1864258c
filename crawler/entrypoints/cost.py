"""`crawler cost`: the bill of a crawl from what its workers counted, or the estimate of one that is to be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from crawler.cost import bill, prices
from crawler.cost.bill import Bill
from crawler.cost.estimate import COMPRESSED, RECORD, Fleet, estimate
from crawler.cost.model import Site
from crawler.cost.prices import Line
from crawler.cost.usage import Unit
from crawler.entrypoints import options
from crawler.entrypoints.commands import json_line, named, opened
from crawler.entrypoints.shell import need_state, run
from crawler.entrypoints.show import out
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.state.open import stack_of
from crawler.state.port import CrawlState

STACK = Fleet()
"""The stack's settings where none are given."""


class Number(click.ParamType[int]):
    """`1000000`, `1e6`, `1_000_000`."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 1 <= number <= 1e12:
            self.fail(f"{value!r} is no number of pages: write for example 1e6", param, ctx)
        return round(number)


class Amount(click.FloatRange):
    """A number within bounds; `nan` is within none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number


def _given(name: str, kind: Any, default: Any, text: str) -> Callable[[options.F], options.F]:
    """An option of the estimate."""
    return click.option(name, type=kind, default=default, show_default=True, help=text)


@click.command()
@click.option("--estimate", "pages", type=Number(), metavar="PAGES", help="Model a crawl of so many pages instead.")
@_given("--links", click.IntRange(1, 100_000), 60, "Links of a page to pages of the crawl.")
@_given("--kb", Amount(0, 1e6), 35.0, "Size of a page as the browser sees it.")
@_given("--rate", Amount(0, 1e4), 1.0, "Requests per second to one host; 0 = no limit.")
@_given("--hosts", click.IntRange(1), 500, "Hosts, of equally many pages.")
@click.option("--sitemaps", is_flag=True, help="The hosts list their pages in sitemaps.")
@_given("--answer", Amount(0.001, 3600), 0.5, "Seconds that a host takes for a page.")
@_given("--fetchers", click.Choice(["fargate", "lambda"]), STACK.fetchers, "What fetches.")
@_given("--max-workers", click.IntRange(1), STACK.max_workers, "The stack's maxWorkers.")
@_given("--cpu", click.IntRange(256, 16_384), STACK.cpu, "The stack's cpu (1024 = one vCPU).")
@_given("--memory", click.IntRange(512, 122_880), STACK.memory, "The stack's memory, MiB.")
@_given("--function-memory", click.IntRange(256, 10_240), STACK.function_memory, "The stack's functionMemory, MiB.")
@_given("--spot/--on-demand", None, STACK.spot, "How Fargate is paid.")
@options.common
def cost(pages: int | None, **given: Any) -> None:
    """What a crawl cost in AWS requests and dollars per million pages, by service.

    Workers count each request and its billing units, and add them to the crawl's account once a minute. With
    aws://STACK the tasks', functions' and logs' figures come from CloudWatch. --estimate PAGES needs neither a state
    nor an account: it models the requests, the time and the bill of a crawl on a stack; the options before --state are
    for it alone.
    """
    if pages is not None:
        out(_estimate(pages, given))
    else:
        out(run(_counted(need_state(given), given["crawl"], as_json=given["as_json"]), given))


def _estimate(pages: int, given: dict[str, Any]) -> str:
    site = Site(
        pages=pages,
        hosts=min(given["hosts"], pages),
        links=given["links"],
        rate=given["rate"],
        stored=given["kb"] * 1000 * COMPRESSED,
        listed=1.0 if given["sitemaps"] else 0.0,
    )
    fleet = Fleet(**{name: given[name] for name in Fleet.__struct_fields__ if name in given})
    found = estimate(site, fleet, given["answer"])
    if not given["as_json"]:
        return bill.estimate_for_people(found)
    return json_line(msgspec.structs.asdict(found) | bill.as_values(found.lines, found.kept, found.pages))


async def _counted(address: str, crawl: str | None, *, as_json: bool) -> str:
    """The bill of a crawl. A state that is not on AWS has none, and says so."""
    async with opened(address) as state:
        record = await named(state, crawl)
        made = await _bill(address, state, record)
    if as_json:
        return json_line(msgspec.structs.asdict(made) | bill.as_values(made.lines, made.kept, made.pages))
    return bill.for_people(made)


async def _bill(address: str, state: CrawlState, record: CrawlRecord) -> Bill:
    pages = (await state.counts(record.id)).done
    ended = record.completed_at
    word = "complete" if ended is not None else "not complete"
    if not address.startswith("aws:"):
        note = (
            "this state is on no AWS: nothing of it is billed, and what a store in a bucket costs is not counted here"
        )
        return Bill(
            crawl=record.id, state=word, pages=pages, at_least=False, requests={}, lines=[], kept=[], notes=[note]
        )
    from crawler.state.aws.state import AwsState

    if not isinstance(state, AwsState):
        raise UsageError(f"--state {address}: no state on AWS")
    account, idle = await state.accounts(record.id)
    lines, notes = prices.requests(account.used), []
    spare = sum(prices.dollars(idle.used).values())
    if spare:
        notes.append(f"workers of this stack without any work have used {spare:,.4f} dollars of requests: not in it")
    if stack := stack_of(address):
        compute, missing = await _compute(stack, record)
        lines, notes = [*lines, *compute], [*notes, *missing]
    else:
        notes.append("compute and logs are not in it: only aws://STACK tells whose they are")
    return Bill(
        crawl=record.id,
        state=word,
        pages=pages,
        at_least=True,
        requests=dict(account.used.requests),
        lines=lines,
        kept=prices.kept(account.used.units.get(Unit.STORED, 0), pages * RECORD),
        notes=notes,
    )


async def _compute(stack: str, record: CrawlRecord) -> tuple[list[Line], list[str]]:
    """What the stack's tasks, functions and logs took while the crawl ran, whatever else they did."""
    from crawler.cost.observed import observed

    return await observed(stack, record.started_at, record.completed_at or time.time())
