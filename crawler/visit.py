"""One page's way from its lease to a verdict: limits and scope, robots, the host's turn, fetch, parse.

Nothing here writes: what is found goes to the settler, which stores it, adds its links and ends the lease. If the
process dies anywhere in this file, the lease expires and another worker starts the page anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import msgspec

from crawler import gate, retry, urls
from crawler.config import CrawlSettings
from crawler.discover import Discoverer
from crawler.errors import FailureKind, FetchFailure
from crawler.fetch import Fetcher
from crawler.fetched import ParsedPage, Response
from crawler.model import Lease, Verdict, dead, defer, done, skipped
from crawler.model import retry as try_again
from crawler.parser import Parser
from crawler.redirect import REDIRECTS, redirect_target
from crawler.robots_keeper import RobotsKeeper, Unreachable
from crawler.sniff import is_html
from crawler.state.port import CrawlState

PARSE_DELIVERIES = 8
"""A page handed out more often than this has outlived too many workers: a dead letter, stored without being parsed.

A worker's death counts against every page that it held. Where workers are killed often, some pages meet three deaths
in a row and are innocent; to store those without their links would lose what only they link to.
"""

CRASH_DELIVERIES = 9
"""A page that its workers did not survive even so is a dead letter, unfetched."""

LONGEST_WAIT = 30.0
"""Seconds a page may hold its lease for its host's turn; what takes longer goes back to the frontier."""


class Visit(msgspec.Struct, kw_only=True, gc=False):
    """What became of one lease. `response` is set when it is to be archived."""

    lease: Lease
    verdict: Verdict
    response: Response | None = None
    parsed: ParsedPage | None = None
    redirect_to: str | None = None
    status: int | None = None


class Visitor:
    """Takes leases of one crawl to their verdicts. `pause(until)` waits and says False when the worker is stopping."""

    def __init__(
        self,
        state: CrawlState,
        crawl: str,
        settings: CrawlSettings,
        fetcher: Fetcher,
        robots: RobotsKeeper,
        discoverer: Discoverer,
        parser: Parser,
        pause: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._state, self._crawl, self._settings = state, crawl, settings
        self._fetcher, self._robots, self._discoverer, self._parser = fetcher, robots, discoverer, parser
        self._pause = pause
        self._slots = asyncio.Semaphore(settings.concurrency)

    async def visit(self, lease: Lease) -> Visit:
        """Never raises but for cancellation and an unavailable state."""
        refusal = await self._refusal(lease)
        if refusal is not None:
            return Visit(lease=lease, verdict=refusal)
        rules, turn_used = await self._robots.rules(lease.url, lease.gate, lease.start_at)
        if isinstance(rules, Unreachable):
            return Visit(lease=lease, verdict=self._without_robots(rules))
        if not rules.allowed(lease.url):
            return Visit(lease=lease, verdict=skipped("robots"))
        start = await self._state.turn(self._crawl, lease.gate) if turn_used else lease.start_at
        while True:
            if start > time.time() + LONGEST_WAIT:
                return Visit(lease=lease, verdict=defer(start))
            if not await self._pause(start):
                return Visit(lease=lease, verdict=defer(time.time()))
            async with self._slots:
                if gate.void(start, self._settings.interval, time.time()):
                    start = await self._state.turn(self._crawl, lease.gate)
                    if start > time.time():
                        continue
                try:
                    response = await self._fetcher.get(lease.url)
                except FetchFailure as failure:
                    return Visit(lease=lease, verdict=self._failed(lease, failure))
            return await self._answered(lease, response)

    async def _refusal(self, lease: Lease) -> Verdict | None:
        if lease.limit:
            return skipped(lease.limit)
        if lease.receives > CRASH_DELIVERIES:
            return _crash(lease)
        if urls.too_long(lease.url):
            return skipped("url-too-long")
        if lease.parent_url:
            if not await self._discoverer.scope.allows(lease.url):
                return skipped("scope-after-redirect")
            if not self._discoverer.filters.allow(lease.url):
                return skipped("filtered")
        return None

    def _without_robots(self, rules: Unreachable) -> Verdict:
        """No robots.txt to be had: full disallow (RFC 9309 2.3.1.4). Waited for, then given up with the host."""
        if rules.kind == FailureKind.PRIVATE:
            return skipped(rules.kind)
        if rules.streak >= self._settings.max_attempts:
            reason = "robots-unreachable" if rules.kind == "status" else rules.kind
            return dead(reason, f"robots.txt: {rules.error}")
        return defer(rules.until)

    def _failed(self, lease: Lease, failure: FetchFailure) -> Verdict:
        if failure.kind in (FailureKind.PRIVATE, FailureKind.URL):
            return skipped(failure.kind)
        return self._again(lease, failure.kind, str(failure))

    def _again(self, lease: Lease, kind: str, error: str, at: float | None = None) -> Verdict:
        if lease.attempt >= self._settings.max_attempts:
            return dead(kind, error)
        wait = retry.backoff(kind, lease.attempt, jitter=random.random())  # noqa: S311 - spreads retries, no secret
        return try_again(time.time() + wait if at is None else at, kind, error)

    async def _answered(self, lease: Lease, response: Response) -> Visit:
        status = response.status
        if status == 429 or status >= 500:
            return Visit(lease=lease, verdict=await self._turned_away(lease, response), status=status)
        if response.truncated in ("disconnect", "time") and lease.attempt == 1 < self._settings.max_attempts:
            verdict = self._again(lease, FailureKind.RESET, "the body ended early")
            return Visit(lease=lease, verdict=verdict, status=status)
        visit = Visit(lease=lease, verdict=done(), response=response, status=status)
        if status in REDIRECTS:
            visit.redirect_to = redirect_target(response)
        elif lease.receives > PARSE_DELIVERIES:
            visit.verdict = _crash(lease)
        elif 200 <= status < 300 and response.decoded:
            content_type = response.header(b"content-type")
            if is_html(content_type, response.body):
                x_robots = response.header_all(b"x-robots-tag")
                visit.parsed = await self._parser.parse(
                    response.url, content_type, response.body, x_robots, self._settings.product_token
                )
                if visit.parsed.failed == "crash":
                    # Perhaps the page, perhaps the machine: an attempt. The last one is stored, without links.
                    visit.verdict = self._again(lease, "parser-crash", "the parser process died at this page")
        return visit

    async def _turned_away(self, lease: Lease, response: Response) -> Verdict:
        """429 and 5xx are tried again; what the server asks of the host's pace holds for the whole fleet."""
        status, now = response.status, time.time()
        error = f"HTTP {status} {response.reason}".rstrip()
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
        if status in (429, 503):
            if wait is None:
                wait = retry.backoff(str(status), lease.attempt, jitter=random.random())  # noqa: S311
            await self._state.hold(lease.gate, until=now + wait)
        return self._again(lease, f"http-{status}", error, None if wait is None else now + wait)


def _crash(lease: Lease) -> Verdict:
    return dead("crash", f"{lease.receives - 1} workers took this page and did not come back")


async def pause_until(at: float, stopping: asyncio.Event) -> bool:
    """Wait for a wall-clock time; False when the worker is stopping."""
    wait = at - time.time()
    if wait > 0:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), wait)
    return not stopping.is_set()
