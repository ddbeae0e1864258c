"""robots.txt of every host, fetched once for the whole fleet.

What is known of an origin is one fact on the state: the last good copy, and the failures since. Who finds neither a
fresh copy nor a fresh failure claims the origin's marker and fetches; everybody else waits for the fact. A fetcher that
dies leaves the marker to lapse, and another takes over.

Until a host's rules are known nothing else is asked of it. A host that cannot be reached or answers 5xx or 429 is
closed (RFC 9309 2.3.1.4) unless there is a good copy; any other 4xx means that there are no rules (2.3.1.3).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from crawler import retry, urls
from crawler.config import CrawlSettings
from crawler.errors import FailureKind, FetchFailure
from crawler.fetch import Fetcher
from crawler.gate import void
from crawler.redirect import REDIRECTS, redirect_target
from crawler.robots import ALLOW_ALL, MAX_FILE, Robots
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

FRESH = 24 * 3600.0
"""Seconds for which a copy is used without asking again (RFC 9309 2.4)."""

KEPT = 30 * 24 * 3600.0
"""Seconds for which the last good copy stands in while the host fails."""

FAILURE_KEPT = 3600.0
"""Seconds beyond its time for which a failure is remembered, so that the next one counts on from it."""

REFUSED = 60.0
"""Seconds until a refused address is looked at again."""

DEADLINE = 15.0
"""Seconds for one request: a host that never answers must not keep its pages waiting for long."""

MARKER = 30.0
"""Seconds, beyond its turn, that a fetcher has the marker for each request."""

POLL = 0.3
"""Seconds between two looks for what another worker is fetching."""

LONGEST_WAIT = 30.0
"""Seconds that a redirect waits for its turn at the target's gate."""

MOST_HOPS = 5
"""Redirects followed (RFC 9309 2.3.1.2); a longer chain counts as no rules."""

MOST_ORIGINS = 4096
"""Origins whose parsed rules one crawl keeps in memory."""

MAX_FACT = 250_000
"""Bytes of a compressed copy; a fact may have 300 kB."""


class Unreachable(msgspec.Struct, frozen=True):
    """There are no rules to be had before `until`, so nothing of the host may be fetched.

    streak: failures in a row. kind: a failure kind, or "status". error: one line.
    """

    until: float
    streak: int
    kind: str
    error: str


class _Fact(msgspec.Struct, frozen=True, array_like=True):
    """What the fleet knows of an origin. `fetches` counts them; each has a marker of its own.

    copy: the last good file, compressed, b"" where there is none to be had; None before the first.
    """

    fetches: int = 0
    copy: bytes | None = None
    fresh_until: float = 0.0
    failure: Unreachable | None = None


