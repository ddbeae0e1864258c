"""A crawl that is not complete: has it come on, is it at its end, does it stand still, and why?

    counters moved                       it comes on
    nothing on the frontier, once        perhaps its end: the numbers of queues are approximate, and late
    … and at the next look, unchanged    lost pages are queued again, else the records decide whether it is complete
    pages left, none finished            it stands still: waits for its hosts, or is stalled

The port's `complete` is authoritative, so that no number here can end a crawl too early; but it may read every record,
and so may `sweep` and `hosts`: about 1.5 cents for each million pages that lie in the table, of all crawls. So nothing
of the kind is done while counters move, and at most once an hour for a crawl that stands still.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
from msgspec.structs import replace

from crawler.janitor.memory import Hosts, Sight
from crawler.model import Counts, CrawlRecord
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

READ_EVERY = 3600.0
"""Seconds between two readings of all records of a crawl that stands still."""

SOON = 60.0
"""Seconds until a host's next turn for which nobody waits: workers take turns ahead."""

ASK_AGAIN = 11.0
"""Seconds after which `complete` is asked once more: where other crawls have messages on the queues, a process believes
counters that it has seen unchanged for ten seconds, and each look may be a new process."""


LONG = 3600.0
"""Seconds, where nobody is in a hurry."""


class Standing(msgspec.Struct, kw_only=True):
    """What a look found of a crawl. `progress`: pages finished since the look before. `swept`: pages that were queued
    again. `complete`: it has become so just now. `too_large`: its records could not be read in the time there was."""

    record: CrawlRecord
    counts: Counts
    sight: Sight
    progress: int = 0
    swept: int = 0
    stalled: bool = False
    complete: bool = False
    too_large: bool = False


async def stand(
    state: CrawlState, record: CrawlRecord, was: Sight | None, now: float, seconds: float = LONG
) -> Standing:
    """Look at a crawl, `was` being what the look before saw, for so many seconds at most. Errors: StateUnavailable;
    UsageError when it was purged meanwhile."""
    counts = await state.counts(record.id)
    standing = _seen(record, counts, was, now)
    sight = standing.sight
    left = counts.outstanding > 0 or sight.discovered > sight.finished
    if was is None or (record.paused and left) or seconds <= 0:
        return standing
    try:
        async with asyncio.timeout(seconds):
            if sight.empty and was.empty and (was.discovered, was.finished) == (sight.discovered, sight.finished):
                await _end(state, standing, left=left, now=now)
            elif not sight.empty and not standing.progress:
                await _wait(state, standing, now)
    except TimeoutError:
        # As if it had answered no: once an hour is often enough to read so much for nothing.
        standing.sight = replace(sight, doubted=True, swept_at=now, read_at=now)
        standing.stalled, standing.too_large = True, True
    return standing


def _seen(record: CrawlRecord, counts: Counts, was: Sight | None, now: float) -> Standing:
    """How a crawl stands by its counters."""
    finished = counts.done + counts.skipped + counts.dead
    sight = Sight(discovered=counts.discovered, finished=finished, moved_at=now, empty=counts.outstanding == 0)
    standing = Standing(record=record, counts=counts, sight=sight)
    if was is not None:
        standing.progress = max(0, finished - was.finished)
        still = (was.discovered, was.finished) == (sight.discovered, finished)
        sight = replace(sight, doubted=was.doubted and still, swept_at=was.swept_at)
        if not standing.progress:
            sight = replace(sight, moved_at=was.moved_at, read_at=was.read_at, hosts=was.hosts)
        elif was.hosts is Hosts.CLOSED:
            # That holds for its hour, whatever one of them lets through in between.
            sight = replace(sight, read_at=was.read_at, hosts=was.hosts)
        standing.sight = sight
    return standing


async def _end(state: CrawlState, standing: Standing, *, left: bool, now: float) -> None:
    """Nothing on the frontier and nothing moved, twice in a row: complete, or pages are lost."""
    crawl, sight = standing.record.id, standing.sight
    if left or sight.doubted:
        if now - sight.swept_at >= READ_EVERY:
            standing.sight = replace(sight, swept_at=now)
            standing.swept = await state.sweep(crawl)
            if standing.swept:
                log.warning("crawl %s: %d pages were recorded and on no queue; queued again", crawl, standing.swept)
                return
        elif sight.doubted:
            standing.stalled = True
            return
    standing.complete = await _complete(state, crawl)
    if not standing.complete:
        standing.sight = replace(standing.sight, doubted=True)
        standing.stalled = True


async def _complete(state: CrawlState, crawl: str) -> bool:
    if await state.complete(crawl):
        return True
    await asyncio.sleep(ASK_AGAIN)
    return await state.complete(crawl)


async def _wait(state: CrawlState, standing: Standing, now: float) -> None:
    """Pages are on the frontier, and none was finished: whether any could have been."""
    crawl, sight = standing.record.id, standing.sight
    if now - sight.read_at >= READ_EVERY:
        hosts = await _hosts(state, crawl, now, now - sight.moved_at)
        standing.sight = replace(sight, read_at=now, hosts=hosts)
    standing.stalled = standing.sight.hosts is Hosts.OPEN
    if standing.sight.hosts is Hosts.NONE:
        # The counters are off, since a worker died, and what is on the queues is other crawls'. `complete` believes
        # that after a while in one process, or when the queues are empty.
        standing.complete = await state.complete(crawl)


async def _hosts(state: CrawlState, crawl: str, now: float, still: float) -> Hosts:
    """How the hosts are that have pages left, after `still` seconds in which nothing was finished."""
    found = Hosts.NONE
    async for host in state.hosts(crawl):
        if host.pending + host.leased:
            if host.next_at <= now + SOON and host.interval <= still:
                return Hosts.OPEN
            found = Hosts.CLOSED
    return found
