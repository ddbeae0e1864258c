"""Feeding: one message a line moves pages from the backlog to the queue, a few minutes' turns at a time.

    send the pages of some chunks -> send the next message -> note how far the line has come -> empty the chunks
    -> delete this message

If the process dies anywhere here, this message comes back. Before the note it is still the line's feeder, and sends
the same pages a second time; behind it, it finds another in its place and is dropped. Of two deliveries of one message
only one can note anything, and what the other sent is dropped likewise.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from crawler.errors import CrawlerError, UsageError
from crawler.model import Priority
from crawler.state.aws import backlog
from crawler.state.aws.adding import Adding
from crawler.state.aws.backlog import Backlog, Line
from crawler.state.aws.chunk import Entry
from crawler.state.aws.client import together
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.gate import Gates
from crawler.state.aws.limits import Limits
from crawler.state.aws.parking import Parking, is_lot
from crawler.state.aws.placing import NOTED, SPARE, WINDOW, Placed, Placing
from crawler.state.aws.queue import Outgoing, Queues
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import Feed, Message, encode, group, lane, micros

log = logging.getLogger(__name__)

MOST = 10
"""Chunks that one message moves: well within its lease."""

AGAIN = 10.0
"""Seconds after which a message that is not known to be the line's feeder is looked at again."""

GRACE = 60.0
"""Seconds for which a message that is not the line's feeder may still become it: who sends one notes it afterwards."""


