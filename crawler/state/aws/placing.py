"""Placing: where a page waits for its host's turn, and for how long. Each page should be received once, when it may
start.

    its turn is near            on the queue, at once
    within FAR                  on the queue, delayed: up to ten together, so that one receive and one write take all
    later, or others wait so    in the backlog of its host

All processes book delays at one place, the host's line. What is booked is no turn, only the time to come for one: who
finds the gate closed then is placed again.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence

from crawler.model import Priority
from crawler.state.aws import backlog
from crawler.state.aws.backlog import Backlog, Line
from crawler.state.aws.chunk import cut
from crawler.state.aws.client import together
from crawler.state.aws.gate import Gates
from crawler.state.aws.limits import Limits
from crawler.state.aws.queue import BATCH, LONGEST_DELAY, Outgoing, Queues
from crawler.state.aws.records import Feed, Message, encode, group, lane, micros

LEASE = 120.0
"""Seconds of the lease for which the times below are meant; they shrink with a shorter one."""

SOON = 20.0
"""Seconds ahead within which a turn is near."""

TOGETHER = 10.0
"""Seconds of turns that come off the queue together, for ten pages at most."""

EARLY = 5.0
"""Seconds before the first of these turns."""

FAR = 600.0
"""Seconds ahead for which pages are booked on the queue."""

WINDOW, LOW = 300.0, 60.0
"""Seconds of turns for which a feeder fills the queue, and what is left of them when it comes again."""

SPARE = 0.9
"""Of the seconds between turns: what pages are booked apart. Some of them will need no turn, and nobody makes up for a
turn that was not taken; those that come too early are few."""

LARGEST = 100
"""Pages of a chunk."""

NOTED = 2.0
"""Seconds before a feeder's message comes at the earliest: by then it is noted that it is the line's."""

OVERDUE = 900.0
"""Seconds for which a feeder may be late before a line without one is assumed."""

REMEMBERED = 50_000
"""Lines in memory."""

AHEAD = " ahead"
"""What is remembered of a line's pages of high priority is remembered under its name with this."""

Placed = list[tuple[Message, float]]
"""Pages that are to go on the queue, each with the time (Unix seconds) at which it is to come off; 0: at once."""


