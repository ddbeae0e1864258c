"""What a crawl's settings say of a page that is to be worked on: limits that end it, room for it, pace of its host."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.model import HOST_DOWN, MAX_PAGES, MAX_PAGES_PER_HOST, MAX_TIME
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.gate import Gates
from crawler.state.aws.held import Held
from crawler.state.aws.pacing import Pace, pace
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import Message


class Limits:
    """The limits of all crawls, as far as is known here. Reads nothing."""

    def __init__(self, crawls: Crawls, gates: Gates, quotas: Quotas, held: Held) -> None:
        self._crawls, self._gates, self._quotas, self._held = crawls, gates, quotas, held

    def limit(self, page: Message, now: float) -> str:
        """The limit that ends the page, "" for none."""
        seen = self._crawls.seen(page.crawl)
        if seen is None:
            return ""
        most = seen.record.settings.max_pages
        if now >= self.end(page.crawl):
            return MAX_TIME
        if most is not None and seen.done >= most:
            return MAX_PAGES
        if self._quotas.used_up(page):
            return MAX_PAGES_PER_HOST
        return HOST_DOWN if self._gates.down(page.gate) else ""

    def full(self, page: Message, ready: Sequence[Message]) -> bool:
        """Whether what is held and `ready` may use a limit up: how many more fit is known once some have ended."""
        seen = self._crawls.seen(page.crawl)
        if seen is None:
            return True
        most = seen.record.settings.max_pages
        if most is not None and len(ready) >= most - seen.done - self._held.count(seen.key):
            return True
        return sum(other.gate == page.gate for other in ready) >= self._quotas.room(page)

    def end(self, crawl: str) -> float:
        """When the crawl's time is up: until then its pages may wait, and then they are to come back."""
        seen = self._crawls.seen(crawl)
        if seen is None or seen.record.settings.max_time is None:
            return float("inf")
        return seen.record.started_at + seen.record.settings.max_time

    def pace(self, crawl: str) -> Pace:
        """What the crawl asks of a host's gate."""
        seen = self._crawls.seen(crawl)
        return pace(seen.record.settings) if seen is not None else Pace()
