"""robots.txt of every host, fetched once for the whole fleet.

What is known of an origin is one fact on the state: the last good copy, and the failures since. Who finds neither a
fresh copy nor a fresh failure claims the origin's marker and fetches; everybody else waits for the fact. A fetcher that
dies leaves the marker to lapse, and another takes over.

Until a host's rules are known nothing else is asked of it. A host that cannot be reached or answers 5xx or 429 is
closed (RFC 9309 2.3.1.4) unless there is a good copy; any other 4xx means that there are no rules (2.3.1.3). A host
that takes its time costs the others nothing: its pages go back, and its gate stays closed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial

from crawler import crawl_delay, retry, robots_fact, urls
from crawler.config import CrawlSettings
from crawler.crawl_delay import CrawlDelays, InForce
from crawler.errors import FailureKind, StateUnavailable
from crawler.fetch import Fetcher
from crawler.gate import void
from crawler.model import Why
from crawler.patience import patiently
from crawler.redirect import REDIRECTS
from crawler.robots import ALLOW_ALL, Robots
from crawler.robots_fact import FRESH, KEPT, Fact, Unreachable
from crawler.robots_fetch import DEADLINE, PATH, Download, Failed, download
from crawler.state.port import CrawlState

FAILURE_KEPT = 3600.0
"""Seconds beyond its time for which a failure is remembered, so that the next one counts on from it."""

REFUSED = 60.0
"""Seconds until a refused address is looked at again."""

MARKER = 30.0
"""Seconds, beyond its turn, that a fetcher has the marker for each request."""

POLL = 0.3
"""Seconds between two looks for what another worker is fetching."""

SLOW = 2.0
"""Seconds that a page waits, from its turn on, for a file that is on its way; then it goes back for as long. After so
many seconds the fetcher begins to keep the gate closed."""

LONGEST_WAIT = 30.0
"""Seconds that a redirect waits for its turn at the target's gate."""

MOST_ORIGINS = 4096
"""Origins whose parsed rules one crawl keeps in memory."""

Answer = Robots | Unreachable


