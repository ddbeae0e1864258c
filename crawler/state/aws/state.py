"""The state on AWS: frontier in SQS, everything else in DynamoDB.

Where it keeps the port's promises in a weaker form: the order of pages within a lane is the queue's; a page may be
leased twice at a time after a crash or when SQS delivers twice, and is finished once; pages whose turn is far are out
of reach for minutes, also for limits and for hosts that are down; counts are sums of counters until the crawl is
complete, then exact; which pages are leased only the queues know; `release` leaves leases to expire.
A crawl's lease is the queues' visibility timeout, unless its settings name another: that costs a request more a batch.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch, StateMissing, StateUnavailable
from crawler.model import (
    FINISHED,
    Added,
    Beat,
    Counts,
    CrawlRecord,
    Health,
    HostState,
    Lease,
    Page,
    PageState,
    Phase,
    Settled,
    Verdict,
    Why,
)
from crawler.state.aws import address as addresses
from crawler.state.aws import table
from crawler.state.aws.accounts import NOBODY, Account, Accounts
from crawler.state.aws.adding import Adding
from crawler.state.aws.backlog import Backlog
from crawler.state.aws.claiming import Claiming
from crawler.state.aws.client import Aws, Refused, chunks
from crawler.state.aws.completion import Completion
from crawler.state.aws.crawls import Crawls
from crawler.state.aws.dead_letters import DeadLetters
from crawler.state.aws.delivered import Delivered, Delivery
from crawler.state.aws.facts import Facts, Fleet, Scope
from crawler.state.aws.feeding import Feeding
from crawler.state.aws.gate import Gates
from crawler.state.aws.held import Held
from crawler.state.aws.intake import Intake
from crawler.state.aws.lanes import Lanes
from crawler.state.aws.limits import Limits
from crawler.state.aws.pacing import host, pace
from crawler.state.aws.parking import Parking
from crawler.state.aws.placing import Placing
from crawler.state.aws.putaside import PutAside
from crawler.state.aws.queue import Depth, Queues
from crawler.state.aws.quota import Quotas
from crawler.state.aws.records import micros
from crawler.state.aws.repair import Repair
from crawler.state.aws.requeue import Requeue
from crawler.state.aws.seeds import Seeds
from crawler.state.aws.settling import Settling
from crawler.state.aws.table import Visited
from crawler.state.port import WriteRows
from crawler.state.refusals import exact_only, no_module_in_functions

log = logging.getLogger(__name__)

SHORTEST = 5
"""Seconds of the shortest lease that a crawl's settings can hold."""

DEPTH_FRESH = 30.0
"""Seconds for which the queues' depth is used as last told: an idle worker asks for counts all the time."""

HASTE = 0.3
"""Where messages are delivered to a function, a second that it waits for a turn costs as much as sending fifty pages:
there pages come off the queue so much closer to their turns."""

OPENING = 12.0
"""Seconds within which a state opens or says why not."""