class Feeding:
    """Feeds of one process."""

    def __init__(
        self,
        queues: Queues,
        lines: Backlog,
        placing: Placing,
        parking: Parking,
        gates: Gates,
        crawls: Crawls,
        quotas: Quotas,
        limits: Limits,
        adding: Adding,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._lines, self._placing, self._parking = queues, lines, placing, parking
        self._gates, self._crawls = gates, crawls
        self._quotas, self._limits, self._adding, self._clock = quotas, limits, adding, clock

    async def feed(self, feeds: Sequence[tuple[Feed, str]]) -> None:
        """Do what messages, given with their receipts, ask for. One that fails comes back when its lease expires."""
        parked = {receipt: feed for feed, receipt in feeds if await self._paused(feed)}
        calls = [self._try(self._feed(feed), [receipt]) for feed, receipt in feeds if receipt not in parked]
        if parked:
            calls.append(self._try(self._parking.park(list(parked.values())), list(parked)))
        await together(calls)

    async def _try(self, work: Awaitable[None], receipts: list[str]) -> None:
        try:
            await work
            await self._queues.delete(receipts)
        except CrawlerError as error:
            log.info("backlogs are fed later: %s", error)

    async def _paused(self, feed: Feed) -> bool:
        """Whether it feeds a host's backlog of a paused crawl."""
        try:
            crawl = await self._crawls.known(feed.feed)
        except CrawlerError:
            return False  # met again when it is fed
        return crawl.record.paused and crawl.run == feed.run and not is_lot(feed.gate)

    async def _feed(self, feed: Feed) -> None:
        try:
            crawl = await (self._crawls.read if is_lot(feed.gate) else self._crawls.known)(feed.feed)
            if crawl.run != feed.run:
                crawl = await self._crawls.read(feed.feed)  # perhaps begun anew since it was seen
        except UsageError:
            return  # purged: its lines were dropped
        if crawl.run != feed.run:
            return
        name = backlog.name(feed.feed, feed.run, feed.gate)
        line = await self._lines.read(name)
        if line.feeder != feed.token:
            if self._clock() - feed.born < GRACE:
                await self._placing.call(feed, self._clock() + AGAIN)
            return
        if crawl.record.paused and is_lot(feed.gate):
            await self._rest(feed, name)
        else:
            await self._move(feed, name, line)

    async def _rest(self, feed: Feed, name: str) -> None:
        """A lot is to be fed, and its crawl is still paused: it is about to be resumed, or whoever did so has died."""
        if self._clock() - feed.born < GRACE:
            await self._placing.call(feed, self._clock() + AGAIN)
        elif await self._lines.appoint(name, feed.token, "", 0):
            await self._parking.look(feed.feed, feed.run, [feed.gate])

    async def _move(self, feed: Feed, name: str, line: Line) -> None:
        """Move the line on."""
        chunks = await self._lines.chunks(name, line.head, MOST)
        if line.head + len(chunks) > line.tail:  # written by a process that died before it said so
            line = await self._lines.cover(name, line.head + len(chunks))
        placed, moved = await (self._parked if is_lot(feed.gate) else self._due)(feed, line, chunks)
        if placed:
            await self._adding.post(f"{feed.feed}#{feed.run}", placed)
        moved = msgspec.structs.replace(moved, feeder="", due=0)
        if not moved.empty or not await self._lines.move(name, line, moved):
            all_of_them = moved.head == line.head + len(chunks)
            at = self._clock() + NOTED if all_of_them else self._placing.wake(feed.feed, feed.gate, moved.booked)
            again = Feed.new(feed.feed, feed.run, feed.gate, self._clock())
            await self._placing.call(again, at)
            moved = msgspec.structs.replace(moved, feeder=again.token, due=micros(at))
            if not await self._lines.move(name, line, moved):
                return  # another delivery of this message was faster: its own next one is the line's feeder
        await self._lines.empty(name, range(line.head, moved.head))

    async def _parked(self, feed: Feed, line: Line, chunks: list[list[Entry]]) -> tuple[Placed, Line]:  # noqa: ARG002
        """The pages of a lot's chunks that are to go on the queue, with their times, and the line without them."""
        entries = [entry for chunk in chunks for entry in chunk]
        pages = [entry for entry in entries if isinstance(entry, Message)]
        await self._gates.read(list({page.gate for page in pages}))
        await self._quotas.read(self._quotas.stale(pages))
        feeders = [entry for entry in entries if isinstance(entry, Feed)]
        await self._queues.send(
            [Outgoing(lane(Priority.NORMAL), encode(feeder), group(feeder.gate)) for feeder in feeders]
        )
        placed = await self._placing.place(pages, again=True)
        return placed, msgspec.structs.replace(line, head=line.head + len(chunks))

    async def _due(self, feed: Feed, line: Line, chunks: list[list[Entry]]) -> tuple[Placed, Line]:
        """The pages that are to go on the queue now, with their times, and the line without them: enough for a while,
        or all if a limit has ended them."""
        filled = [[page for page in chunk if isinstance(page, Message)] for chunk in chunks]
        some = [page for pages in filled for page in pages[:1]]
        await self._gates.read([feed.gate])
        await self._quotas.read(self._quotas.stale(some))
        now = self._clock()
        ended = some and self._limits.limit(some[0], now)
        opens, step = self._placing.outlook(feed.feed, feed.gate)
        apart = math.ceil(step * SPARE)
        booked, head = max(line.booked, opens), line.head
        placed: Placed = []
        for pages in filled:
            if ended:
                placed += [(page, 0.0) for page in pages]
            elif booked < micros(now + WINDOW):
                placed += self._placing.spread(pages, booked, apart)
                booked += len(pages) * apart
            else:
                break
            head += 1
        return placed, msgspec.structs.replace(line, head=head, booked=booked)

    async def mend(self, crawl: Crawl) -> int:
        """Give a feeder to every line of a crawl that has pages: for when no message is on any queue, so that all
        feeders are lost. Answers how many pages lie there. Reads the whole control table."""
        lines = await self._lines.lines(crawl.record.id, crawl.run)
        for name, found in lines.items():
            head = found.line.head
            await self._lines.empty(name, [at for at in found.pages if at < head])
            stop = next(at for at in itertools.count(head) if at not in found.pages)
            # Chunks behind a gap, or without a line: their writer failed or died, or the line was deleted.
            for at in sorted(at for at in found.pages if at > stop):
                await self._lines.append(name, await self._lines.chunks(name, at, 1))
                await self._lines.empty(name, [at])
            if any(at >= head for at in found.pages):
                line = await self._lines.cover(name, stop)
                gate = name.removeprefix(backlog.name(crawl.record.id, crawl.run, ""))
                now = self._clock()
                await self._placing.start(name, Feed.new(crawl.record.id, crawl.run, gate, now), line, now + NOTED)
        left = sum(sum(c for at, c in found.pages.items() if at >= found.line.head) for found in lines.values())
        if left:
            log.warning("crawl %s: the backlogs of its hosts are fed again: %d pages", crawl.record.id, left)
        return left
