"""Parking: where the messages of a paused crawl lie, so that a pause costs nothing however long it is.

A message that stayed on its queue would have to be received and sent again every quarter of an hour, would keep workers
from leaving, and would be gone after some days. So whoever receives one packs it, with others, into an item of the
control table: into a backlog of the crawl that is no host's, a lot. The feeders of the hosts' backlogs are parked too,
so that nothing of the crawl is on a queue any more. When it is resumed, the lots are fed to the queue.

    park      append to a lot -> read the crawl -> not paused any more: see that the lot has a feeder -> delete messages
    resume    send feeders, appoint them -> the crawl is not paused -> look at the lots once more

Each side writes before it reads what the other writes, and reads are strongly consistent. So of something that is
parked while the crawl is resumed, one of the two sees what the other did, however long a process stood still in
between. If a worker dies, its messages come back. If a process dies while it resumes: before the crawl's write, the
feeders find it paused and go; after it, they are there.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence

from crawler.errors import StateUnavailable, UsageError
from crawler.model import Priority
from crawler.state.aws import backlog
from crawler.state.aws.backlog import Backlog, Line
from crawler.state.aws.chunk import Entry, cut
from crawler.state.aws.client import together
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.placing import NOTED, OVERDUE
from crawler.state.aws.queue import Outgoing, Queues
from crawler.state.aws.records import Feed, encode, group, lane, micros

LOTS = 16
"""Lots of a crawl. A process uses one of them: many that wrote to one would lose races all the time."""

LOT = "parked "
"""What the names of lots begin with. No host's does: it holds a blank."""

LARGEST = 100
"""Messages of a chunk."""

RACES = 10
"""Times that somebody else may appoint or dismiss a lot's feeder meanwhile."""


class Parking:
    """What one process parks and resumes."""

    def __init__(self, queues: Queues, lines: Backlog, crawls: Crawls, clock: Callable[[], float]) -> None:
        self._queues, self._lines, self._crawls, self._clock = queues, lines, crawls, clock
        self._lot = f"{LOT}{random.randrange(LOTS)}"  # noqa: S311 - no secret
        self._one_at_a_time = asyncio.Lock()

    async def park(self, entries: Sequence[Entry]) -> None:
        """Put messages into the lots of their crawls: when this returns, they may be deleted."""
        by_run: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in entries:
            by_run[entry.feed if isinstance(entry, Feed) else entry.crawl, entry.run].append(entry)
        for (crawl, run), some in by_run.items():
            async with self._one_at_a_time:
                await self._lines.append(backlog.name(crawl, run, self._lot), list(cut(some, LARGEST)))
            await self.look(crawl, run, [self._lot])

    async def look(self, crawl: str, run: str, lots: Sequence[str]) -> None:
        """Give a feeder to those of a crawl's lots that have something and no feeder, unless the crawl is paused."""
        try:
            seen = await self._crawls.read(crawl)
        except UsageError:
            return  # purged: what was parked belongs to nothing
        if seen.run == run and not seen.record.paused:
            found = await self._read(seen, lots)
            await self._feed(seen, [lot for lot, line in found.items() if not line.empty and not self._fed(line)])

    async def resume(self, crawl: str) -> bool:
        """End a pause; False: there was none. It may be repeated. Raises UsageError."""
        seen = await self._crawls.read(crawl)
        lots = [f"{LOT}{number}" for number in range(LOTS)]
        if seen.record.paused:
            await self._feed(seen, lots)
        resumed = await self._crawls.pause(crawl, False)
        # Feeders that found the crawl paused for long are gone.
        await self.look(crawl, seen.run, lots)
        return resumed

    async def _read(self, seen: Crawl, lots: Sequence[str]) -> dict[str, Line]:
        names = {lot: backlog.name(seen.record.id, seen.run, lot) for lot in lots}
        await self._lines.refresh(list(names.values()))
        return {lot: self._lines.seen(name) for lot, name in names.items()}

    def _fed(self, line: Line) -> bool:
        return bool(line.feeder) and line.due >= micros(self._clock() - OVERDUE)

    async def _feed(self, seen: Crawl, lots: Sequence[str]) -> None:
        """Give lots a feeder, whatever they have."""
        now = self._clock()
        feeds = [Feed.new(seen.record.id, seen.run, lot, now) for lot in lots]
        messages = [Outgoing(lane(Priority.NORMAL), encode(feed), group(feed.gate), math.ceil(NOTED)) for feed in feeds]
        await self._queues.send(messages)
        await together([self._appoint(feed, micros(now + NOTED)) for feed in feeds])

    async def _appoint(self, feed: Feed, due: int) -> None:
        name = backlog.name(feed.feed, feed.run, feed.gate)
        for _ in range(RACES):
            was = self._lines.seen(name).feeder
            if await self._lines.appoint(name, was, feed.token, due):
                return  # else it is told who is the lot's feeder now
        raise StateUnavailable(f"too many processes resume {feed.feed}")


def is_lot(gate: str) -> bool:
    """Whether a backlog's name is a lot's."""
    return gate.startswith(LOT)