class RobotsKeeper:
    """The rules of all hosts for one crawl in one process. `clock` answers Unix seconds."""

    def __init__(
        self,
        state: CrawlState,
        fetcher: Fetcher,
        crawl: str,
        settings: CrawlSettings,
        worker: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._fetcher, self._crawl, self._settings = state, fetcher, crawl, settings
        self._clock = clock
        # Whoever finds this in a marker has it, even if the reply that said so was lost.
        self._me = f"{worker} {secrets.token_hex(8)}".encode()
        self._delays = CrawlDelays(state, settings.product_token)
        self._known: OrderedDict[str, tuple[Answer, float]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[tuple[Answer, bool]]] = {}

    async def rules(self, url: str, gate: str, start_at: float) -> tuple[Answer, bool]:
        """The rules for a wire URL, whose caller has a turn at `gate` at `start_at`.

        The second value says whether that turn was used up for robots.txt; the caller then needs another. A
        Crawl-delay is in force at the gate when this returns. A file that takes long is not waited for: the answer is
        Unreachable for a moment, with a streak of 0, and the file is fetched meanwhile. Raises the state's errors.
        """
        if self._settings.ignore_robots:
            return ALLOW_ALL, False
        origin = urls.origin(url)
        known = self._recent(origin)
        if known is not None:
            return known, False
        loading = self._loading.get(origin)
        first = loading is None
        if loading is None:
            # A task of its own: whoever asked may be gone while the file is still awaited.
            loading = asyncio.create_task(self._load(origin, gate, start_at))
            self._loading[origin] = loading
            loading.add_done_callback(lambda task: self._loaded(origin, task))
        await asyncio.wait({loading}, timeout=max(start_at - self._clock(), 0.0) + SLOW)
        if not loading.done():
            return self._awaited(), False
        answer, fetched = loading.result()
        return answer, fetched and first

    def disallowed(self, url: str) -> bool:
        """Whether rules in memory forbid a wire URL. Does not wait; False where nothing is known, or asking is slow."""
        known = self._recent(urls.origin(url))
        return isinstance(known, Robots) and not known.heavy and not known.allowed(url)

    async def recall(self, wire_urls: Iterable[str]) -> None:
        """Take into memory what the fleet knows of the URLs' hosts; fetches nothing. Raises the state's errors."""
        gates = {urls.origin(url): urls.gate_name(urls.hostname(url), self._settings.pace_by) for url in wire_urls}
        for origin, gate in gates.items():
            if self._settings.ignore_robots or self._recent(origin) is not None:
                continue
            fact, slowed = await self._look(origin, gate)
            answer = self._answer(origin, fact)
            if isinstance(answer, Robots):
                await self._delays.enforce(gate, origin, answer, slowed, fetched=False)

    @property
    def loading(self) -> bool:
        """Whether a file is on its way."""
        return bool(self._loading)

    async def close(self) -> None:
        """Give up what is being fetched; what comes later is fetched all the same."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    # ---------------------------------------------------------------- memory

    def _recent(self, origin: str) -> Answer | None:
        known = self._known.get(origin)
        if known is None or known[1] <= self._clock():
            return None
        self._known.move_to_end(origin)
        return known[0]

    def _keep(self, origin: str, answer: Answer, until: float) -> Answer:
        self._known[origin] = (answer, until)
        self._known.move_to_end(origin)
        if len(self._known) > MOST_ORIGINS:
            self._known.popitem(last=False)
        return answer

    def _loaded(self, origin: str, task: asyncio.Task[tuple[Answer, bool]]) -> None:
        del self._loading[origin]
        if not task.cancelled():
            task.exception()  # seen, even if nobody waits any more

    def _awaited(self) -> Unreachable:
        """The answer while the file is on its way; not for anybody's memory."""
        return Unreachable(self._clock() + SLOW, 0, "awaited", "robots.txt is on its way")

    # ---------------------------------------------------------------- the fleet

    async def _load(self, origin: str, gate: str, start_at: float) -> tuple[Answer, bool]:
        """From the fleet, or from the host when it is this worker's to fetch."""
        fact, slowed = await self._look(origin, gate)
        fetched = False
        patience = max(start_at, self._clock()) + SLOW
        while (answer := self._answer(origin, fact)) is None:
            marker = f"robots-fetch:{origin}:{fact.fetches}"
            if await self._take(marker, max(start_at - self._clock(), 0.0)):
                fact = await self._fetch(origin, gate, start_at, marker, fact)
                answer, fetched = self._answer(origin, fact, own=True), True
                assert answer is not None, "a fetch leaves a copy or a failure"
                break
            held: bytes | None = b""
            while held is not None and self._answer(origin, fact) is None:
                if self._clock() >= patience:
                    return self._awaited(), False
                await asyncio.sleep(POLL)
                known, held = await self._state.recall([robots_fact.name(origin), marker])
                fact = robots_fact.decode(known)
        if isinstance(answer, Robots):
            await self._delays.enforce(gate, origin, answer, slowed, fetched=fetched)
        return answer, fetched

    async def _look(self, origin: str, gate: str) -> tuple[Fact, InForce]:
        """The fact of an origin, and the Crawl-delay in force at its gate."""
        known, delay = await self._state.recall([robots_fact.name(origin), crawl_delay.name(gate)])
        return robots_fact.decode(known), crawl_delay.decode(delay)

    def _answer(self, origin: str, fact: Fact, *, own: bool = False) -> Answer | None:
        """What a fact says now, kept in memory; None when it is time to fetch. `own`: it is this crawl's finding."""
        now, failure = self._clock(), fact.failure
        if failure is not None and failure.kind == FailureKind.PRIVATE and self._settings.allow_private and not own:
            failure = None  # another crawl on this state may not go there; perhaps this one may
        failing = failure is not None and failure.until > now
        if fact.copy is not None and (failing or fact.fresh(now)):
            robots = Robots.parse(fact.file, self._settings.product_token)
            return self._keep(origin, robots, failure.until if failure is not None and failing else fact.fresh_until)
        if failure is not None and failing:
            return self._keep(origin, failure, failure.until)
        return None

    async def _take(self, marker: str, wait: float) -> bool:
        """Claim the right to fetch, for the time that passes before the turn and some more."""
        if await self._state.remember(marker, self._me, wait + MARKER, if_absent=True):
            return True
        if await self._state.recall([marker]) != [self._me]:
            return False
        # It is ours by a call whose reply was lost; its time has been running since then.
        await self._state.remember(marker, self._me, wait + MARKER)
        return True

    # ---------------------------------------------------------------- the host

    async def _fetch(self, origin: str, gate: str, start_at: float, marker: str, before: Fact) -> Fact:
        """Fetch and tell the fleet. If the process dies in here, the marker lapses and another worker fetches."""
        if void(start_at, self._settings.interval, self._clock()):
            start_at = await self._state.turn(self._crawl, gate)
        await self._until(start_at)
        streak = before.failure.streak if before.failure else 0
        own_gate = gate == urls.hostname(origin)
        try:
            async with self._closed(gate) if own_gate else contextlib.nullcontext():
                hop = partial(self._hop, marker)
                got = await download(
                    self._fetcher, origin, hop, partial=streak > 0, deadline=DEADLINE, clock=self._clock
                )
        except Failed as failed:
            return await self._failed(origin, gate if own_gate else None, before, failed, streak + 1)
        fact = before.renewed(got.body, self._clock())
        await self._remember(origin, fact, KEPT)
        await self._share(origin, got)
        return fact

    async def _share(self, origin: str, got: Download) -> None:
        """What came from the robots.txt of another host is that host's too (never what came from another path)."""
        target = urls.origin(got.url)
        if target == origin or got.url != target + PATH or got.status is None or got.status in REDIRECTS:
            return
        there = robots_fact.decode((await self._state.recall([robots_fact.name(target)]))[0])
        if not there.fresh(self._clock()):
            await self._remember(target, there.renewed(got.body, self._clock()), KEPT)

    async def _failed(self, origin: str, gate: str | None, before: Fact, failed: Failed, streak: int) -> Fact:
        """Remember a failure; close the gate, where it is this host's alone (None: it is not)."""
        now = self._clock()
        kind = "503" if failed.kind == "status" else failed.kind
        wait = retry.backoff(kind, streak, jitter=random.random())  # noqa: S311 - spreads retries, no secret
        wait = REFUSED if failed.kind == FailureKind.PRIVATE else max(wait, failed.wait or 0.0)
        fact = before.failed(Unreachable(now + wait, streak, failed.kind, str(failed)))
        keep = wait + FAILURE_KEPT
        if before.copy is not None:
            keep = max(keep, before.fresh_until - FRESH + KEPT - now)
            closes = failed.wait is not None
        else:
            # The host's other pages would only come to hear the same. Given up, they may come and end.
            closes = failed.kind != FailureKind.PRIVATE and streak < self._settings.max_attempts
        if gate is not None and closes:
            why = Why.BACKOFF if failed.wait is None else Why.RETRY_AFTER
            await patiently(lambda: self._state.hold(gate, until=now + wait, why=why))
        await self._remember(origin, fact, keep)
        return fact

    async def _remember(self, origin: str, fact: Fact, seconds: float) -> None:
        """Tell the fleet. A state that is away is waited for: without the fact the host would be asked again."""
        await patiently(lambda: self._state.remember(robots_fact.name(origin), robots_fact.encode(fact), seconds))

    @contextlib.asynccontextmanager
    async def _closed(self, gate: str) -> AsyncIterator[None]:
        """Keep a gate closed while its robots.txt is awaited for long: no page behind it could be fetched."""

        async def close() -> None:
            while True:
                await asyncio.sleep(SLOW)
                with contextlib.suppress(StateUnavailable):
                    until = self._clock() + 1.5 * SLOW
                    await self._state.hold(gate, until=until, why=Why.RESPONSE_TIME)

        closing = asyncio.create_task(close())
        try:
            yield
        finally:
            closing.cancel()

    async def _hop(self, marker: str, target: str) -> bytes | None:
        """The file of a redirect's target, where the fleet has it; else None, after a turn at its gate."""
        origin = urls.origin(target)
        if target == origin + PATH:
            there = robots_fact.decode((await self._state.recall([robots_fact.name(origin)]))[0])
            if there.fresh(self._clock()):
                return there.file
        gate = urls.gate_name(urls.hostname(target), self._settings.pace_by)
        start_at = await self._state.turn(self._crawl, gate)
        wait = start_at - self._clock()
        if wait > LONGEST_WAIT:
            raise Failed(FailureKind.TIMEOUT, f"robots.txt redirects to {gate}, which is busy for {wait:.0f} s")
        await self._state.remember(marker, self._me, max(wait, 0.0) + MARKER)
        await self._until(start_at)
        return None

    async def _until(self, start_at: float) -> None:
        await asyncio.sleep(max(start_at - self._clock(), 0.0))
