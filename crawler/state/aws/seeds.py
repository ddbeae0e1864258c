"""Plain seeds: messages that anybody put on a queue, made into pages of a crawl."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from crawler import urls
from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import CrawlRecord, Page, Priority
from crawler.state.aws.adding import Adding
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.records import Message, Seed, message

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

        If the process dies here their messages come back, and are recorded as what they are: known.
        """
        latest = await self._latest() if any(seed.crawl is None for seed in seeds) else DEFAULT_CRAWL
        found = [await self._page(seed, seed.crawl or latest) for seed in seeds]
        by_crawl: dict[str, list[Page]] = defaultdict(list)
        for entry in found:
            if entry is not None:
                by_crawl[entry[0]].append(entry[1])
        for crawl, pages in by_crawl.items():
            await self._adding.record(crawl, pages)
        now = self._clock()
        return [None if entry is None else message(*entry, now) for entry in found]

    def refuse(self, what: str) -> None:
        """Count and log a message that is nothing for us."""
        self.refused += 1
        log.warning("dropped a message that is no seed (%d so far): %.80r", self.refused, what)

    async def _page(self, seed: Seed, crawl: str) -> tuple[str, Page] | None:
        url = urls.resolve(seed.url, seed.url)
        if url is None:
            self.refuse(seed.url)
            return None
        settings = await self._settings(crawl)
        host = urls.hostname(url)
        page = Page(
            url=url,
            digest=urls.digest(url),
            gate=urls.gate_name(host, settings.pace_by),
            depth=seed.depth,
            priority=PRIORITIES[seed.priority],
            site=urls.site_name(host, settings.scope),
            skip="url-too-long" if urls.too_long(url) else "",
        )
        return crawl, page

    async def _latest(self) -> str:
        crawls = await self._crawls.all()
        return crawls[-1].id if crawls else DEFAULT_CRAWL

    async def _settings(self, crawl: str) -> CrawlSettings:
        """A crawl's settings; one that does not exist begins now, with the defaults."""
        try:
            return (await self._crawls.known(crawl)).record.settings
        except UsageError:
            record = CrawlRecord(id=crawl, started_at=self._clock(), settings=CrawlSettings())
            return (await self._crawls.create(record)).settings
