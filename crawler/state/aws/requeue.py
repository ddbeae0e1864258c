"""Queue again what is recorded as pending and has no message. A page too many on a queue does no harm."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.state.aws.adding import Adding
from crawler.state.aws.crawls import Crawl
from crawler.state.aws.records import Message
from crawler.state.aws.table import Record, Visited


class Requeue:
    """Messages made from records."""

    def __init__(self, visited: Visited, adding: Adding) -> None:
        self._visited, self._adding = visited, adding

    async def send(self, crawl: Crawl, records: Sequence[Record]) -> None:
        """Queue pages of one crawl: not before a revival's time."""
        parents = {entry.pk: f"{crawl.key}#{entry.parent}" for entry in records if entry.parent}
        above = await self._visited.read(list(parents.values()))
        messages = []
        for entry in records:
            parent = above.get(parents.get(entry.pk, ""))
            messages.append(_message(crawl, entry, parent.url if parent is not None else ""))
        await self._adding.send(crawl.key, messages)
        await self._visited.queued([entry for entry in records if entry.revived])


def _message(crawl: Crawl, entry: Record, parent: str) -> Message:
    return Message(
        crawl=crawl.record.id,
        run=crawl.run,
        url=entry.url,
        digest=entry.digest.hex(),
        gate=entry.gate,
        depth=entry.depth,
        priority=entry.priority,
        parent=parent,
        found=entry.found,
        not_before=entry.revived / 1_000_000,
    )