class AwsState:
    """CrawlState over SQS and DynamoDB.

    `bucket` is the archive's bucket as the address names it, "" for none. `requests` counts requests by
    `service.Operation` since the state was opened.
    """

    def __init__(
        self,
        aws: Aws,
        names: addresses.Names,
        queues: Queues,
        clock: Callable[[], float],
        write_rows: WriteRows | None,
        *,
        delivered: bool = False,
    ) -> None:
        self._aws, self._queues, self._clock = aws, queues, clock
        self.bucket, self.requests = names.bucket, aws.requests
        self._functions_only = names.functions_only
        held = Held()
        self._fleet = Fleet(aws, names.control, clock)
        self._held, self._delivered = held, Delivered(queues, clock)
        lanes = self._delivered if delivered else Lanes(queues, lambda: self._fleet.size)
        self._visited = visited = Visited(aws, names.table)
        self._crawls = crawls = Crawls(aws, names.control, clock)
        self._accounts = Accounts(aws, names.control, lambda crawl: crawls.seen(crawl) is not None, clock)
        self._gates = gates = Gates(aws, names.control, queues.lease, clock)
        self._quotas = quotas = Quotas(aws, names.control, crawls, held, clock)
        self._facts = Facts(aws, names.control, clock)
        self._scope = scope = Scope(aws, names.control)
        limits = Limits(crawls, gates, quotas, held)
        lines = Backlog(aws, names.control, clock)
        placing = Placing(queues, gates, limits, lines, clock, HASTE if delivered else 1.0)
        self._adding = adding = Adding(visited, crawls, scope, queues, lanes, placing, held, clock)
        self._parking = parking = Parking(queues, lines, crawls, clock)
        feeding = Feeding(queues, lines, placing, parking, gates, crawls, quotas, limits, adding, clock)
        seeds = Seeds(crawls, adding, clock)
        intake = Intake(aws, visited, crawls, gates, adding, seeds, held, quotas, clock)
        aside = PutAside(queues, placing, parking, crawls, clock)
        self._claiming = Claiming(queues, lanes, intake, crawls, gates, held, limits, placing, feeding, aside, clock)
        self._settling = settling = Settling(queues, lanes, visited, crawls, held, quotas, clock)
        requeue = Requeue(visited, adding)
        self._dead_letters = dead_letters = DeadLetters(queues, intake, settling, crawls, write_rows, self.home, clock)
        self._completion = Completion(queues, visited, crawls, requeue, feeding, dead_letters)
        self._repair = Repair(queues, visited, crawls, scope, quotas, lines, requeue, feeding, dead_letters, clock)

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        worker: str,  # noqa: ARG003 - for the backends whose leases have an owner
        clock: Callable[[], float] = time.time,
        write_rows: WriteRows | None = None,
        delivered: bool = False,
    ) -> AwsState:
        """Open the state at `STACK`, `?queue=…&table=…` or both. Creates nothing; the queues know no `worker`'s name.
        `write_rows`: without it the queue's dead letters stay where they are.
        `delivered`: claims receive nothing, and hand out what `deliver` brings.

        Raises UsageError (address, credentials, region), StateMissing, StateMismatch, StateUnavailable, within OPENING.
        """
        aws = await Aws.connect()
        try:
            async with asyncio.timeout(OPENING):
                names = await addresses.names(address, aws)
                queues = await Queues.open(aws, names.lanes, names.dead_letters, clock)
                await _check_tables(aws, names)
        except BaseException as error:
            await aws.close()
            if isinstance(error, TimeoutError):
                raise StateUnavailable(
                    f"AWS did not answer within {OPENING:.0f} s: check region and endpoint"
                ) from None
            raise
        return cls(aws, names, queues, clock, write_rows, delivered=delivered)

    @property
    def lease(self) -> int:
        """Seconds of the queues' visibility timeout, as it was when the state was opened."""
        return self._queues.lease

    @property
    def home(self) -> str:
        return f"s3://{self.bucket}" if self.bucket else ""

    # ---------------------------------------------------------------- crawls

    async def create(self, crawl: CrawlRecord) -> CrawlRecord:
        self._check(crawl.settings)
        return await self._crawls.create(msgspec.structs.replace(crawl, settings=self._with_lease(crawl.settings)))

    async def crawls(self) -> list[CrawlRecord]:
        return await self._crawls.all()

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        """Replace a crawl's settings. A first limit a host reads the whole visited table, as `ledger` does: pages that
        end meanwhile, or until all workers follow, are not in its counts."""
        self._check(settings)
        before = await self._crawls.read(crawl)
        if settings.max_pages_per_host and not before.record.settings.max_pages_per_host:
            # Before the settings: if the process dies here, whoever repeats the call counts again.
            done: Counter[str] = Counter()
            async with aclosing(self._visited.scan(before.key, Phase.DONE)) as entries:
                async for entry in entries:
                    done[entry.gate] += entry.phase is Phase.DONE
            await self._quotas.recount(before.key, done)
        await self._crawls.amend(crawl, self._with_lease(settings))

    def _check(self, settings: CrawlSettings) -> None:
        exact_only(settings)
        if self._functions_only:
            no_module_in_functions(settings)

    def _with_lease(self, settings: CrawlSettings) -> CrawlSettings:
        """A crawl that wants no lease of its own has the queues'; so readers of its settings know how long it is."""
        if settings.lease or self._queues.lease < SHORTEST:
            return settings
        return msgspec.structs.replace(settings, lease=float(self._queues.lease))

    async def pause(self, crawl: str) -> bool:
        """Workers follow within five seconds; turns that they have taken by then start up to twelve seconds later."""
        return await self._crawls.pause(crawl, True)

    async def resume(self, crawl: str) -> bool:
        return await self._parking.resume(crawl)

    # ---------------------------------------------------------------- visited set and frontier

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added]:
        self._accounts.worked(crawl)
        return await self._adding.add(crawl, pages)

    async def claim(self, limit: int, crawl: str | None = None) -> list[Lease]:
        return await self._claiming.claim(limit, crawl)

    async def settle(self, endings: Sequence[tuple[Lease, Verdict]]) -> list[Settled]:
        answers = await self._settling.settle(endings)
        for (lease, verdict), answer in zip(endings, answers, strict=True):
            self._accounts.worked(lease.crawl, answer is Settled.SETTLED and verdict.ending in FINISHED)
        return answers

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        return await self._settling.extend(leases)

    # ---------------------------------------------------------------- what Lambda delivers

    def deliver(self, deliveries: Sequence[Delivery], until: float) -> None:
        """Work on the messages of an event, until `hand_back`. Pages may wait for their turn until then (Unix seconds);
        later turns are somebody else's. Raises StateMismatch."""
        self._delivered.take(deliveries, until)

    @property
    def worked_off(self) -> bool:
        """Whether no claim will hand out anything of the event any more."""
        return not self._delivered.waiting and self._claiming.idle

    async def hand_back(self, seconds: float) -> list[str]:
        """End with the event: the ids of its messages that are to stay on their queues. What nobody began with is sent
        again, if that is done within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._claiming.close()
        except TimeoutError:
            log.warning("messages stay invisible until their leases expire: AWS does not answer")
        finally:
            self._held.clear()
        return self._delivered.left()

    # ---------------------------------------------------------------- the gate

    async def turn(self, crawl: str, gate: str) -> float:
        return await self._gates.turn(gate, pace((await self._crawls.known(crawl)).record.settings))

    async def hold(
        self, gate: str, *, until: float = 0.0, why: Why = Why.BACKOFF, interval: float | None = None
    ) -> None:
        await self._gates.hold(gate, until, why, interval)

    async def diagnose(self, gate: str, health: Health) -> None:
        await self._gates.diagnose(gate, health)

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        await self._gates.occupy(gate, flight, until)

    async def upheld(self, lease: Lease) -> float:
        return await self._gates.upheld(lease)

    # ---------------------------------------------------------------- what the fleet knows

    async def in_scope(self, crawl: str, sites: Sequence[str]) -> list[bool]:
        return await self._scope.has((await self._crawls.known(crawl)).key, sites)

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        return await self._facts.recall(names)

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        return await self._facts.remember(name, value, seconds, if_absent)

    # ---------------------------------------------------------------- fleet and ledger

    async def beat(self, beat: Beat) -> None:
        await self._fleet.beat(beat)
        await self._accounts.beat(last=not beat.at)

    async def workers(self, within: float = 60.0) -> list[Beat]:
        return await self._fleet.workers(within)

    async def release(self, worker: str) -> int:  # noqa: ARG002 - the port's signature
        """0: whose messages are in flight only SQS knows, and it does not tell. They expire."""
        return 0

    async def counts(self, crawl: str) -> Counts:
        """Sums of the counters, exact once the crawl is complete.

        While a page has not ended there is a message, its own or the one that feeds its backlog, unless the crawl is
        paused: without any, the counters are off, and the caller had better ask `complete`.
        """
        seen = await self._crawls.paid(crawl)
        ended = Counts(
            discovered=seen.discovered,
            done=seen.done,
            skipped=seen.skipped,
            dead=max(seen.dead, 0),  # a revival whose answer was lost may have been counted twice
            bytes=seen.bytes,
            hosts=seen.hosts,
            skips=seen.skips,
            deaths=seen.deaths,
        )
        if seen.record.completed_at is not None:
            return ended
        depth = await self._queues.depth(DEPTH_FRESH) if seen.outstanding > 0 else Depth()
        outstanding = max(seen.outstanding, 0) if depth.total or seen.record.paused else 0
        leased = min(depth.in_flight, outstanding)
        return msgspec.structs.replace(ended, pending=outstanding - leased, leased=leased, exact=False)

    async def complete(self, crawl: str) -> bool:
        self._accounts.worked(crawl)
        await self._accounts.beat()
        return await self._completion.complete(crawl)

    async def ledger(self, crawl: str, phase: Phase | None = None) -> AsyncIterator[PageState]:
        seen = await self._crawls.read(crawl)
        if phase is Phase.LEASED:
            return  # which pages are leased only the queues know
        if phase is Phase.DEAD:
            await self._dead_letters.try_to_drain()  # one place to look
        async with aclosing(self._visited.scan(seen.key, phase)) as entries:
            async for entry in entries:
                line = table.state(entry)
                if phase in (None, line.phase):
                    yield line

    async def hosts(self, crawl: str) -> AsyncIterator[HostState]:
        """The hosts of a crawl; which pages are leased only the queues know: they count as pending.

        Reads the whole visited table, as `ledger` does (two cents a million URLs), and every gate of the crawl (a read
        unit each, a hundred a request). Holds the hosts' names and sums in memory meanwhile.
        """
        seen = await self._crawls.read(crawl)
        sums: dict[str, Counter[Phase]] = defaultdict(Counter)
        async with aclosing(self._visited.scan(seen.key)) as entries:
            async for entry in entries:
                sums[entry.gate][entry.phase] += 1
        for names in chunks(list(sums), 100):
            for name, gate in zip(names, await self._gates.read(names), strict=True):
                yield host(name, gate, pace(seen.record.settings), sums[name], micros(self._clock()))

    # ---------------------------------------------------------------- repair

    async def revive(self, crawl: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
        return await self._repair.revive(crawl, pages)

    async def sweep(self, crawl: str) -> int:
        self._accounts.worked(crawl)
        return await self._repair.sweep(crawl)

    async def drain_dead_letters(self) -> int:
        return await self._dead_letters.drain()

    async def purge(self, crawl: str) -> None:
        await self._repair.purge(crawl)
        await self._accounts.drop(crawl)

    async def accounts(self, crawl: str) -> tuple[Account, Account]:
        """What the fleet has used of AWS for a crawl at least, and what it used for none: idle workers."""
        account, idle = await self._accounts.read([crawl, NOBODY])
        return account, idle

    async def close(self) -> None:
        try:
            await self._claiming.close()
            await self._accounts.close()
        finally:
            await self._aws.close()


async def _check_tables(aws: Aws, names: addresses.Names) -> None:
    """Read an item that is not there: this finds tables missing or of another shape, and needs no right but reading."""
    for name in dict.fromkeys([names.table, names.control]):
        try:
            await aws.items([(name, "#")])
        except Refused as error:
            if error.code == "ResourceNotFoundException":
                raise StateMissing(f"there is no table {name!r} in this AWS account and region") from None
            if error.code == "ValidationException":
                raise StateMismatch(f"the table {name!r} is not keyed by `pk`: it is no table of a crawler") from None
            raise
