"""What this process sees of the hosts it asks, told to the fleet through their gates.

The health of a host comes with every lease and goes back when an answer changes it, so that what one worker learns all
obey. If the process dies before it has told, the next answer or failure tells it.
"""

from __future__ import annotations

import time
from collections import OrderedDict

import msgspec

from crawler import health, retry, urls
from crawler.fetched import Response
from crawler.model import Health, Lease, Why
from crawler.state.port import CrawlState

REMEMBERED = 20_000
"""Hosts in memory."""

WEIGHT = 0.3
"""Of the latest answer in a host's recent response time."""

BREAKING = frozenset({"dns", "connect", "tls", "timeout"})
"""Kinds of failure that say something about the host; the others may be the page's own."""

REFUSALS = (429, 503)
"""Answers by which a server says that it is asked too much."""


class _Host(msgspec.Struct, gc=False):
    """response: seconds, recent; seen: answers it is made of. told: the health that was told last, and when (Unix
    seconds)."""

    response: float = 0.0
    seen: int = 0
    told: Health | None = None
    told_at: float = 0.0


class Hosts:
    """One process's view, for all crawls. Methods raise the state's errors."""

    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    async def answered(self, lease: Lease, response: Response, interval: float) -> None:
        """An answer came. `interval`: seconds that the crawl keeps between turns."""
        host = self._host(lease.gate)
        host.response += (response.elapsed - host.response) * (WEIGHT if host.seen else 1.0)
        host.seen += 1
        known = self._known(host, lease)
        if response.status < 500 and response.status != 429:
            known = health.answered(known, host.response, interval, seen=host.seen)
        elif response.status not in REFUSALS:
            known = health.troubled(msgspec.structs.replace(known, failures=0), lease.interval)
        await self._tell(host, lease, known)

    async def refused(self, lease: Lease, response: Response) -> float:
        """429 or 503: hold the host as long as it asks, else longer each time. Until when (Unix seconds)."""
        host = self._host(lease.gate)
        now, error = time.time(), f"HTTP {response.status} {response.reason}".rstrip()
        known = health.refused(self._known(host, lease), urls.hostname(lease.url), error, now)
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
        why = Why.BACKOFF if wait is None else Why.RETRY_AFTER
        until = now + (retry.backoff(str(response.status), known.refusals, jitter=0.0) if wait is None else wait)
        await self._state.hold(lease.gate, until=until, why=why)
        await self._tell(host, lease, health.troubled(known, lease.interval))
        return until

    async def failed(self, lease: Lease, kind: str, error: str) -> None:
        """No answer came. Where that says something about the host it may be parked, or given up."""
        host = self._host(lease.gate)
        known = self._known(host, lease)
        if kind in BREAKING:
            known = await self._broken(known, lease, error)
        await self._tell(host, lease, health.troubled(known, lease.interval))

    async def without_robots(self, lease: Lease, error: str) -> None:
        """The host's robots.txt was asked for and could not be had: as good as no connection."""
        host = self._host(lease.gate)
        await self._tell(host, lease, await self._broken(self._known(host, lease), lease, error))

    async def give_up(self, lease: Lease, error: str) -> None:
        """Without a robots.txt nothing of the host may be fetched, so its pages are to end at once. Not where other
        hosts behind the same gate have answered meanwhile: each page then hears the same in its turn."""
        host = self._host(lease.gate)
        known, name = self._known(host, lease), urls.hostname(lease.url)
        if lease.gate == name or known.failures:
            await self._tell(host, lease, health.given_up(known, name, error, time.time()))

    async def _broken(self, known: Health, lease: Lease, error: str) -> Health:
        now = time.time()
        known = health.failed(known, urls.hostname(lease.url), error, now)
        if known.down_until <= now and (wait := health.parked(known)):
            await self._state.hold(lease.gate, until=now + wait, why=Why.BACKOFF)
        return known

    def _host(self, gate: str) -> _Host:
        host = self._hosts.setdefault(gate, _Host())
        self._hosts.move_to_end(gate)
        if len(self._hosts) > REMEMBERED:
            self._hosts.popitem(last=False)
        return host

    def _known(self, host: _Host, lease: Lease) -> Health:
        """What this process told since the lease's turn was taken is newer than what the lease tells."""
        return host.told if host.told is not None and host.told_at > lease.start_at else lease.health

    async def _tell(self, host: _Host, lease: Lease, known: Health) -> None:
        if known == self._known(host, lease):
            return
        host.told, host.told_at = known, time.time()
        await self._state.diagnose(lease.gate, known)