class _Failed(Exception):
    """No file this time. `wait`: seconds the server asks for."""

    def __init__(self, kind: str, error: str, wait: float = 0.0) -> None:
        super().__init__(error)
        self.kind, self.wait = kind, wait


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
        self._worker, self._clock = worker, clock
        self._known: OrderedDict[str, tuple[Answer, float]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[tuple[Answer, bool]]] = {}

    async def rules(self, url: str, gate: str, start_at: float) -> tuple[Answer, bool]:
        """The rules for a wire URL, whose caller has a turn at `gate` at `start_at`.

        The second value says whether that turn was used up for robots.txt; the caller then needs another. A
        Crawl-delay is in force at the gate when this returns. Raises the state's errors.
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
            # A task of its own: who asked first may be cancelled while others wait for the same file.
            loading = asyncio.create_task(self._load(origin, gate, start_at))
            self._loading[origin] = loading
            loading.add_done_callback(lambda task: self._loaded(origin, task))
        answer, fetched = await asyncio.shield(loading)
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
            if answer is not None:
                await self._slow_down(gate, answer, slowed)

    async def close(self) -> None:
        """Give up what is being fetched."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

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

    async def _load(self, origin: str, gate: str, start_at: float) -> tuple[Answer, bool]:
        """From the fleet, or from the host when it is this worker's to fetch."""
        fact, slowed = await self._look(origin, gate)
        while (answer := self._answer(origin, fact)) is None:
            marker = f"robots-fetch:{origin}:{fact.fetches}"
            wait = max(start_at - self._clock(), 0.0)
            if await self._state.remember(marker, self._worker.encode(), wait + MARKER, if_absent=True):
                fact = await self._fetch(origin, gate, start_at, marker, fact)
                answer = self._answer(origin, fact)
                assert answer is not None, "a fetch leaves a copy or a failure"
                await self._slow_down(gate, answer, slowed)
                return answer, True
            held: bytes | None = b""
            while held is not None and self._answer(origin, fact) is None:
                await asyncio.sleep(POLL)
                known, held = await self._state.recall([_name(origin), marker])
                fact = _decode(known)
        await self._slow_down(gate, answer, slowed)
        return answer, False

    async def _look(self, origin: str, gate: str) -> tuple[_Fact, float]:
        """The fact of an origin, and the Crawl-delay in force at its gate."""
        known, delay = await self._state.recall([_name(origin), f"crawl-delay:{gate}"])
        return _decode(known), float(delay or 0)

    def _answer(self, origin: str, fact: _Fact) -> Answer | None:
        """What a fact says now, kept in memory; None when it is time to fetch."""
        now, failure = self._clock(), fact.failure
        if failure is not None and failure.kind == FailureKind.PRIVATE and self._settings.allow_private:
            failure = None  # another crawl on this state may not go there; this one may
        failing = failure is not None and failure.until > now
        if fact.copy is not None and (failing or fact.fresh_until > now):
            robots = Robots.parse(zlib.decompress(fact.copy), self._settings.product_token) if fact.copy else ALLOW_ALL
            until = fact.fresh_until if failure is None or not failing else failure.until
            return self._keep(origin, robots, until)
        if failure is not None and failing:
            return self._keep(origin, failure, failure.until)
        return None

    async def _slow_down(self, gate: str, answer: Answer, slowed: float) -> None:
        """Put a Crawl-delay in force. Of the hosts at one gate, the one that asks for most decides."""
        if isinstance(answer, Unreachable) or not answer.crawl_delay or answer.crawl_delay <= slowed:
            return
        if answer.delay_capped:
            log.warning("robots.txt of %s asks for a longer Crawl-delay; %.0f s are kept", gate, answer.crawl_delay)
        await self._state.hold(gate, interval=answer.crawl_delay)
        # Written last: if the process dies before, the next worker to look holds the gate again.
        await self._state.remember(f"crawl-delay:{gate}", str(answer.crawl_delay).encode(), FRESH)

    async def _fetch(self, origin: str, gate: str, start_at: float, marker: str, before: _Fact) -> _Fact:
        """Fetch and tell the fleet. If the process dies in here, the marker lapses and another worker fetches."""
        if void(start_at, self._settings.interval, self._clock()):
            start_at = await self._state.turn(self._crawl, gate)
        await self._until(start_at)
        streak = before.failure.streak if before.failure else 0
        try:
            body = await self._download(f"{origin}/robots.txt", marker, last_chance=streak > 0)
        except _Failed as failed:
            return await self._failed(origin, gate, before, failed, streak + 1)
        now = self._clock()
        fact = _Fact(before.fetches + 1, _pack(body), now + FRESH)
        await self._state.remember(_name(origin), msgspec.msgpack.encode(fact), KEPT)
        return fact

    async def _failed(self, origin: str, gate: str, before: _Fact, failed: _Failed, streak: int) -> _Fact:
        now = self._clock()
        kind = "503" if failed.kind == "status" else failed.kind
        wait = retry.backoff(kind, streak, jitter=random.random())  # noqa: S311 - spreads retries, no secret
        wait = REFUSED if failed.kind == FailureKind.PRIVATE else max(wait, failed.wait)
        failure = Unreachable(now + wait, streak, failed.kind, str(failed))
        fact = _Fact(before.fetches + 1, before.copy, before.fresh_until, failure)
        keep = wait + FAILURE_KEPT
        if before.copy is not None:
            keep = max(keep, before.fresh_until - FRESH + KEPT - now)
        elif failed.kind != FailureKind.PRIVATE and streak < self._settings.max_attempts:
            # The host's other pages would only come to hear the same. Given up, they may come and end.
            await self._state.hold(gate, until=failure.until)
        await self._state.remember(_name(origin), msgspec.msgpack.encode(fact), keep)
        return fact

    async def _download(self, url: str, marker: str, last_chance: bool) -> bytes:
        """The file at `url`, redirects followed; b"" where there is none. Raises _Failed."""
        for _ in range(MOST_HOPS + 1):
            try:
                response = await self._fetcher.get(url, max_body=MAX_FILE + 1, deadline=DEADLINE)
            except FetchFailure as failure:
                raise _Failed(failure.kind, str(failure)) from failure
            status = response.status
            if status == 429 or status >= 500:
                wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), self._clock())
                raise _Failed("status", f"HTTP {status} {response.reason}".rstrip(), wait or 0.0)
            if status in REDIRECTS and (target := redirect_target(response)):
                await self._hop(target, marker)
                url = target
                continue
            if not 200 <= status < 300:
                return b""
            if response.truncated in ("disconnect", "time") and not last_chance:
                raise _Failed(FailureKind.RESET, "robots.txt ended early")
            return response.body
        return b""

    async def _hop(self, target: str, marker: str) -> None:
        """Wait for a turn at the gate of a redirect's target, holding the marker."""
        gate = urls.gate_name(urls.hostname(target), self._settings.pace_by)
        start_at = await self._state.turn(self._crawl, gate)
        wait = start_at - self._clock()
        if wait > LONGEST_WAIT:
            raise _Failed(FailureKind.TIMEOUT, f"robots.txt redirects to {gate}, which is busy for {wait:.0f} s")
        await self._state.remember(marker, self._worker.encode(), max(wait, 0.0) + MARKER)
        await self._until(start_at)

    async def _until(self, start_at: float) -> None:
        await asyncio.sleep(max(start_at - self._clock(), 0.0))


def _name(origin: str) -> str:
    return f"robots:{origin}"


def _decode(known: bytes | None) -> _Fact:
    """A fact of another version counts as none."""
    try:
        return msgspec.msgpack.decode(known, type=_Fact) if known else _Fact()
    except msgspec.MsgspecError:
        return _Fact()


def _pack(body: bytes) -> bytes:
    """Compress a file; one that does not compress is cut at a line end."""
    while len(packed := zlib.compress(body)) > MAX_FACT:
        body = body[: max(body.rfind(b"\n", 0, len(body) * MAX_FACT // len(packed)), 0)]
    return packed if body else b""
