"""What is checked before a Redis is trusted with a crawl."""

from __future__ import annotations

import logging

from crawler.errors import StateMismatch, StateMissing, StateUnavailable
from crawler.state.redis.address import Address
from crawler.state.redis.client import Server
from crawler.state.redis.clock import Clock

SCHEMA = "2"
OLDEST = (6, 2)

log = logging.getLogger(__name__)
_warned: set[str] = set()


async def check(server: Server, address: Address, clock: Clock, *, create: bool) -> None:
    """Make sure that there is a state of ours on a server that can keep it; `create` permits to make it.

    Raises StateMissing, StateMismatch, StateUnavailable.
    """
    oldest = ".".join(map(str, OLDEST))
    version = str((await server.info("server")).get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < OLDEST:
        raise StateUnavailable(f"the Redis at {address.shown} is version {version}: {oldest} or newer is needed")
    try:
        now, schema = await server.run("open", (SCHEMA, create))
    except StateUnavailable as error:
        if "WRONGTYPE" in str(error):
            raise StateMismatch(f"{address.shown} holds keys of another program: give the state a ?name=") from None
        raise
    clock.learn(float(now))
    if not schema:
        raise StateMissing(f"there is no crawl state at {address.shown}: `crawler crawl` or `crawler seed` makes one")
    if schema.decode("utf-8", "replace") != SCHEMA:
        raise StateMismatch(f"the state at {address.shown} was written by another version of the crawler")
    for problem in await _dangers(server):
        _warn(f"the Redis at {address.shown} {problem}")


async def _dangers(server: Server) -> list[str]:
    """What could make this server forget pages."""
    found = []
    persistence, memory = await server.info("persistence"), await server.info("memory")
    if not persistence.get("aof_enabled") and await server.setting("save") == "":
        found.append("keeps nothing on disk: all is lost when it stops; set `appendonly yes`")
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"may drop visited URLs when its memory is full ({policy}); set `maxmemory-policy noeviction`")
    return found


def _warn(text: str) -> None:
    """Once a process, however many handles it opens."""
    if text not in _warned:
        _warned.add(text)
        log.warning("%s", text)
