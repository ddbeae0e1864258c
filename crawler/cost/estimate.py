"""What a crawl on a stack would take and cost, before either is there: workers, time, requests, dollars by service."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from crawler.cost import prices
from crawler.cost.model import Site, model
from crawler.cost.prices import Line
from crawler.cost.usage import Unit, Usage
from crawler.telemetry.names import Fleet as FleetMetric
from crawler.telemetry.names import Ledger, Watch

CPU_PAGE = 0.0045
"""Seconds of one core that a worker takes for a page with everything on, its AWS requests among them: 2.5 to 3.7 ms for
pages of 8 kB by `python -m bench.run cost --rate 0 --size 40 --hosts 50`, a millisecond more for larger ones. A core of
Fargate or Lambda may be slower or faster by a third."""

FUNCTION_CORE = 1769
"""MiB of a function's memory that come with one core."""

FUNCTION_CALL = 8.0
"""Seconds of a function's call on paced hosts: it waits for the turns of so long, and is paid for waiting. Measured on
eight hosts at one a second: 0.123 s a page, which is 8 s for what eight hosts permit in that time."""

START = 150.0
"""Seconds until workers are there: a minute until the queues' depth is seen, and the start of a task."""

COMPRESSED = 0.3
"""Of a page's bytes, what is kept: HTML, compressed, with its headers and its row."""

RECORD = 450
"""Bytes of a page's record in the table, its index entry among them."""

LOG_MINUTE = 1_500
"""Bytes of a worker's log line a minute, which carries its metrics."""

METRICS = len(FleetMetric) + 2 * len(Ledger) + len(Watch)
"""Metrics of a stack while it crawls; each is billed for the hours in which it is written."""

ALARMS = 13
"""Alarms of a stack, about."""

UTILIZED = 0.7
"""Share of provisioned capacity that is used: what auto scaling aims at."""

POLLERS = 5
"""Long polls that Lambda keeps at each lane, each one a request in 20 s where it finds nothing."""

LANES, POLL = 3, 20.0


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The stack's settings that matter here, as `infra.config` names them."""

    fetchers: Literal["fargate", "lambda"] = "fargate"
    max_workers: int = 8
    cpu: int = 512
    memory: int = 1024
    spot: bool = True
    concurrency: int = 64
    backlog_per_worker: int = 5_000
    idle_minutes: int = 10
    function_memory: int = 1024
    function_batch: int = 100

    def pace(self, site: Site, answer: float) -> float:
        """Pages a second of one worker: by its processor, or by how many it waits for at a time."""
        if self.fetchers == "lambda":
            pages, seconds = self.call(site, answer)
            return pages / seconds
        return min(self.cpu / 1024 / CPU_PAGE, self.concurrency / answer)

    def call(self, site: Site, answer: float) -> tuple[float, float]:
        """Pages of a function's call, and its seconds."""
        flat_out = min(self.function_memory / FUNCTION_CORE / CPU_PAGE, self.concurrency / answer)
        if not site.rate:
            return self.function_batch, self.function_batch / flat_out
        pages = max(1.0, min(self.function_batch, site.hosts * site.rate * FUNCTION_CALL))
        return pages, max(FUNCTION_CALL, pages / flat_out)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What comes out. `requests` by operation; `lines` are the bill of the crawl, `kept` that of a month of its output,
    `provisioned` DynamoDB's line if capacity is provisioned, in dollars."""

    pages: int
    workers: int
    seconds: float
    bound: str
    requests: dict[str, int]
    lines: list[Line]
    kept: list[Line]
    provisioned: float
    notes: list[str]


def estimate(site: Site, fleet: Fleet, answer: float) -> Estimate:
    """Model a crawl of hosts that take `answer` seconds for a page."""
    each = fleet.pace(site, answer)
    allowed = site.hosts * site.rate if site.rate else math.inf
    wanted = allowed / each if site.rate else site.pages / fleet.backlog_per_worker
    workers = max(1, min(fleet.max_workers, math.ceil(wanted)))
    pace = min(allowed, workers * each)
    crawling = site.pages / pace
    if fleet.fetchers == "fargate":
        compute, used = _fargate(fleet, workers, crawling), model(site, workers, crawling)
    else:
        compute, used = _functions(site, fleet, answer, workers, crawling)
    units = used.units
    lines = [*prices.requests(used), *compute, prices.logs(_log_bytes(site, fleet, workers, crawling, answer))]
    lines.append(prices.metrics(METRICS * math.ceil((crawling + START) / 3600)))
    return Estimate(
        pages=site.pages,
        workers=workers,
        seconds=crawling + START,
        bound=_bound(site, workers, each, allowed, crawling),
        requests=dict(used.requests),
        lines=lines,
        kept=prices.kept(units[Unit.STORED], site.pages * RECORD),
        provisioned=prices.provisioned(units[Unit.WRITES], units[Unit.HALF_READS] / 2, UTILIZED),
        notes=[
            f"a stack that rests costs about {prices.resting(ALARMS, len(Watch)):.2f} dollars a month "
            "(alarms, metrics, a dashboard), most of it within the free tier"
        ],
    )


def _fargate(fleet: Fleet, workers: int, seconds: float) -> list[Line]:
    """Tasks, from their start until the frontier has been empty for so long that they are stopped."""
    hours = workers * (seconds / 3600 + fleet.idle_minutes / 60)
    return prices.fargate(hours, fleet.cpu, fleet.memory, fleet.spot)


def _functions(site: Site, fleet: Fleet, answer: float, workers: int, seconds: float) -> tuple[list[Line], Usage]:
    """A call for each batch. Lambda itself receives and deletes, and polls all lanes."""
    pages, length = fleet.call(site, answer)
    calls = site.pages / pages
    polls = round(LANES * POLLERS * seconds / POLL)
    used = model(site, workers, seconds, calls) + Usage({"sqs.ReceiveMessage": polls}, {Unit.SQS: polls})
    return prices.functions(calls * length * fleet.function_memory / 1024, calls), used


def _log_bytes(site: Site, fleet: Fleet, workers: int, seconds: float, answer: float) -> float:
    """A line a minute of each task, or a call of a function."""
    lines = workers * seconds / 60 if fleet.fetchers == "fargate" else site.pages / fleet.call(site, answer)[0]
    return (lines + workers) * LOG_MINUTE


def _bound(site: Site, workers: int, each: float, allowed: float, crawling: float) -> str:
    """What the time depends on, for people."""
    if crawling < START:
        return f"the start: workers are there after {START / 60:.1f} minutes, and then need {crawling:.0f} s"
    if workers * each < allowed:
        return f"the fleet: {workers} workers fetch {workers * each:,.0f} pages/s (maxWorkers, cpu)"
    return f"the hosts: {site.hosts:,} at {site.rate:g} requests/s each permit {allowed:,.0f} pages/s (hosts, rate)"
