"""Intake: from messages to pages that are to be worked on, each once.

If the process dies here the messages come back when their leases expire: what was recorded meanwhile is known then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import msgspec

from crawler.model import WELL, Health, Lease, Phase
from crawler.state.aws.adding import Adding
from crawler.state.aws.client import Aws
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.crawls import key as crawl_key
from crawler.state.aws.gate import Gates
from crawler.state.aws.gate import key as gate_key
from crawler.state.aws.held import Held
from crawler.state.aws.queue import Received
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import Message, Seed, decode
from crawler.state.aws.seeds import Seeds
from crawler.state.aws.table import Record, Visited, record
from crawler.state.aws.ticket import Ticket

CRAWL_FRESH = 5.0
"""Seconds for which a claim believes that a crawl is (not) paused: it looks again in a request that it makes anyway."""


class Job(msgspec.Struct, frozen=True, gc=False):
    """A received page: its message, how it came, and how many attempts at it have failed."""

    page: Message
    received: Received
    failures: int = 0

    @property
    def receives(self) -> int:
        """How often the page was handed out since it last settled."""
        return self.page.lost + self.received.receives

    def lease(self, start_at: float, limit: str = "", interval: float = 0.0, health: Health = WELL) -> Lease:
        """The right to work on it: whoever has the message has the page."""
        page = self.page
        return Lease(
            crawl=page.crawl,
            url=page.url,
            digest=bytes.fromhex(page.digest),
            gate=page.gate,
            depth=page.depth,
            priority=page.priority,
            parent_url=page.parent,
            discovered_at=page.found,
            token=Ticket(self.received.receipt, page.run).token,
            attempt=self.failures + 1,
            receives=self.receives,
            start_at=start_at,
            expires_at=self.received.expires_at,
            limit=limit,
            interval=interval,
            health=health,
        )


class Intake:
    """What one process takes in."""

    def __init__(
        self,
        aws: Aws,
        visited: Visited,
        crawls: Crawls,
        gates: Gates,
        adding: Adding,
        seeds: Seeds,
        held: Held,
        quotas: Quotas,
        clock: Callable[[], float],
    ) -> None:
        self._aws, self._visited, self._crawls, self._gates = aws, visited, crawls, gates
        self._adding, self._seeds, self._held, self._quotas, self._clock = adding, seeds, held, quotas, clock

    async def take(self, received: Sequence[Received], waiting: Sequence[Message] = ()) -> tuple[list[Job], list[str]]:
        """The pages that have not ended, and the receipts of messages that are for nobody.

        What is known of the gates and crawls of pages `waiting` is brought up to date with theirs.
        """
        jobs, drop = await self._read(received)
        live = await self._live(jobs, await self._look_up(jobs, waiting), drop)
        return live, drop

    async def _read(self, received: Sequence[Received]) -> tuple[list[Job], list[str]]:
        """Pages from messages, those of plain seeds among them, and the receipts of messages that are neither."""
        jobs: list[Job] = []
        plain: list[tuple[Received, Seed]] = []
        drop: list[str] = []
        for message in received:
            content = decode(message.body)
            if isinstance(content, Message):
                jobs.append(Job(content, message))
            elif isinstance(content, Seed):
                plain.append((message, content))
            else:
                if content is None:
                    self._seeds.refuse(message.body)
                drop.append(message.receipt)
        pages = await self._seeds.messages([seed for _, seed in plain])
        for (message, _), page in zip(plain, pages, strict=True):
            if page is None:
                drop.append(message.receipt)
            else:
                jobs.append(Job(page, message))
        return jobs, drop

    async def _look_up(self, jobs: Sequence[Job], waiting: Sequence[Message]) -> dict[str, Record]:
        """Records by pk; gates and crawls not seen lately are read in the same requests.

        So are crawls that are perhaps not as they were seen: purged, or begun anew.
        """
        pages = [*waiting, *(job.page for job in jobs)]
        counted = self._quotas.stale(pages)
        gates = {page.gate for page in pages if self._gates.stale(page.gate)}
        crawls = {page.crawl for page in pages if self._crawls.stale(page.crawl, CRAWL_FRESH) or not self._runs(page)}
        records, control = self._visited.table, self._gates.table
        wanted = [(records, job.page.pk) for job in jobs]
        wanted += [(control, gate_key(gate)) for gate in gates]
        wanted += [(control, key) for key in counted]
        wanted += [(control, crawl_key(crawl)) for crawl in crawls]
        items = await self._aws.items(wanted)
        for gate in gates:
            self._gates.note(gate, items.get((control, gate_key(gate))))
        self._quotas.note(counted, items)
        unrecorded = {job.page.crawl for job in jobs if (records, job.page.pk) not in items}
        items |= await self._aws.items([(control, crawl_key(crawl)) for crawl in unrecorded - crawls])
        self._crawls.renew(crawls | unrecorded, items)
        # Only now is it known which counts the crawls want that were read just now.
        if first := self._quotas.stale(pages):
            await self._quotas.read(first)
        pks = {job.page.pk for job in jobs}
        return {pk: record(items[records, pk]) for pk in pks if (records, pk) in items}

    def _runs(self, page: Message) -> bool:
        return self._crawls.runs(page.crawl, page.run)

    async def _live(self, jobs: Sequence[Job], records: dict[str, Record], drop: list[str]) -> list[Job]:
        """The jobs whose page has not ended, once each; the receipts of the others go to `drop`."""
        now = self._clock()
        live: dict[str, Job] = {}
        missing: dict[str, list[Message]] = defaultdict(list)
        for job in jobs:
            page, found = job.page, records.get(job.page.pk)
            held = self._held.message(page.pk, now)
            if job.received.id in (held, live[page.pk].received.id if page.pk in live else ""):
                continue  # one message twice: deleting either would delete both
            finished = found is not None and found.phase is not Phase.PENDING
            if finished or held or page.pk in live or not self._runs(page):
                drop.append(job.received.receipt)
                continue
            if found is None:
                missing[page.crawl].append(page)
            live[page.pk] = job if found is None else msgspec.structs.replace(job, failures=found.attempts)
        for crawl, pages in missing.items():
            # Neither an add nor a seed recorded it: the message came from a dead-letter queue or a backup.
            if (seen := self._crawls.seen(crawl)) is not None:
                await self._adding.record(seen, [page.page() for page in pages])
        return list(live.values())
