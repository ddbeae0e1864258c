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

from crawler import retry, urls
from crawler.chain import MOST_HOPS, Chain, Chains
from crawler.config import CrawlSettings
from crawler.discover import Discoverer
from crawler.errors import FailureKind, FetchFailure
from crawler.extractor import Extractor
from crawler.fetch import Fetcher
from crawler.fetched import Extracted, ParsedPage, Response, Revisit
from crawler.flights import Flights
from crawler.gate import void
from crawler.hosts import AtHost, Hosts
from crawler.model import FINISHED, HOST_DOWN, Ending, Lease, Verdict, Why, dead, defer, done, skipped
from crawler.model import retry as try_again
from crawler.parser import Parser
from crawler.redirect import REDIRECTS, redirect_target
from crawler.revisit import UNSURE, Revisits
from crawler.robots import Robots
from crawler.robots_fact import Unreachable
from crawler.robots_keeper import RobotsKeeper
from crawler.sitemap import is_list, may_be_sitemap
from crawler.sitemaps import LEVELS, Sitemaps
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

ADVANCE = 1.0
"""Seconds after it was taken from which on a turn is looked at again before it is used."""


class Visit(msgspec.Struct, kw_only=True, gc=False):
    """What became of one lease. `response` is set when it is to be archived; with `revisit`, as a record that refers to
    an earlier one. `redirect_to` is for the page's row; `onward` is a page that a redirect led to, to be added.
    `sitemaps`, as robots.txt names them, are to be read before the lease ends. `near_duplicate_of` is the settler's."""

    lease: Lease
    verdict: Verdict
    response: Response | None = None
    revisit: Revisit | None = None
    parsed: ParsedPage | None = None
    extracted: Extracted | None = None
    near_duplicate_of: str | None = None
    redirect_to: str | None = None
    onward: str | None = None
    status: int | None = None
    sitemaps: tuple[str, ...] = ()


class _Hop(msgspec.Struct, frozen=True, gc=False):
    """One request of a page: its URL and gate, the turn taken for it, when, and whether it came with the lease; the
    fields that make it conditional."""

    url: str
    gate: str
    start: float
    taken_at: float
    claimed: bool = False
    conditions: tuple[tuple[str, str], ...] = ()