class Placing:
    """Where the pages of one process go. `haste`: the part of the usual times that pages come before their turn."""

    def __init__(
        self,
        queues: Queues,
        gates: Gates,
        limits: Limits,
        lines: Backlog,
        clock: Callable[[], float],
        haste: float = 1.0,
    ) -> None:
        self._queues, self._gates, self._limits, self._lines, self._clock = queues, gates, limits, lines, clock
        scale = haste * min(1.0, queues.lease / LEASE)
        self._soon, self._together, self._early = SOON * scale, TOGETHER * scale, EARLY * scale
        self._sent: OrderedDict[str, int] = OrderedDict()

    async def place(self, pages: Sequence[Message], *, again: bool = False) -> Placed:
        """Where each of some pages waits: those that are to go on the queue. All others are in a backlog.

        `again`: they were on the queue before, so they come before those in the backlog.
        """
        by_line: dict[str, list[Message]] = defaultdict(list)
        for page in pages:
            by_line[backlog.name(page.crawl, page.run, page.gate)].append(page)
        if not again:
            await self._lines.refresh([name for name, some in by_line.items() if self._unsure(name, some[0])])
        placed = await together([self._place(name, some, again) for name, some in by_line.items()])
        return [entry for some in placed for entry in some]

    def _unsure(self, name: str, page: Message) -> bool:
        """Whether the line of a page must be read to know what others booked: when it is met first, and while it is
        in use. A line that is not in use costs nothing."""
        _, step = self.outlook(page.crawl, page.gate)
        line = self._lines.seen(name)
        in_use = line.booked > micros(self._clock()) or not line.empty
        return step > 0 and (not line.seen_at or (in_use and self._lines.stale(name)))

    async def _place(self, name: str, pages: list[Message], again: bool) -> Placed:
        """The pages of one line."""
        now = self._clock()
        if self._limits.limit(pages[0], now):
            return [(page, 0.0) for page in pages]  # handed out with the limit, without a turn
        placed = [(page, page.not_before) for page in pages if page.not_before > now]
        waiting = [page for page in pages if page.not_before <= now]
        if not again:
            placed += self._ahead(name, waiting)
            placed += self._at_once(name, waiting)
        if waiting:
            placed += await self._booked(name, waiting, behind=not again)
        end = self._limits.end(pages[0].crawl)
        return [(page, min(at, end)) for page, at in placed]

    def _ahead(self, name: str, pages: list[Message]) -> Placed:
        """Take those of high priority, ahead of all that is booked: who meets them gives way."""
        high = [page for page in pages if page.priority <= Priority.HIGH]
        if not high:
            return []
        opens, step = self.outlook(high[0].crawl, high[0].gate)
        start = max(opens, self._sent.get(name + AHEAD, 0))
        high = high[: self._fit(start, step, FAR, len(high))]
        taken = {page.pk for page in high}
        pages[:] = [page for page in pages if page.pk not in taken]
        self._note(name + AHEAD, start + len(high) * step)
        return self.spread(high, start, step)

    def _at_once(self, name: str, pages: list[Message]) -> Placed:
        """Take those whose turn is near, on a line where nobody books: where the turns will do for all."""
        line = self._lines.seen(name)
        if not pages or not line.empty or line.booked > micros(self._clock()):
            return []
        opens, step = self.outlook(pages[0].crawl, pages[0].gate)
        start = max(opens, self._sent.get(name, 0))
        fit = self._fit(start, step, self._soon, len(pages))
        taken, pages[:] = pages[:fit], pages[fit:]
        self._note(name, start + fit * step)
        return [(page, 0.0) for page in taken]

    def _fit(self, start: int, step: int, ahead: float, most: int) -> int:
        """How many turns from a start on lie at most so many seconds ahead."""
        left = micros(self._clock() + ahead) - start
        return 0 if left < 0 else min(most, left // step + 1) if step else most

    def _note(self, name: str, until: int) -> None:
        """Remember until when this process sent pages for turns that it did not book."""
        self._sent[name] = until
        self._sent.move_to_end(name)
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    async def _booked(self, name: str, pages: list[Message], behind: bool) -> Placed:
        """Book turns on the queue for as many as will do; the others go to the backlog."""
        page = pages[0]
        opens, step = self.outlook(page.crawl, page.gate)
        apart = math.ceil(step * SPARE)
        if behind:
            await self._lines.look(name)
            opens = max(opens, self._sent.get(name, 0))
        latest = micros(self._clock() + FAR)
        start, fit = await self._lines.book(name, opens, apart, len(pages), latest, behind=behind)
        if fit < len(pages):
            most = max(1, min(LARGEST, int(micros(WINDOW) // step))) if step else LARGEST
            line = await self._lines.append(name, list(cut(pages[fit:], most)))
            if not line.feeder or line.due < micros(self._clock() - OVERDUE):
                at = self.wake(page.crawl, page.gate, line.booked)
                await self.start(name, Feed.new(page.crawl, page.run, page.gate, self._clock()), line, at)
        return self.spread(pages[:fit], start, apart)

    def outlook(self, crawl: str, gate: str) -> tuple[int, int]:
        """When the next turn is, and what lies between turns (microseconds), as far as is known here."""
        seen = self._gates.seen(gate)
        step = seen.step(self._limits.pace(crawl))
        return max(micros(self._clock()), seen.next(step)), step

    def spread(self, pages: Sequence[Message], start: int, apart: int) -> Placed:
        """Times to come off the queue for pages whose turns are `apart`: a little before, and with those that are
        placed by others and whose turns are then too."""
        now = self._clock()
        slot = max(1, min(BATCH * apart, micros(self._together)))
        times = [(start + place * apart) // slot * slot / 1_000_000 - self._early for place in range(len(pages))]
        return [(page, at if at > now else 0.0) for page, at in zip(pages, times, strict=True)]

    async def start(self, name: str, feed: Feed, line: Line, at: float) -> None:
        """Give a line another feeder than it had, unless somebody else did.

        If the process dies before the second step, the message finds that it is nobody's.
        """
        await self.call(feed, at)
        await self._lines.appoint(name, line.feeder, feed.token, micros(at))

    def wake(self, crawl: str, gate: str, booked: int) -> float:
        """When a feeder is to come: before the turns that were booked run low, and when the crawl's time is up."""
        opens, _ = self.outlook(crawl, gate)
        low = max(booked, opens) / 1_000_000 - LOW
        return max(self._clock() + NOTED, min(low, self._limits.end(crawl)))

    async def call(self, feed: Feed, at: float) -> None:
        """Send a feeder's message, to be received at a time, or a quarter of an hour from now."""
        delay = min(LONGEST_DELAY, math.ceil(max(0.0, at - self._clock())))
        await self._queues.send([Outgoing(lane(Priority.NORMAL), encode(feed), group(feed.gate), delay)])
