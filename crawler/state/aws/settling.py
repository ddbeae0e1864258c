"""Settle: the outcome first, the message last.

    record finished -> counters -> (retry, defer: send the next message) -> delete the message

If the process dies between any two, the message comes back: a finished page's is deleted unfetched, an unfinished one
is fetched again. If only a request fails, the caller repeats: what was done is recognised by its stamp, and is done,
counted and sent once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence

from crawler.model import FINISHED, Ending, Lease, Phase, Settled, Verdict
from crawler.state.aws import table
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.held import Held
from crawler.state.aws.lanes import Lanes
from crawler.state.aws.putaside import outgoing
from crawler.state.aws.queue import GONE, Queues
from crawler.state.aws.records import Message
from crawler.state.aws.table import Visited

REMEMBERED = 20_000
"""Settlements in memory: one that is repeated after it succeeded is lost, as its message is gone."""

Ended = tuple[Lease, Verdict]


class Settling:
    """Settlements of one process."""

    def __init__(
        self, queues: Queues, lanes: Lanes, visited: Visited, crawls: Crawls, held: Held, clock: Callable[[], float]
    ) -> None:
        self._queues, self._lanes, self._visited, self._crawls = queues, lanes, visited, crawls
        self._held, self._clock = held, clock
        self._begun: set[str] = set()
        self._over: OrderedDict[str, None] = OrderedDict()

    async def settle(self, endings: Sequence[Ended]) -> list[Settled]:
        """End leases; one answer each, in order."""
        lost = await self._handed_on([lease for lease, _ in endings])
        first: dict[str, Ended] = {}
        for lease, verdict in endings:
            if lease.token not in lost:
                first.setdefault(_pk(lease), (lease, verdict))
        finishing = [ended for ended in first.values() if ended[1].ending in FINISHED]
        passing = [ended for ended in first.values() if ended[1].ending not in FINISHED]
        settled = await self._finish(finishing)
        settled |= await self._pass_on(passing)
        # Also those that lost to another settlement: their page has finished, and needs no message any more.
        await self._queues.delete([lease.token for lease, _ in endings if lease.token not in lost])
        for lease, _ in endings:
            self._held.drop(_pk(lease))
            self._end(stamp(lease))
        return [
            Settled.SETTLED if lease.token in settled and lease is first[_pk(lease)][0] else Settled.LOST
            for lease, _ in endings
        ]

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        """Make leases last as long as a new one, from now on."""
        now = self._clock()
        refused = await self._queues.change([lease.token for lease in leases], self._queues.lease)
        for lease in leases:
            if lease.token not in refused:
                self._held.extend(_pk(lease), now + self._queues.lease)
        return [Settled.LOST if lease.token in refused else Settled.SETTLED for lease in leases]

    async def _handed_on(self, leases: Sequence[Lease]) -> set[str]:
        """Tokens of leases that are no longer ours: settled here before, or expired and received by another since.

        Only the queue knows about the second, and is asked about expired leases alone. Where it answers late, the
        record decides: the first to finish a page has finished it.
        """
        now = self._clock()
        lost = {lease.token for lease in leases if stamp(lease) in self._over}
        expired = [lease.token for lease in leases if lease.expires_at <= now and lease.token not in lost]
        codes = await self._queues.change(expired, self._queues.lease)
        return lost | {token for token, code in codes.items() if code in GONE}

    async def _finish(self, endings: Sequence[Ended]) -> set[str]:
        """Record outcomes and count them; tokens of those that were the first."""
        wanted = [(_pk(lease), verdict, stamp(lease)) for lease, verdict in endings]
        results = await self._visited.finish(wanted, self._clock())
        won = [ended for ended, result in zip(endings, results, strict=True) if result]
        for lease, verdict in won:
            if stamp(lease) not in self._begun:
                self._begun.add(stamp(lease))
                self._crawls.owe(lease.crawl, bytes=verdict.bytes, **{verdict.ending.value: 1})
        for crawl in {lease.crawl for lease, _ in endings}:
            await self._crawls.pay(crawl)
        return {lease.token for lease, _ in won}

    async def _pass_on(self, endings: Sequence[Ended]) -> set[str]:
        """Send the next message of pages that are to be fetched again; tokens of those that had not finished."""
        now = self._clock()
        records = await self._visited.read([_pk(lease) for lease, _ in endings])
        passed: set[str] = set()
        sending: list[Ended] = []
        for lease, verdict in endings:
            found = records.get(_pk(lease))
            if found is None or found.phase is not Phase.PENDING:
                continue
            passed.add(lease.token)
            if stamp(lease) not in self._begun:
                sending.append((lease, verdict))
                self._lanes.wake(lease.priority)
        await self._queues.send([outgoing(_next(lease, verdict), verdict.at, now) for lease, verdict in sending])
        self._begun |= {stamp(lease) for lease, _ in sending}
        return passed

    def _end(self, stamp: str) -> None:
        self._begun.discard(stamp)
        self._over[stamp] = None
        if len(self._over) > REMEMBERED:
            self._over.popitem(last=False)


def stamp(lease: Lease) -> str:
    """Names a lease in the record it finished."""
    return hashlib.sha256(lease.token.encode()).hexdigest()[:16]


def _pk(lease: Lease) -> str:
    return table.pk(lease.crawl, lease.digest)


def _next(lease: Lease, verdict: Verdict) -> Message:
    return Message(
        crawl=lease.crawl,
        url=lease.url,
        digest=lease.digest.hex(),
        gate=lease.gate,
        depth=lease.depth,
        priority=lease.priority,
        parent=lease.parent_url,
        found=lease.discovered_at,
        failures=lease.attempt - (0 if verdict.ending is Ending.RETRY else 1),
    )
