"""`crawler cost`: the bill of a crawl from what its workers counted, or the estimate of one that is to be."""

from __future__ import annotations

import time
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


@click.command()
@click.option("--estimate", "pages", type=Number(), metavar="PAGES", help="Model a crawl of so many pages instead.")
@click.option(
    "--links", type=click.IntRange(min=1), default=60, show_default=True, help="Links of a page to pages of the crawl."
)
@click.option(
    "--kb", type=click.FloatRange(min=0), default=35.0, show_default=True, help="Size of a page as the browser sees it."
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Requests per second to one host; 0 = no limit.",
)
@click.option(
    "--hosts", type=click.IntRange(min=1), default=500, show_default=True, help="Hosts, of equally many pages."
)
@click.option("--sitemaps", is_flag=True, help="The hosts list their pages in sitemaps.")
@click.option(
    "--answer",
    type=click.FloatRange(min=0.001),
    default=0.5,
    show_default=True,
    help="Seconds that a host takes for a page.",
)
@click.option(
    "--fetchers", type=click.Choice(["fargate", "lambda"]), default="fargate", show_default=True, help="What fetches."
)
@click.option("--max-workers", type=click.IntRange(min=1), default=8, show_default=True, help="The stack's maxWorkers.")
@click.option(
    "--cpu", type=click.IntRange(min=256), default=512, show_default=True, help="The stack's cpu (1024 = one vCPU)."
)
@click.option(
    "--memory", type=click.IntRange(min=512), default=1024, show_default=True, help="The stack's memory, MiB."
)
@click.option(
    "--function-memory",
    type=click.IntRange(min=256),
    default=1024,
    show_default=True,
    help="The stack's functionMemory, MiB.",
)
@click.option("--spot/--on-demand", default=True, show_default=True, help="How Fargate is paid.")
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
    names = ("fetchers", "max_workers", "cpu", "memory", "function_memory", "spot")
    found = estimate(site, Fleet(**{name: given[name] for name in names}), given["answer"])
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
