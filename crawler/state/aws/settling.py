"""Settle: the outcome first, the message last.

    record finished -> counters -> delete the message
    record the failed attempt (retry) -> send the next message (retry, defer) -> delete the message

If the process dies between any two, the message comes back: a finished page's is deleted unfetched, an unfinished one
is fetched again. If only a request fails, the caller repeats: what was done is recognised by its stamp, and is done,
counted and sent once.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence

from crawler.model import FINISHED, Ending, Lease, Phase, Settled, Verdict
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.held import Held
from crawler.state.aws.lanes import Source
from crawler.state.aws.putaside import outgoing
from crawler.state.aws.queue import GONE, Queues
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import BY_REASON, Message, counter, failed, lane
from crawler.state.aws.table import Outcome, Record, Visited
from crawler.state.aws.ticket import pk, ticket

FAILED = frozenset({Ending.RETRY, Ending.DEAD})
"""Endings that count as a failed attempt."""

REMEMBERED = 20_000
"""Settlements in memory: one that is repeated after it succeeded is lost, as its message is gone."""

Ended = tuple[Lease, Verdict]


class Settling:
    """Settlements of one process."""

    def __init__(
        self,
        queues: Queues,
        lanes: Source,
        visited: Visited,
        crawls: Crawls,
        held: Held,
        quotas: Quotas,
        clock: Callable[[], float],
    ) -> None:
        self._queues, self._lanes, self._visited, self._crawls = queues, lanes, visited, crawls
        self._held, self._quotas, self._clock = held, quotas, clock
        self._begun: set[str] = set()
        self._over: OrderedDict[str, None] = OrderedDict()

    async def settle(self, endings: Sequence[Ended]) -> list[Settled]:
        """End leases; one answer each, in order."""
        lost = await self._handed_on([lease for lease, _ in endings])
        first: dict[str, Ended] = {}
        for lease, verdict in endings:
            if lease.token not in lost:
                first.setdefault(pk(lease), (lease, verdict))
        finishing = [ended for ended in first.values() if ended[1].ending in FINISHED]
        passing = [ended for ended in first.values() if ended[1].ending not in FINISHED]
        settled = await self._finish(finishing)
        settled |= await self._pass_on(passing)
        # Also those that lost to another settlement: their page has finished, and needs no message any more.
        await self._queues.delete([ticket(lease).receipt for lease, _ in endings if lease.token not in lost])
        for lease, _ in endings:
            self._held.drop(pk(lease))
            self._end(ticket(lease).stamp)
        return [
            Settled.SETTLED if lease.token in settled and lease is first[pk(lease)][0] else Settled.LOST
            for lease, _ in endings
        ]

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        """Make leases last as long as a new one, from now on."""
        lost = await self._purged(leases)
        now = self._clock()
        lost |= await self._change([lease for lease in leases if lease.token not in lost])
        for lease in leases:
            if lease.token not in lost:
                self._held.extend(pk(lease), now + self._crawls.lease(lease.crawl, self._queues.lease))
        return [Settled.LOST if lease.token in lost else Settled.SETTLED for lease in leases]

    async def _purged(self, leases: Sequence[Lease]) -> set[str]:
        """Tokens of leases whose crawl was purged, also if it has begun anew."""
        await self._crawls.refresh({lease.crawl for lease in leases})
        return {lease.token for lease in leases if not self._crawls.runs(lease.crawl, ticket(lease).run)}

    async def _change(self, leases: Sequence[Lease], *, gone: bool = False) -> set[str]:
        """Make leases last from now on; tokens of those that the queue refused (`gone`: as another's by now)."""
        by_seconds: dict[int, list[Lease]] = defaultdict(list)
        for lease in leases:
            by_seconds[self._crawls.lease(lease.crawl, self._queues.lease)].append(lease)
        refused: set[str] = set()
        for seconds, some in by_seconds.items():
            codes = await self._queues.change([ticket(lease).receipt for lease in some], seconds)
            told = {lease.token: codes.get(ticket(lease).receipt, "") for lease in some}
            refused |= {token for token, code in told.items() if code and (code in GONE or not gone)}
        return refused

    async def _handed_on(self, leases: Sequence[Lease]) -> set[str]:
        """Tokens of leases that are no longer ours: settled here before, or expired and received by another since.

        Only the queue knows about the second, and is asked about expired leases alone. Where it answers late, the
        record decides: the first to finish a page has finished it.
        """
        now = self._clock()
        lost = {lease.token for lease in leases if ticket(lease).stamp in self._over}
        expired = [lease for lease in leases if lease.expires_at <= now and lease.token not in lost]
        return lost | await self._change(expired, gone=True)

    async def _finish(self, endings: Sequence[Ended]) -> set[str]:
        """Record outcomes and count them; tokens of those that were the first."""
        now = self._clock()
        dead = [pk(lease) for lease, verdict in endings if verdict.ending is Ending.DEAD]
        records = await self._visited.read(dead)
        outcomes = [_outcome(lease, verdict, records.get(pk(lease)), now) for lease, verdict in endings]
        results = await self._visited.finish(outcomes, now)
        won = [ended for ended, result in zip(endings, results, strict=True) if result]
        for lease, verdict in won:
            stamp = ticket(lease).stamp
            if stamp not in self._begun:
                self._begun.add(stamp)
                self._crawls.owe(_run(lease), _counts(verdict))
                if verdict.ending is Ending.DONE:
                    self._quotas.owe(lease.crawl, _run(lease), lease.gate)
        for run in {_run(lease) for lease, _ in endings}:
            await self._crawls.pay(run)
        await self._quotas.pay()
        return {lease.token for lease, _ in won}

    async def _pass_on(self, endings: Sequence[Ended]) -> set[str]:
        """Send the next message of pages that are to be fetched again; tokens of those that had not finished."""
        now = self._clock()
        records = await self._visited.read([pk(lease) for lease, _ in endings])
        live = [ended for ended in endings if (found := records.get(pk(ended[0]))) and found.phase is Phase.PENDING]
        sending = [ended for ended in live if ticket(ended[0]).stamp not in self._begun]
        outcomes = [_outcome(lease, verdict, records[pk(lease)], now) for lease, verdict in sending]
        await self._visited.fail([outcome for outcome in outcomes if outcome.failed])
        for lease, _ in sending:
            self._lanes.wake(lane(lease.priority))
        await self._queues.send([outgoing(_next(lease, verdict), verdict.at, now) for lease, verdict in sending])
        self._begun |= {ticket(lease).stamp for lease, _ in sending}
        return {lease.token for lease, _ in live}

    def _end(self, stamp: str) -> None:
        self._begun.discard(stamp)
        self._over[stamp] = None
        if len(self._over) > REMEMBERED:
            self._over.popitem(last=False)


def _run(lease: Lease) -> str:
    return f"{lease.crawl}#{ticket(lease).run}"


def _counts(verdict: Verdict) -> dict[str, int]:
    """What a page's end adds to its crawl's counters."""
    counts = {"bytes": verdict.bytes, verdict.ending.value: 1}
    if (ended := Phase(verdict.ending)) in BY_REASON:
        counts[counter(ended, verdict.reason)] = 1
    return counts


def _outcome(lease: Lease, verdict: Verdict, found: Record | None, now: float) -> Outcome:
    """What to write for an ending. Its failed attempt is counted once, also when it is written a second time."""
    stamp = ticket(lease).stamp
    if verdict.ending not in FAILED or found is None or found.stamp == stamp:
        return Outcome(pk(lease), verdict, stamp)
    return Outcome(pk(lease), verdict, stamp, (found.attempts + 1, failed(found.history, now, verdict)))


def _next(lease: Lease, verdict: Verdict) -> Message:
    return Message(
        crawl=lease.crawl,
        run=ticket(lease).run,
        url=lease.url,
        digest=lease.digest.hex(),
        gate=lease.gate,
        depth=lease.depth,
        priority=lease.priority,
        parent=lease.parent_url,
        found=lease.discovered_at,
        lost=1 if verdict.again else 0,
    )
