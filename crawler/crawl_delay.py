"""Crawl-delay: puts what robots.txt asks for in force at the host's gate, for the whole fleet.

A gate can serve several hosts and crawls of several names; who asks for most decides. What is in force, and who asked,
is a fact, so that a delay can be taken back when the same robots.txt no longer asks for it.
"""

from __future__ import annotations

import logging

import msgspec

from crawler.robots import MAX_DELAY, Robots
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

KEPT = 365 * 24 * 3600.0
"""Seconds for which it is known who set a gate's interval; the interval itself stays."""

MOST_TOLD = 10_000
"""Origins of which it is remembered that their delay was told to be too long; beyond that it may be told again."""


class InForce(msgspec.Struct, frozen=True, array_like=True):
    """Seconds between two requests at a gate, and who asked for them."""

    seconds: float = 0.0
    asker: str = ""


class CrawlDelays:
    """The delays that one crawl in one process puts in force. `token`: its product token."""

    def __init__(self, state: CrawlState, token: str) -> None:
        self._state, self._token = state, token
        self._told: set[str] = set()
        self._capped = 0

    async def enforce(self, gate: str, origin: str, robots: Robots, now: InForce, *, fetched: bool) -> None:
        """Make the gate as slow as these rules ask. `fetched`: they are new; only then may it become faster."""
        seconds, asker = robots.crawl_delay or 0.0, f"{origin} {self._token}"
        if robots.delay_capped and origin not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(origin)
            self._capped += 1
            log.warning(
                "robots.txt of %s asks for a longer Crawl-delay; %.0f s are kept (capped so far: %d)",
                origin,
                MAX_DELAY,
                self._capped,
            )
        if seconds > now.seconds or (fetched and asker == now.asker and seconds < now.seconds):
            await self._state.hold(gate, interval=seconds)
            # Written last: if the process dies before, the next worker to look holds the gate again.
            await self._state.remember(name(gate), msgspec.msgpack.encode(InForce(seconds, asker)), KEPT)


def name(gate: str) -> str:
    """Name of the fact about a gate."""
    return f"crawl-delay:{gate}"


def decode(value: bytes | None) -> InForce:
    """Read the fact; one of another version counts as none."""
    try:
        return msgspec.msgpack.decode(value, type=InForce) if value else InForce()
    except msgspec.MsgspecError:
        return InForce()
