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
    seconds). held_until: until when this process has held it, or seen it given up (Unix seconds)."""

    response: float = 0.0
    seen: int = 0
    told: Health | None = None
    told_at: float = 0.0
    held_until: float = 0.0


class Hosts:
    """One process's view of all hosts, for all crawls."""

    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def at(self, lease: Lease) -> AtHost:
        """The host of a page whose lease has just been handed out."""
        host = self._hosts.setdefault(lease.gate, _Host())
        self._hosts.move_to_end(lease.gate)
        if len(self._hosts) > REMEMBERED:
            self._hosts.popitem(last=False)
        return AtHost(self._state, host, lease)

    def held(self, since: float) -> int:
        """How many of them this process has seen held, parked or given up at some time since then (Unix seconds)."""
        return sum(host.held_until > since for host in self._hosts.values())


class AtHost:
    """What one page's requests show of its host. Methods raise the state's errors."""

    def __init__(self, state: CrawlState, host: _Host, lease: Lease) -> None:
        self._state, self._host, self._lease = state, host, lease
        self._since = time.time()

    async def answered(self, response: Response, interval: float) -> None:
        """An answer came. `interval`: seconds that the crawl keeps between turns."""
        host, known = self._host, self._known
        host.response += (response.elapsed - host.response) * (WEIGHT if host.seen else 1.0)
        host.seen += 1
        if response.status < 500 and response.status != 429:
            known = health.answered(known, host.response, interval, seen=host.seen)
        elif response.status not in REFUSALS:
            known = health.troubled(msgspec.structs.replace(known, failures=0), self._lease.interval)
        await self._tell(known)

    async def refused(self, response: Response) -> float:
        """429 or 503: hold the host as long as it asks, else longer each time. Until when (Unix seconds)."""
        now, error = time.time(), f"HTTP {response.status} {response.reason}".rstrip()
        known = health.refused(self._known, self._name, error, now)
        wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), now)
        why = Why.BACKOFF if wait is None else Why.RETRY_AFTER
        until = now + (retry.backoff(str(response.status), known.refusals, jitter=0.0) if wait is None else wait)
        await self._hold(until, why)
        await self._tell(health.troubled(known, self._lease.interval))
        return until

    async def failed(self, kind: str, error: str) -> None:
        """No answer came. Where that says something about the host it may be parked, or given up."""
        known = await self._broken(error) if kind in BREAKING else self._known
        await self._tell(health.troubled(known, self._lease.interval))

    async def without_robots(self, error: str) -> None:
        """The host's robots.txt was asked for and could not be had: as good as no connection."""
        await self._tell(await self._broken(error))

    async def give_up(self, error: str) -> None:
        """Without a robots.txt nothing of the host may be fetched, so its pages are to end at once. Not where other
        hosts behind the same gate have answered meanwhile: each page then hears the same in its turn."""
        known = self._known
        if self._lease.gate == self._name or known.failures:
            await self._tell(health.given_up(known, self._name, error, time.time()))

    @property
    def _name(self) -> str:
        return urls.hostname(self._lease.url)

    @property
    def _known(self) -> Health:
        """What this process has told since the lease was handed out is newer than what the lease tells."""
        told = self._host.told
        return told if told is not None and self._host.told_at >= self._since else self._lease.health

    async def _broken(self, error: str) -> Health:
        now = time.time()
        known = health.failed(self._known, self._name, error, now)
        if known.down_until <= now and (wait := health.parked(known)):
            await self._hold(now + wait, Why.BACKOFF)
        return known

    async def _hold(self, until: float, why: Why) -> None:
        self._host.held_until = max(self._host.held_until, until)
        await self._state.hold(self._lease.gate, until=until, why=why)

    async def _tell(self, known: Health) -> None:
        if known == self._known:
            return
        self._host.told, self._host.told_at = known, time.time()
        self._host.held_until = max(self._host.held_until, known.down_until)
        await self._state.diagnose(self._lease.gate, known)
