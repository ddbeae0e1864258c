"""Plain seeds: messages that anybody put on a queue, made into pages of a crawl."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from crawler import urls
from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.errors import UsageError
from crawler.model import CrawlRecord, Page, Priority
from crawler.state.aws.adding import Adding
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.records import MAX_URL, Message, Seed, message

log = logging.getLogger(__name__)

DEFAULT_CRAWL = "default"
"""The crawl of a seed that names none, on a state without any."""

PRIORITIES = {"high": Priority.HIGH, "normal": Priority.NORMAL, "low": Priority.LOW}


class Seeds:
    """Seeds of one process."""

    def __init__(self, crawls: Crawls, adding: Adding, clock: Callable[[], float]) -> None:
        self._crawls, self._adding, self._clock = crawls, adding, clock
        self.refused = 0

    async def messages(self, seeds: Sequence[Seed]) -> list[Message | None]:
        """Record seeds and answer what their messages would be, had they come by `add`; None for one that is no seed.

        A seed too long to request is one: it is skipped like any other page, by whoever gets its lease. Seeds of a
        crawl that was purged do not bring it back.

        If the process dies here their messages come back, and are recorded as what they are: known.
        """
        latest = await self._latest() if any(seed.crawl is None for seed in seeds) else DEFAULT_CRAWL
        found = [await self._page(seed, seed.crawl or latest) for seed in seeds]
        by_run: dict[str, tuple[Crawl, list[Page]]] = {}
        for entry in found:
            if entry is not None:
                by_run.setdefault(entry[0].key, (entry[0], []))[1].append(entry[1])
        for crawl, pages in by_run.values():
            await self._adding.record(crawl, pages)
        now = self._clock()
        return [None if entry is None else message(entry[0].record.id, entry[0].run, entry[1], now) for entry in found]

    def refuse(self, what: str) -> None:
        """Count and log a message that is nothing for us."""
        self.refused += 1
        log.warning("dropped a message that is no seed (%d so far): %.80r", self.refused, what)

    async def _page(self, seed: Seed, name: str) -> tuple[Crawl, Page] | None:
        url = urls.resolve(seed.url, seed.url)
        crawl = await self._crawl(name) if url is not None and len(url) <= MAX_URL else None
        page = None
        if crawl is not None:
            priority = PRIORITIES[seed.priority]
            page = seed_page(seed.url, crawl.record.settings, depth=seed.depth, priority=priority)
        if crawl is None or page is None:
            self.refuse(seed.url)
            return None
        return crawl, page

    async def _latest(self) -> str:
        crawls = await self._crawls.all()
        return crawls[-1].id if crawls else DEFAULT_CRAWL

    async def _crawl(self, name: str) -> Crawl | None:
        """A crawl; one that does not exist begins now, with the defaults. None for one that was purged."""
        try:
            return await self._crawls.known(name)
        except UsageError:
            if self._crawls.purged(name):
                return None
            await self._crawls.create(CrawlRecord(id=name, started_at=self._clock(), settings=CrawlSettings()))
            return await self._crawls.known(name)
