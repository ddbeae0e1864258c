"""One look of the janitor at all crawls of a state. Whatever it cannot do now, the next look does.

    crawls that are not complete: how they stand     -> metrics, memory
    nothing is to be fetched, for the second time    -> no workers
    crawls that are complete                         -> merged, summed up, announced

What is quick comes first: a merge may take the rest of the time, or kill the process. A crawl that fails keeps none of
the others from being looked at. Looks may overlap, and may be killed at any point.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from crawler.errors import CrawlerError, UsageError
from crawler.janitor import memory
from crawler.janitor.closing import SPARE, Announce, Closing
from crawler.janitor.memory import Memory
from crawler.janitor.metrics import metrics, one_completed
from crawler.janitor.running import Standing, stand
from crawler.model import Beat, CrawlRecord
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

SILENT = 60.0
"""Seconds without a sign of life after which a worker counts as dead."""

LATELY = 14 * 24 * 3600.0
"""Seconds since its completion for which a crawl is summed up, should it not be: the janitor was away, or is new."""

TOO_LARGE = (
    "its records cannot be read within one look, so whether it is complete is for another process to find out: "
    "run crawler work --until-complete"
)

ENOUGH = 2 * SPARE
"""Seconds that must be left for a crawl to be closed in this look."""

DRAINING = 1 / 3
"""Of a look's time, at most, for what the queue gave up."""


class Found(msgspec.Struct, kw_only=True):
    """What a look saw and did. `running`, `stalled`, `completed` and `closed` are ids of crawls, `closed` those merged,
    summed up and announced now; `dead` counts pages taken from the dead-letter queue; `faults` say in a line each what
    failed."""

    running: list[str] = []
    stalled: list[str] = []
    completed: list[str] = []
    closed: list[str] = []
    workers: int = 0
    workers_lost: int = 0
    swept: int = 0
    dead: int = 0
    stopped: bool = False
    faults: list[str] = []


class Janitor:
    """Looks after the state that was opened at `address`. `announce` tells of complete crawls, `stop_workers` lets the
    fleet go (None: there is none of ours), `emit` takes metrics, a line each."""

    def __init__(
        self,
        state: CrawlState,
        address: str,
        *,
        announce: Announce,
        stop_workers: Callable[[], Awaitable[None]] | None,
        emit: Callable[[bytes], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._clock, self._emit, self._stop_workers = state, clock, emit, stop_workers
        self._closing = Closing(state, address, announce, clock)

    async def look(self, until: float) -> Found:
        """Look once, and begin nothing long that could not end by `until` (Unix seconds).

        Errors: StateUnavailable where not even the crawls could be listed; what fails for one crawl is in `faults`.
        """
        now = self._clock()
        was = await memory.recall(self._state)
        records = await self._state.crawls()
        found = Found()
        new = was.after(now, LATELY)
        with self._guarded(found, "dead letters"):
            await self._drain(found, until)
        running = [record for record in records if record.completed_at is None]
        standings = await self._stand(running, was, new, found, until)
        with self._guarded(found, "workers"):
            await self._workers(was, new, found)
        for line in metrics(self._closing.stack, standings, found, now):
            self._emit(line)
        await memory.keep(self._state, new)
        if found.completed:
            records = await self._state.crawls()
        await self._close(records, new, found, until)
        return found

    async def _drain(self, found: Found, until: float) -> None:
        """End what the queue gave up, for part of the time: thousands take longer than a look, and crawls wait."""
        try:
            async with asyncio.timeout(max(0.0, until - self._clock()) * DRAINING):
                found.dead = await self._state.drain_dead_letters()
        except TimeoutError:
            log.info("dead letters are left for a later look")

    async def _stand(
        self, records: Sequence[CrawlRecord], was: Memory, new: Memory, found: Found, until: float
    ) -> list[Standing]:
        standings = []
        for record in records:
            if (before := was.seen.get(record.id)) is not None:
                new.seen[record.id] = before  # should this look fail at it
            with self._guarded(found, f"crawl {record.id}"):
                now = self._clock()
                standing = await stand(self._state, record, before, now, max(0.0, until - SPARE - now))
                new.seen[record.id] = standing.sight
                standings.append(standing)
        for standing in standings:
            name = standing.record.id
            found.swept += standing.swept
            if standing.complete:
                found.completed.append(name)
                del new.seen[name]
            elif not standing.record.paused:
                found.running.append(name)
            if standing.stalled:
                found.stalled.append(name)
            if standing.too_large:
                text = f"crawl {name}: {TOO_LARGE} --crawl {name}"
                log.error("%s", text)
                found.faults.append(text)
        return standings

    async def _workers(self, was: Memory, new: Memory, found: Found) -> None:
        """Who is there, who fell silent since the last look, and whether anybody is needed."""
        beats = await self._state.workers(within=3600.0)
        silent_since, silent_until = was.at - SILENT, new.at - SILENT
        alive = [beat for beat in beats if beat.at > silent_until]
        found.workers = len(alive)
        found.workers_lost = sum(was.at > 0 and silent_since < beat.at <= silent_until for beat in beats)
        new.idle = not found.running and not found.faults and _idle(alive)
        if new.idle and was.idle and alive and self._stop_workers is not None:
            # The next one comes with the next URL on the frontier.
            await self._stop_workers()
            found.stopped = True

    async def _close(self, records: Sequence[CrawlRecord], new: Memory, found: Found, until: float) -> None:
        """Close what is complete, the latest first: somebody waits for it."""
        now = self._clock()
        complete = [(record.completed_at or 0.0, record) for record in records]
        for at, record in sorted(complete, key=lambda each: -each[0]):
            name, left = record.id, until - self._clock()
            if now - at >= LATELY or at <= new.closed_until or new.closed.get(name) == at:
                continue
            if left < ENOUGH:
                log.info("crawl %s is closed at a later look", name)
                return
            with self._guarded(found, f"crawl {name}"):
                if await self._closing.close(record, left):
                    found.closed.append(name)
                    self._emit(one_completed(self._closing.stack, self._clock()))
                    # Another look may have been at work while this one merged: only what it did is added to that.
                    latest = await memory.recall(self._state)
                    latest.closed[name] = at
                    await memory.keep(self._state, latest)

    @contextmanager
    def _guarded(self, found: Found, what: str) -> Iterator[None]:
        """Note what fails and go on. A crawl that was purged meanwhile has not failed."""
        try:
            yield
        except UsageError as error:
            log.info("%s: %s", what, error)
        except (CrawlerError, OSError) as error:
            log.error("%s: %s", what, error)
            found.faults.append(f"{what}: {error}")


def _idle(alive: Sequence[Beat]) -> bool:
    """Whether nobody holds a page: one that belongs to no crawl yet is a seed that a worker has just received."""
    return not any(beat.held for beat in alive)
