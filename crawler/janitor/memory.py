"""What one look of the janitor leaves for the next: a fact on the state.

It saves work and tells "still" from "just now"; nothing depends on it for good. When it is lost, or of another version,
the next look is the first one again: what it cannot know (progress, for how long) it does not claim. Of two looks at
the same time the last writer wins.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from crawler.state.port import CrawlState

FACT = "janitor"

KEPT = 30 * 24 * 3600.0
"""Seconds."""


MOST = 1_000
"""Closed crawls that are remembered: a fact is small, and a schedule may begin one every minute."""


class Hosts(StrEnum):
    """The hosts of a crawl that stands still, those that have pages left."""

    UNKNOWN = ""
    OPEN = "open"
    """At least one could have been asked."""
    CLOSED = "closed"
    """None could: Retry-After, back-off, or a Crawl-delay longer than nothing has moved for."""
    NONE = "none"
    """There are none, whatever the counters say."""


class Sight(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A crawl that is not complete, as a look saw it.

    `discovered`, `finished`: pages; `moved_at` is when a look first saw so many finished. Times are Unix seconds.
    `empty`: the frontier held nothing of it. `doubted`: and yet its records said that it is not complete. `swept_at`:
    when its lost pages were last looked for. `read_at`: when its hosts were last looked at, and how they were.
    """

    discovered: int
    finished: int
    moved_at: float
    empty: bool = False
    doubted: bool = False
    swept_at: float = 0.0
    read_at: float = 0.0
    hosts: Hosts = Hosts.UNKNOWN


class Memory(msgspec.Struct, kw_only=True):
    """`at` is when the look was (Unix seconds; 0: there was none). `seen` are the crawls that were not complete;
    `closed` the latest that were, summed up and announced, with the time of that completion; those that were complete
    by `closed_until` are left as they are. `idle`: nothing was to be fetched."""

    at: float = 0.0
    seen: dict[str, Sight] = {}
    closed: dict[str, float] = {}
    closed_until: float = 0.0
    idle: bool = False

    def after(self, now: float, lately: float) -> Memory:
        """What a look begins with: the crawls that were closed within the last `lately` seconds, if not too many."""
        closed = sorted((at, name) for name, at in self.closed.items() if now - at < lately)
        forgotten, kept = closed[:-MOST], closed[-MOST:]
        until = max([self.closed_until, *(at for at, _ in forgotten)])
        return Memory(at=now, closed={name: at for at, name in kept}, closed_until=until)


async def recall(state: CrawlState) -> Memory:
    """What the last look left; empty when there is nothing that this version understands."""
    (kept,) = await state.recall([FACT])
    if kept is None:
        return Memory()
    try:
        return msgspec.json.decode(kept, type=Memory)
    except msgspec.DecodeError:
        return Memory()


async def keep(state: CrawlState, memory: Memory) -> None:
    """Leave this to the next look."""
    await state.remember(FACT, msgspec.json.encode(memory), KEPT)