class Visitor:
    """Takes leases of one crawl to their verdicts. `pause(until)` waits and says False when the worker is stopping;
    `on_answer` is told of each answer to a page's request."""

    def __init__(
        self,
        state: CrawlState,
        crawl: str,
        settings: CrawlSettings,
        fetcher: Fetcher,
        robots: RobotsKeeper,
        discoverer: Discoverer,
        parser: Parser,
        extractor: Extractor | None,
        hosts: Hosts,
        flights: Flights,
        chains: Chains,
        revisits: Revisits | None,
        sitemaps: Sitemaps,
        pause: Callable[[float], Awaitable[bool]],
        on_answer: Callable[[Response], None],
    ) -> None:
        self._state, self._crawl, self._settings = state, crawl, settings
        self._fetcher, self._robots, self._discoverer, self._parser = fetcher, robots, discoverer, parser
        self._extractor = extractor
        self._hosts, self._flights, self._chains = hosts, flights, chains
        self._revisits, self.sitemaps, self._pause, self._on_answer = revisits, sitemaps, pause, on_answer
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._cap = settings.in_flight_per_host if settings.rate else 0

    async def visit(self, lease: Lease) -> Visit:
        """Never raises but for cancellation and an unavailable state."""
        host = self._hosts.at(lease)
        refusal = await self._refusal(lease)
        if refusal is not None:
            return Visit(lease=lease, verdict=refusal)
        start, taken_at = lease.start_at, time.time()
        if lease.limit:
            start = await self._state.turn(self._crawl, lease.gate)
        rules, turn_used = await self._robots.rules(lease.url, lease.gate, start)
        if isinstance(rules, Unreachable):
            return Visit(lease=lease, verdict=await self._without_robots(host, rules, asked=turn_used))
        hop = _Hop(lease.url, lease.gate, start, taken_at, not lease.limit)
        if rules.crawl_delay and not lease.interval and not lease.limit:
            # Claimed without a turn, before anybody knew that the host asks for time between requests.
            return Visit(lease=lease, verdict=defer(time.time()))
        if turn_used and self._cap and time.time() > start + lease.interval:
            # Others have taken turns meanwhile. The next claim looks at who is in flight, a turn taken here would not.
            return Visit(lease=lease, verdict=defer(time.time()))
        if turn_used and rules.allowed(lease.url):
            hop = _Hop(lease.url, lease.gate, await self._state.turn(self._crawl, lease.gate), time.time())
        visit = await self._permitted(lease, host, rules, hop)
        if rules.sitemaps and self._settings.sitemaps and visit.verdict.ending in FINISHED:
            visit.sitemaps = rules.sitemaps if await self.sitemaps.falls_to(lease) else ()
        return visit

    async def _permitted(self, lease: Lease, host: AtHost, rules: Robots, hop: _Hop) -> Visit:
        """The visit of a page whose host's rules are known."""
        if not rules.allowed(lease.url):
            return Visit(lease=lease, verdict=skipped("robots"))
        try:
            with self._fetcher.room() as room:
                chain = await self._chains.begin(lease, room)
                answer, revisit = await self._asked(lease, chain, hop)
                while isinstance(answer, Response) and (target := await self._back(chain, answer)):
                    there = urls.gate_name(urls.hostname(target), self._settings.pace_by)
                    await self._wait_asked(there, answer)
                    start = await self._state.turn(self._crawl, there)
                    answer = await self._request(lease, chain, _Hop(target, there, start, time.time()))
                if isinstance(answer, Verdict):
                    return Visit(lease=lease, verdict=answer)
                if self._revisits is not None and revisit is None:
                    revisit = await self._revisits.same(lease.url, answer)
                await host.answered(answer, self._settings.interval)
                return await self._answered(lease, host, chain, answer, revisit)
        except FetchFailure as failure:
            return Visit(lease=lease, verdict=await self._failed(lease, host, failure))

    async def _asked(self, lease: Lease, chain: Chain, hop: _Hop) -> tuple[Response | Verdict, Revisit | None]:
        """A page's first request, conditional where an earlier crawl knows the page. Raises FetchFailure.

        Only the first attempt is: a server that stumbles over conditions is not to stumble again.
        """
        conditions = self._revisits.conditions(lease.url) if self._revisits is not None and lease.attempt == 1 else ()
        if self._revisits is None or not conditions:
            return await self._request(lease, chain, hop), None
        answer = await self._request(lease, chain, msgspec.structs.replace(hop, conditions=conditions))
        if not isinstance(answer, Response) or answer.status not in UNSURE:
            return answer, None
        revisit = await self._revisits.not_modified(lease.url, answer)
        if revisit is None:
            chain.answers.clear()
            start = await self._state.turn(self._crawl, lease.gate)
            answer = await self._request(lease, chain, _Hop(lease.url, lease.gate, start, time.time()))
        return answer, revisit

    async def _request(self, lease: Lease, chain: Chain, hop: _Hop) -> Response | Verdict:
        """One request of a page when its turn has come; or why it is not made now. Raises FetchFailure."""
        chain.room.leave()
        start = hop.start
        while True:
            if start > time.time() + LONGEST_WAIT:
                return defer(start)
            if not await self._pause(start):
                return defer(time.time())
            async with self._flights.slot(hop.gate, self._cap), self._slots:
                now = time.time()
                if hop.claimed and now - hop.taken_at > ADVANCE and (at := await self._state.upheld(lease)) > now:
                    return defer(at)
                if void(start, lease.interval, time.time()):
                    if hop.claimed:
                        # Its next claim looks at who is in flight; another turn taken here would not.
                        return defer(now)
                    start = await self._state.turn(self._crawl, hop.gate)
                    if start > time.time():
                        continue
                async with self._flights.request(hop.gate, start, lease.interval):
                    response = await self._fetcher.get(
                        hop.url, (*chain.headers(hop.url), *hop.conditions), room=chain.room
                    )
            self._on_answer(response)
            await self._chains.read(chain, response)
            return response

    async def _back(self, chain: Chain, response: Response) -> str | None:
        """Where a redirect leads back to, when it does and may."""
        if response.status not in REDIRECTS or chain.hops >= MOST_HOPS:
            return None
        target = redirect_target(response)
        return target if target and await self._chains.leads_back(chain, target) else None

    async def _wait_asked(self, gate: str, response: Response) -> None:
        """A redirect may say how long to wait before it is followed (RFC 9110 10.2.3)."""
        now = time.time()
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
        if wait:
            await self._state.hold(gate, until=now + wait, why=Why.RETRY_AFTER)

    async def _refusal(self, lease: Lease) -> Verdict | None:
        if lease.limit == HOST_DOWN:
            if lease.health.host in ("", urls.hostname(lease.url)):
                return dead(HOST_DOWN, lease.health.error)
            # Another host behind the gate is down. This one is asked, and an answer opens the gate for all.
        elif lease.limit:
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

    async def _without_robots(self, host: AtHost, rules: Unreachable, *, asked: bool) -> Verdict:
        """No robots.txt to be had: full disallow (RFC 9309 2.3.1.4). Waited for, then given up with the host."""
        if rules.kind == FailureKind.PRIVATE:
            return skipped(rules.kind)
        error = f"robots.txt: {rules.error}"
        if asked:
            await host.without_robots(error)
        if rules.streak >= self._settings.max_attempts:
            await host.give_up(error)
            return dead("robots-unreachable" if rules.kind == "status" else rules.kind, error)
        return defer(rules.until)

    async def _failed(self, lease: Lease, host: AtHost, failure: FetchFailure) -> Verdict:
        if failure.kind in (FailureKind.PRIVATE, FailureKind.URL):
            return skipped(failure.kind)
        await host.failed(failure.kind, str(failure))
        return self._again(lease, failure.kind, str(failure))

    def _again(self, lease: Lease, kind: str, error: str, at: float | None = None) -> Verdict:
        if lease.attempt >= self._settings.max_attempts:
            return dead(kind, error)
        if at is None:
            at = time.time() + retry.backoff(kind, lease.attempt, jitter=random.random())  # noqa: S311 - no secret
        return try_again(at, kind, error)

    async def _answered(
        self, lease: Lease, host: AtHost, chain: Chain, response: Response, revisit: Revisit | None
    ) -> Visit:
        status = response.status
        if status == 429 or status >= 500:
            return Visit(lease=lease, verdict=await self._turned_away(lease, host, response), status=status)
        if response.truncated in ("disconnect", "time") and lease.attempt == 1 < self._settings.max_attempts:
            verdict = self._again(lease, FailureKind.RESET, "the body ended early")
            return Visit(lease=lease, verdict=verdict, status=status)
        if status in REDIRECTS:
            return await self._redirected(lease, chain, response)
        visit = Visit(lease=lease, verdict=done(), response=response, revisit=revisit, status=status)
        if response.url != lease.url:
            visit.redirect_to = response.url
        page = revisit.page if revisit is not None else response
        if lease.receives > PARSE_DELIVERIES:
            visit.verdict = _crash(lease)
        elif 200 <= page.status < 300 and page.decoded:
            visit.parsed = await self._parse(lease, page)
            if visit.parsed is not None and visit.parsed.failed == "crash":
                # Perhaps the page, perhaps the machine: an attempt. The last one is stored, without links.
                visit.verdict = self._again(lease, "parser-crash", "the parser process died at this page")
            elif self._extractor is not None and visit.parsed is not None and visit.parsed.charset is not None:
                visit.extracted = await self._extractor.extract(page, visit.parsed)
        return visit

    async def _parse(self, lease: Lease, page: Response) -> ParsedPage | None:
        """What a body says; None for what has no links. A page that lists pages, as a sitemap does, links to them; a
        feed only where it is a seed."""
        seed = not lease.parent_url
        content_type, x_robots = page.header(b"content-type"), page.header_all(b"x-robots-tag")
        html = is_html(content_type, page.body)
        if seed or (self._settings.sitemaps and lease.depth <= LEVELS):
            listed = is_list(page.body) or (may_be_sitemap(page.body) and not html and (seed or ".xml" in page.url))
            if listed and (found := await self.sitemaps.page(page, x_robots, feeds=seed)) is not None:
                return found
        if not html:
            return None
        token, keys = self._settings.product_token, self._discoverer.keys
        return await self._parser.parse(
            page.url, content_type, page.body, x_robots, token, keys, with_simhash=self._settings.skip_near_duplicates
        )

    async def _redirected(self, lease: Lease, chain: Chain, last: Response) -> Visit:
        """Where a chain ends in a redirect its first answer is the page's."""
        first = chain.answers[0]
        visit = Visit(lease=lease, verdict=done(), response=first, status=first.status)
        visit.redirect_to, target = redirect_target(first), redirect_target(last)
        if target is None:
            return visit
        if chain.hops >= MOST_HOPS:
            visit.verdict = Verdict(Ending.DONE, error=f"a redirect loop: left after {chain.hops} hops")
            return visit
        visit.onward = target
        await self._wait_asked(urls.gate_name(urls.hostname(target), self._settings.pace_by), last)
        await self._chains.pass_on(chain, target)
        return visit

    async def _turned_away(self, lease: Lease, host: AtHost, response: Response) -> Verdict:
        """429 and 5xx are tried again; what the server asks of the host's pace holds for the whole fleet."""
        status = response.status
        error = f"HTTP {status} {response.reason}".rstrip()
        if status in (429, 503):
            return self._again(lease, f"http-{status}", error, await host.refused(response))
        now = time.time()
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
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
