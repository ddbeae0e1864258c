"""The one loop: claim, visit, settle, for many pages in flight. The command line, an ECS task and a function run it.

Capacity comes before a claim: nothing is claimed that could not start soon. A stop lets what is in flight finish,
gives back what has not started, writes everything and leaves no lease behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from crawler import urls
from crawler.contexts import Contexts
from crawler.errors import CannotServe, StateUnavailable, StoreUnavailable, UsageError
from crawler.fetch import DEADLINE
from crawler.model import FINISHED, Beat, Lease, Settled, Verdict, defer
from crawler.parser import Parser
from crawler.patience import patiently, say
from crawler.settle import Settler
from crawler.state.port import CrawlState
from crawler.telemetry.counters import Counters
from crawler.visit import Visit

log = logging.getLogger(__name__)

BEAT = 5
"""Seconds between two signs of life. Every second in between, leases that run short are extended."""

DRAIN = 10.0
"""Seconds that requests in flight get to finish after a stop; then their pages are given back."""

WRITE = 4.0
"""Seconds that writing and settling get beyond that, and then closing the archives, should their store be away."""

GIVE_BACK = 1.0
"""Seconds for each of the steps in which a worker leaves at once."""

SHORT_PAUSE, LONG_PAUSE = 0.01, 0.5
"""Seconds between claims that found nothing, growing from the one to the other."""

ELSEWHERE = 30.0
"""Seconds for which a page that this worker cannot serve is left to others."""

AHEAD = 2
"""Leases held per request slot: what waits for its turn or its robots.txt must not keep a slot from working."""

PER_PAGE_LEFT, LONGEST_UNASKED = 0.005, 5.0
"""Seconds for which an idle worker does not ask whether a crawl is complete: for each page left, and at most."""


class Exit(StrEnum):
    """Why the loop ended."""

    COMPLETE = "complete"
    STOPPED = "stopped"


class Held(msgspec.Struct, gc=False):
    """A lease in our hands: when it expires as extended, and how long it lasts (seconds)."""

    lease: Lease
    expires_at: float
    span: float


class Worker:
    """One fetcher: works on one crawl of a state, or on all of them, until stopped or until there is nothing left.

    until_complete: until all crawls are complete. until: until this says that there is nothing more to claim for now.
    longest: seconds that no request outlasts.
    """

    def __init__(
        self,
        state: CrawlState,
        store: str,
        *,
        name: str,
        crawl: str | None = None,
        concurrency: int = 64,
        until_complete: bool = False,
        until: Callable[[], bool] | None = None,
        longest: float = DEADLINE,
    ) -> None:
        self._state, self._crawl, self._name = state, crawl, name
        self._slots, self._until_complete, self._until = concurrency, until_complete, until
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._room = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], Lease] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._held: dict[str, Held] = {}
        self._finished: deque[float] = deque()
        self._ask_at = 0.0
        # Whoever can tell that there is nothing more ends soon after it, and asks nobody for that.
        self._longest_pause = LONG_PAUSE if until is None else SHORT_PAUSE * 5
        self._parser = Parser()
        self.counters = Counters()
        self._contexts = Contexts(state, store, name, self._parser, self.counters, self._stopping, longest)
        self._settler = Settler(
            state, self._contexts.ledgers, lambda: not self._tasks, self._settled, self.counters.discovered
        )

    def stop(self) -> None:
        """First call: stop claiming and drain. Second call: give everything back and leave at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    @property
    def in_flight(self) -> int:
        """Pages held now."""
        return len(self._held)

    def hosts_held(self, since: float) -> int:
        """Hosts that this worker saw slowed down at some time since then (Unix seconds)."""
        return self._contexts.hosts.held(since)

    async def run(self) -> Exit:
        """Work until there is nothing left or stopped, and close. The caller closes the state."""
        try:
            return await self.shift()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close what a shift leaves open."""
        await asyncio.gather(
            self._contexts.close(GIVE_BACK if self._hurry.is_set() else WRITE),
            self._parser.close(),
        )

    async def shift(self) -> Exit:
        """Work until there is nothing left or stopped. Then nothing is held and nothing runs, and what is open stays
        open: archives, connections, what is known. After one that was not stopped another may follow, until `close`."""
        await self._parser.start()
        # Reads the list of suffixes now, and not between a turn and its request.
        await asyncio.to_thread(urls.registrable_domain, "example.com")
        settling = asyncio.create_task(self._settler.run())
        beating = asyncio.create_task(self._beat())
        claiming = asyncio.create_task(self._claim())
        hurry = asyncio.create_task(self._hurry.wait())
        whole = False
        try:
            await asyncio.wait({claiming, settling, beating, hurry}, return_when=asyncio.FIRST_COMPLETED)
            for task in (settling, beating):
                if task.done():
                    self.stop()
                    task.result()  # neither ends by itself: this raises what broke it
            await asyncio.wait({claiming, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if claiming.done():
                claiming.result()
            over = not self._stopping.is_set()
            await self._drain(settling, hurry)
            whole = True
            return Exit.COMPLETE if over else Exit.STOPPED
        finally:
            # What was delivered and broke a function stays for its next delivery: at once it would break the next call.
            await self._leave(claiming, settling, beating, hurry, give_back=whole or self._until is None)

    # ---------------------------------------------------------------- claim

    async def _claim(self) -> None:
        pause = SHORT_PAUSE
        most = self._slots * AHEAD
        while not self._stopping.is_set():
            room = 0 if self._settler.full else most - len(self._tasks)
            if room < max(1, self._slots // 4):
                self._room.clear()
                await _first_of(self._room, self._stopping, timeout=LONG_PAUSE)
                continue
            try:
                leases = await self._state.claim(room, self._crawl)
                if not leases and await self._over():
                    return
            except StateUnavailable as error:
                say(error)
                leases, pause = [], LONG_PAUSE
            for lease in leases:
                self._start(lease)
            # A host's next turn is an interval away at most: who looks less often would let it pass.
            longest = max(SHORT_PAUSE, min(self._longest_pause, self._contexts.interval / 2))
            pause = SHORT_PAUSE if leases else min(pause * 2, longest)
            if len(leases) < room:
                await _first_of(self._stopping, timeout=pause)

    def _start(self, lease: Lease) -> None:
        self._held[lease.token] = Held(lease, lease.expires_at, lease.expires_at - time.time())
        task = asyncio.create_task(self._visit(lease))
        self._tasks[task] = lease
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._room.set()

    async def _visit(self, lease: Lease) -> None:
        """One page; whatever happens its lease reaches the settler."""
        visit = Visit(lease=lease, verdict=defer(time.time()))
        try:
            visitor = await self._contexts.visitor(lease.crawl)
            visit = await visitor.visit(lease)
        except asyncio.CancelledError:
            pass  # the drain's deadline: the page is given back
        except (StateUnavailable, StoreUnavailable) as error:
            say(error)
            visit.verdict = defer(time.time() + LONG_PAUSE)
        except CannotServe:
            visit.verdict = defer(time.time() + ELSEWHERE)
        except UsageError as error:
            log.info("let a page go: %s", error)  # its crawl was purged: giving the page back answers LOST
        except Exception as error:
            # A fault of this program must cost an attempt of one page and never the worker.
            log.exception("internal fault at one page")
            visit.verdict = self._contexts.fault(lease, error)
        self._settler.put(visit)
        if visit.sitemaps:
            reading = asyncio.create_task(self._read_sitemaps(visit))
            self._reading.add(reading)
            reading.add_done_callback(self._reading.discard)

    async def _read_sitemaps(self, visit: Visit) -> None:
        """Sitemaps, while the page stays leased; they take no slot from pages."""
        lease, whole = visit.lease, False
        try:
            visitor = await self._contexts.visitor(lease.crawl)
            whole = await visitor.sitemaps.read(lease, visit.sitemaps, partial(self._settler.add, lease))
        except (asyncio.CancelledError, StateUnavailable, StoreUnavailable, UsageError):
            pass  # the page is given back, as in a visit
        except Exception:
            log.exception("internal fault at the sitemaps of one host")
            whole = True
        self._settler.read(lease, whole=whole)

    async def _over(self) -> bool:
        """Whether there is nothing left for this worker to do: only asked when nothing is in our hands. Whether every
        crawl is complete is exact, and asked the less often the more is left to do."""
        if self._tasks or self._held:
            return False
        if self._until is not None:
            return self._until() and not self._contexts.loading
        if not self._until_complete or time.monotonic() < self._ask_at:
            return False
        for record in await self._state.crawls():
            if record.completed_at is not None or self._crawl not in (None, record.id):
                continue
            with contextlib.suppress(UsageError):  # purged since it was listed
                left = (await self._state.counts(record.id)).outstanding
                if left > 0 or not await self._state.complete(record.id):
                    pause = LONGEST_UNASKED if record.paused else min(left * PER_PAGE_LEFT, LONGEST_UNASKED)
                    self._ask_at = time.monotonic() + pause
                    return False
        return True

    # ---------------------------------------------------------------- heartbeat

    async def _beat(self) -> None:
        """Signs of life, and more time for leases that need it."""
        for second in itertools.count():
            try:
                if second % BEAT == 0:
                    await self._state.beat(self._sign_of_life())
                await self._extend()
            except StateUnavailable as error:
                log.info("no sign of life: %s", error)
            await asyncio.sleep(1)

    def _sign_of_life(self) -> Beat:
        return Beat(worker=self._name, at=time.time(), rate=self._rate(), held=len(self._held))

    async def _extend(self) -> None:
        """Extend what has less than half its lease left: pages that wait for a slow server or for a flush."""
        now = time.time()
        short = [held for held in self._held.values() if held.expires_at - now < held.span / 2]
        if not short:
            return
        for held, answer in zip(short, await self._state.extend([held.lease for held in short]), strict=True):
            # A lost lease is left to its visit: settling it will say LOST, and change nothing.
            held.expires_at = now + held.span if answer is Settled.SETTLED else math.inf

    def _settled(self, lease: Lease, verdict: Verdict, answer: Settled) -> None:
        self._held.pop(lease.token, None)
        if answer is Settled.SETTLED:
            self.counters.settled(verdict)
        if verdict.ending in FINISHED:
            now = time.monotonic()
            self._finished.append(now)

    def _rate(self) -> float:
        """Pages finished per second over the last ten seconds."""
        now = time.monotonic()
        while self._finished and self._finished[0] < now - 10:
            self._finished.popleft()
        return len(self._finished) / 10

    # ---------------------------------------------------------------- the end

    async def _drain(self, settling: asyncio.Task[None], hurry: asyncio.Task[bool]) -> None:
        """Let what is in flight finish, within the deadline; then flush and settle. Raises what broke the settler."""
        deadline = asyncio.get_running_loop().time() + DRAIN
        while (left := deadline - asyncio.get_running_loop().time()) > 0 and not hurry.done():
            if not (tasks := {*self._tasks, *self._reading}):
                break
            await asyncio.wait({hurry, *tasks}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if tasks := {*self._tasks, *self._reading}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=GIVE_BACK)
        await self._settler.close()
        left = max(WRITE, deadline - asyncio.get_running_loop().time())
        await asyncio.wait({settling, hurry}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if hurry.done():
            await asyncio.wait({settling}, timeout=GIVE_BACK)
        if settling.done():
            settling.result()

    async def _leave(self, *background: asyncio.Task[Any], give_back: bool) -> None:
        """Whatever is still held goes back, or stays leased; nothing here may wait for long."""
        tasks = {*background, *self._tasks, *self._reading}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=GIVE_BACK)
        if not give_back:
            self._held.clear()
        await asyncio.gather(self._give_back(), self._contexts.rest(GIVE_BACK))
        with contextlib.suppress(TimeoutError, StateUnavailable):
            async with asyncio.timeout(GIVE_BACK):
                # A sign of life from long ago is a goodbye: from now on nobody counts this worker as alive.
                await self._state.beat(Beat(worker=self._name, at=0.0))

    async def _give_back(self) -> None:
        leases = [held.lease for held in self._held.values()]
        if not leases:
            return
        try:
            async with asyncio.timeout(GIVE_BACK):
                # The settler may have added links of theirs, and rows that go with those were perhaps not written.
                ends = [(lease, defer(time.time(), again=True)) for lease in leases]
                answers = await patiently(lambda: self._state.settle(ends))
            for (lease, verdict), answer in zip(ends, answers, strict=True):
                self._settled(lease, verdict, answer)
        except TimeoutError:
            log.warning("%d pages stay leased until their leases expire: the state does not answer", len(leases))


async def _first_of(*events: asyncio.Event, timeout: float | None = None) -> None:
    """Wait for the first of some events, or for the time to pass."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
