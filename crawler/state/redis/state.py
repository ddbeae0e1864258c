"""`CrawlState` on Redis: every method is one script (the long ones: a bounded step a call, until there is no more)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from crawler.config import FALSE_POSITIVES, CrawlSettings
from crawler.errors import UsageError
from crawler.model import (
    ERROR_LENGTH,
    HISTORY,
    Added,
    Beat,
    Counts,
    CrawlRecord,
    Ending,
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
from crawler.state.redis import gates, opening, records
from crawler.state.redis.adding import Adder
from crawler.state.redis.address import Address, parse
from crawler.state.redis.claiming import Claimer
from crawler.state.redis.client import Server
from crawler.state.redis.clock import Clock

T = TypeVar("T")

LISTED = 3600.0
"""Seconds for which a worker that fell silent is kept."""

_ENDINGS = {
    Ending.DONE: records.DONE,
    Ending.SKIPPED: records.SKIPPED,
    Ending.DEAD: records.DEAD,
    Ending.RETRY: records.DELAYED,
    Ending.DEFER: records.DELAYED,
}
_FAILED = frozenset({Ending.RETRY, Ending.DEAD})


class RedisState:
    """Frontier, visited set, gates and ledger on one Redis. Claims are exact; counts are exact; `claim` never waits."""

    def __init__(self, server: Server, clock: Clock, worker: str) -> None:
        self._server = server
        self._clock = clock
        self._adder = Adder(server)
        self._claimer = Claimer(server, clock, worker, self._give_back)

    @classmethod
    async def open(
        cls, address: str, *, worker: str, create: bool = False, clock: Callable[[], float] | None = None
    ) -> RedisState:
        """Open the state at `address` (see `address.py`); `create` permits to make it.

        `worker` owns the leases it claims. `clock`, for tests, replaces the server's clock in all that this handle
        calls. Raises UsageError, StateMissing, StateMismatch (nothing was changed), StateUnavailable.
        """
        parsed: Address = parse(address)
        times = Clock(clock)
        server = Server(parsed, times)
        try:
            await opening.check(server, parsed, times, create=create)
        except BaseException:
            await server.close()
            raise
        return cls(server, times, worker)

    @property
    def home(self) -> str:
        return ""

    # ---------------------------------------------------------------- crawls

    async def create(self, crawl: CrawlRecord) -> CrawlRecord:
        fields: list[object] = ["started_at", crawl.started_at, "store", crawl.store, "updated_at", crawl.updated_at]
        if crawl.completed_at is not None:
            fields += ["completed_at", crawl.completed_at]
        if crawl.paused:
            fields += ["paused", "1"]
        # What is shown as its start stays as given; `max_time` is counted by the server's clock.
        fields += ["began_at", self._clock.to_server(crawl.started_at), *records.limits(crawl.settings)]
        fields += ["dedup", crawl.settings.dedup]
        filtering = repr(FALSE_POSITIVES) if crawl.settings.dedup == "bloom" else ""
        values = await self._server.run("create", (crawl.id, records.FIELDS, filtering, *map(_field, fields)))
        if values is None:
            raise UsageError(
                "--dedup bloom: this server has no Bloom filters (BF.RESERVE): Redis 8, Redis Stack and valkey-bloom do"
            )
        return records.crawl_record(values)

    async def crawls(self) -> list[CrawlRecord]:
        rows = await self._server.run("crawls", (records.FIELDS,))
        found = [(int(number), records.crawl_record(values)) for number, *values in rows]
        return [record for _, record in sorted(found, key=lambda each: (each[1].started_at, each[0]))]

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        request = (crawl, settings.dedup, *map(_field, records.limits(settings)))
        if not self._known(crawl, await self._server.run("amend", request)):
            raise UsageError(
                f"--dedup: what crawl {crawl} remembers cannot change its form; begin another with --crawl NAME"
            )

    async def pause(self, crawl: str) -> bool:
        return bool(self._known(crawl, await self._server.run("pause", (crawl, True))))

    async def resume(self, crawl: str) -> bool:
        return bool(self._known(crawl, await self._server.run("pause", (crawl, False))))

    # ---------------------------------------------------------------- visited set and frontier

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added]:
        return self._known(crawl, await self._adder.add(crawl, pages))

    async def claim(self, limit: int, crawl: str | None = None) -> list[Lease]:
        return self._known(crawl, await self._claimer.claim(limit, crawl)) if limit > 0 else []

    async def settle(self, endings: Sequence[tuple[Lease, Verdict]]) -> list[Settled]:
        rows = [
            (
                *records.token(lease),
                _ENDINGS[verdict.ending],
                self._clock.to_server(verdict.at),
                records.words(verdict.reason),
                records.words(verdict.error)[:ERROR_LENGTH],
                verdict.bytes,
                verdict.ending in _FAILED,
                verdict.again,
            )
            for lease, verdict in endings
        ]
        return _settled(await self._server.run("settle", (rows, HISTORY), _digests(lease for lease, _ in endings)))

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        rows = [records.token(lease) for lease in leases]
        return _settled(await self._server.run("extend", (rows,), _digests(leases)))

    async def _give_back(self, leases: Sequence[Lease]) -> None:
        await self.settle([(lease, Verdict(Ending.DEFER)) for lease in leases])

    # ---------------------------------------------------------------- the gate

    async def turn(self, crawl: str, gate: str) -> float:
        now, start = self._known(crawl, await self._server.run("turn", (crawl, gate)))
        self._clock.learn(float(now))
        return self._clock.to_local(float(start))

    async def hold(
        self, gate: str, *, until: float = 0.0, why: Why = Why.BACKOFF, interval: float | None = None
    ) -> None:
        await self._server.run("hold", (gate, self._clock.to_server(until), why, interval))

    async def diagnose(self, gate: str, health: Health) -> None:
        down_until = self._clock.to_server(health.down_until)
        request = (gate, health.gap, int(health.prompt), down_until)
        await self._server.run("diagnose", request, gates.told(health, self._clock))

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        await self._server.run("occupy", (gate, flight, self._clock.to_server(until)))

    async def upheld(self, lease: Lease) -> float:
        return lease.start_at

    # ---------------------------------------------------------------- what the fleet knows

    async def in_scope(self, crawl: str, sites: Sequence[str]) -> list[bool]:
        return _flags(self._known(crawl, await self._server.run("in_scope", (crawl, sites))))

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        values: list[bytes | None] = await self._server.run("recall", (), *map(_fact, names))
        return values

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        nonce = os.urandom(8)
        return bool(await self._server.run("remember", (seconds, if_absent), _fact(name), nonce, value))

    # ---------------------------------------------------------------- fleet and ledger

    async def beat(self, beat: Beat) -> None:
        at = self._clock.to_server(beat.at)
        await self._server.run("beat", (beat.worker, at, beat.rate, beat.held, LISTED))

    async def workers(self, within: float = 60.0) -> list[Beat]:
        return records.beats(await self._server.run("workers", (within,)), self._clock)

    async def release(self, worker: str) -> int:
        released, number, cursor = 0, b"", b"0"
        some: int
        while True:
            request = (number.decode(), cursor.decode())
            some, number, cursor = await self._server.run("release", request, records.owner(worker))
            released += some
            if not number:
                return released

    async def counts(self, crawl: str) -> Counts:
        return records.counts(*self._known(crawl, await self._server.run("counts", (crawl,))))

    async def hosts(self, crawl: str) -> AsyncIterator[HostState]:
        cursor = b"0"
        while True:
            cursor, *reply = self._known(crawl, await self._server.run("hosts", (crawl, cursor.decode())))
            for host in gates.host_states(reply, self._clock):
                yield host
            if cursor == b"0":
                return

    async def complete(self, crawl: str) -> bool:
        return bool(self._known(crawl, await self._server.run("complete", (crawl,))))

    async def ledger(self, crawl: str, phase: Phase | None = None) -> AsyncIterator[PageState]:
        cursor, phases = b"0", records.phases(phase)
        told: set[bytes] = set()
        while True:
            reply = await self._server.run("ledger", (crawl, cursor.decode(), phases))
            cursor, lines, shrinks = self._known(crawl, reply)
            for page in records.page_states(lines):
                if page.digest not in told:
                    yield page
                if shrinks:
                    told.add(page.digest)
            if cursor == b"0":
                return

    async def drain_dead_letters(self) -> int:
        return 0

    async def purge(self, crawl: str) -> None:
        """Drop all that is known of a crawl; the gates and facts stay. What workers still hold of it is LOST."""
        while await self._server.run("purge", (crawl,)):
            pass

    async def revive(self, crawl: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
        """Make dead pages pending from the given time, with fresh attempts; False for one that is not dead."""
        times = [self._clock.to_server(at) for _, at in pages]
        reply = await self._server.run("revive", (crawl, times), b"".join(digest for digest, _ in pages))
        return _flags(self._known(crawl, reply))

    async def sweep(self, crawl: str) -> int:
        """Queue again what is recorded as unfinished but is neither queued, leased nor delayed; say how many."""
        queued, cursor = 0, b"0"
        some: int
        while True:
            cursor, some = self._known(crawl, await self._server.run("sweep", (crawl, cursor.decode())))
            queued += some
            if cursor == b"0":
                return queued

    async def close(self) -> None:
        await self._claimer.close()
        await self._server.close()

    def _known(self, crawl: str | None, reply: T | None) -> T:
        """Scripts and their callers answer None for a crawl that there is not."""
        if reply is None:
            raise UsageError(f"there is no crawl {crawl!r} on this state")
        return reply


def _digests(leases: Any) -> bytes:
    return b"".join([lease.digest for lease in leases])


def _fact(name: str) -> bytes:
    """A fact's name as bytes, for it may hold anything."""
    return name.encode("utf-8", "surrogatepass")


def _flags(marks: bytes) -> list[bool]:
    return [mark == ord("1") for mark in marks]


def _settled(marks: bytes) -> list[Settled]:
    return [Settled.SETTLED if kept else Settled.LOST for kept in _flags(marks)]


def _field(value: object) -> str:
    """A value as a hash keeps it. `repr` writes a float so that reading it gives the same."""
    return value if isinstance(value, str) else repr(value)
