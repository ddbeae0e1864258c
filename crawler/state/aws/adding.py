"""Add: insert what is absent, count it, queue it.

    read which are known -> insert the rest -> counters -> send

If the process dies between insert and send, the pages are recorded and not queued. Their parent's message is still
there: it is delivered again, and pages found with this same parent are then sent again. If only a request fails, what
may have been recorded without being sent is remembered here, and the caller's repetition sends it.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from crawler.model import Added, Page, Phase, skipped
from crawler.state.aws import table
from crawler.state.aws.crawls import Crawl, Crawls
from crawler.state.aws.facts import Scope
from crawler.state.aws.held import Held
from crawler.state.aws.lanes import Source
from crawler.state.aws.placing import Placed, Placing
from crawler.state.aws.putaside import outgoing
from crawler.state.aws.queue import Queues
from crawler.state.aws.records import MAX_URL, Message, counter, lane, message, page_key
from crawler.state.aws.table import Outcome, Record, Visited


class Unsent(msgspec.Struct, frozen=True, gc=False):
    """A record that a failed call of ours may have made or changed: its stamp, and whether it was counted."""

    stamp: str
    counted: bool


class Adding:
    """Adds of one process."""

    def __init__(
        self,
        visited: Visited,
        crawls: Crawls,
        scope: Scope,
        queues: Queues,
        lanes: Source,
        placing: Placing,
        held: Held,
        clock: Callable[[], float],
    ) -> None:
        self._visited, self._crawls, self._scope, self._queues, self._lanes = visited, crawls, scope, queues, lanes
        self._placing, self._held, self._clock = placing, held, clock
        self._process, self._calls = uuid.uuid4().hex[:12], itertools.count()
        self._unsent: dict[str, Unsent] = {}

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added]:
        """Insert and queue the absent ones; queue again what this parent's earlier delivery may have left unqueued."""
        while True:
            answers = await self._add(await self._crawls.known(crawl), pages, queue=True)
            if answers is not None:
                return answers
            # Purged since it was read, and perhaps begun anew: now it is read again.

    async def record(self, crawl: Crawl, pages: Sequence[Page]) -> bool:
        """Insert the absent ones without queueing any: their messages are in the caller's hands. False: the crawl was
        purged meanwhile."""
        return await self._add(crawl, pages, queue=False) is not None

    async def _add(self, crawl: Crawl, pages: Sequence[Page], *, queue: bool) -> list[Added] | None:
        """None: the crawl's run was purged meanwhile, and what was inserted belongs to nothing."""
        await self._scope.bring(crawl.key, (page.site for page in pages if page.parent is None))
        asked: dict[str, Page] = {}
        for page in pages:
            asked.setdefault(page_key(crawl.record.id, crawl.run, page.digest), page)
        # At half the price: a record that is missed is met by the insert, and is then read as it is.
        known = await self._visited.read(list(asked), consistent=False)
        new = await self._insert(crawl, [page for pk, page in asked.items() if pk not in known], known)
        # What an earlier call of ours recorded and could not send is new as far as its caller knows.
        adopted = {pk: self._unsent.pop(pk) for pk, entry in known.items() if self._ours(entry)}
        self._count(crawl, [*new.values(), *(known[pk] for pk, unsent in adopted.items() if not unsent.counted)])
        new |= {pk: known[pk] for pk in adopted}
        sending = [(entry, asked[pk]) for pk, entry in new.items() if entry.phase is Phase.PENDING]
        sending += [
            (entry, asked[pk]) for pk, entry in known.items() if pk not in new and self._again(entry, asked[pk])
        ]
        try:
            if not await self._crawls.pay(crawl.key):
                return None
            if queue:
                await self.send(crawl.key, [_message(crawl, entry, page) for entry, page in sending])
        except BaseException:
            self._unsent |= {pk: Unsent(entry.stamp, counted=True) for pk, entry in new.items()}
            raise
        return _answers(crawl, pages, asked, new, known)

    async def _insert(self, crawl: Crawl, pages: Sequence[Page], known: dict[str, Record]) -> dict[str, Record]:
        """Insert pages; answers the records that were new, and puts those that were not into `known`."""
        now, stamp = self._clock(), f"{self._process}-{next(self._calls)}"
        entries = [table.new(crawl.record.id, crawl.run, _fitting(page), now, stamp) for page in pages]
        try:
            inserted = await self._visited.insert(entries)
            new = {entry.pk: entry for entry, done in zip(entries, inserted, strict=True) if done}
            there = await self._visited.read([entry.pk for entry in entries if entry.pk not in new])
        except BaseException:
            self._unsent |= {entry.pk: Unsent(stamp, counted=False) for entry in entries}
            raise
        # An insert whose answer was lost is sent again by the client, and then meets itself.
        new |= {pk: entry for pk, entry in there.items() if entry.stamp == stamp}
        known |= {pk: entry for pk, entry in there.items() if entry.stamp != stamp}
        return new

    def _ours(self, entry: Record) -> bool:
        unsent = self._unsent.get(entry.pk)
        return unsent is not None and unsent.stamp == entry.stamp

    def _again(self, entry: Record, page: Page) -> bool:
        """Whether a known page must be queued once more."""
        may_be_unqueued = page.parent is None or page.parent.redelivered
        mine = may_be_unqueued and entry.parent == _parent(page)
        return mine and entry.phase is Phase.PENDING and entry.pk not in self._held

    def _count(self, crawl: Crawl, entries: Sequence[Record]) -> None:
        reasons = Counter(counter(entry.phase, entry.reason) for entry in entries if entry.phase is Phase.SKIPPED)
        self._crawls.owe(crawl.key, {"discovered": len(entries), "skipped": reasons.total(), **reasons})

    async def send(self, key: str, messages: Sequence[Message]) -> None:
        """Queue pages of a crawl's run that are recorded, where each is to wait."""
        await self.post(key, await self._placing.place(messages))

    async def post(self, key: str, placed: Placed) -> None:
        """Put pages on the queue. One that SQS will never take ends as skipped, for all to see."""
        now = self._clock()
        for number in {lane(page.priority) for page, at in placed if at <= now}:
            self._lanes.wake(number)
        sent = {outgoing(page, at, now): page for page, at in placed}
        refused = [sent[message] for message in await self._queues.send(list(sent))]
        if refused:
            verdict = skipped("unsendable")
            await self._visited.finish([Outcome(page.pk, verdict, self._process) for page in refused], now)
            self._crawls.owe(key, {"skipped": len(refused), counter(Phase.SKIPPED, verdict.reason): len(refused)})
            await self._crawls.pay(key)


def _fitting(page: Page) -> Page:
    """A page that no message can carry is recorded as skipped."""
    return (
        page if len(page.url) <= MAX_URL else msgspec.structs.replace(page, skip="url-too-long", url=page.url[:MAX_URL])
    )


def _parent(page: Page) -> str:
    return page.parent.digest.hex() if page.parent else ""


def _message(crawl: Crawl, entry: Record, page: Page) -> Message:
    """The message of a record: in its own spelling, which is the first one found."""
    recorded = msgspec.structs.replace(page, url=entry.url, gate=entry.gate, depth=entry.depth, priority=entry.priority)
    return message(crawl.record.id, crawl.run, recorded, entry.found)


def _answers(
    crawl: Crawl, pages: Sequence[Page], asked: dict[str, Page], new: dict[str, Record], known: dict[str, Record]
) -> list[Added]:
    """An answer a page: of pages with one digest the first counts, the others meet what it recorded."""
    answers = []
    for page in pages:
        key = page_key(crawl.record.id, crawl.run, page.digest)
        entry = new.get(key) or known[key]
        if key in new and asked[key] is page:
            answers.append(Added.NEW)
        else:
            answers.append(Added.AGAIN if entry.parent == _parent(page) else Added.KNOWN)
    return answers
