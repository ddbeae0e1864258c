"""A crawl's cookies, shared by the fleet: one fact of the state for each site.

A page is fetched with a copy of its site's cookies; what its answers change goes into the fleet's copy, cookie by
cookie, so that of two workers at one site neither undoes what the other has done. Writes of one site's fact come one
after the other: each claims the number of the next write by a marker first. A worker that dies with the marker lets it
lapse, and its page, whose lease lapses too, is fetched anew.

Facts are shared by all crawls of a state and outlive a purge, so a crawl's id and its start are in their names: one
begun anew under an old name finds nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from crawler import urls
from crawler.cookies import Cookie, Jar, Key
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

LIFE = 6 * 3600.0
"""Seconds for which a site's cookies are kept after they were last of use."""

RENEW = LIFE / 4
"""Seconds after the latest write when a use, though it changed nothing, renews the life."""

FRESH = 3.0
"""Seconds for which a worker goes by what it looked up."""

MARKER = 5.0
"""Seconds that a worker has for its write. One that is held up for longer may undo what another has written since."""

POLL = 0.05
"""Seconds between two looks at whether another worker has written."""

MOST_SITES = 4096
"""Sites whose cookies one crawl keeps in memory."""


class _Fact(msgspec.Struct, frozen=True, array_like=True):
    """What the fleet knows of a site. `number` counts the writes; `until` is when the last seeded cookie ends."""

    number: int = 0
    written_at: float = 0.0
    until: float = 0.0
    jar: bytes = b""


class _Site:
    """What this process knows of a site: the fact as last seen, and changes that are not in it yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fact = _Fact()
        self.seen_at = float("-inf")
        self.pending: dict[Key, Cookie | None] = {}
        self.writing = asyncio.Lock()


class Sessions:
    """The cookies of one crawl in one process. `clock` answers Unix seconds."""

    def __init__(self, state: CrawlState, record: CrawlRecord, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock
        self._on = record.settings.sessions
        self._crawl = f"{record.id}:{round(record.started_at * 1_000_000)}"
        self._sites: OrderedDict[str, _Site] = OrderedDict()

    async def jar(self, url: str) -> Jar:
        """A jar for the requests of one page, the caller's own: its site's cookies, or empty without sessions."""
        if not self._on:
            return Jar(self._clock)
        site = self._site(_site_of(urls.hostname(url)))
        if not 0 <= self._clock() - site.seen_at < FRESH:
            await self._look(site)
        jar = Jar.load(site.fact.jar, self._clock)
        jar.apply(site.pending)
        return jar

    async def keep(self, url: str, jar: Jar) -> None:
        """Give the fleet what the answers to a page's requests changed in its jar; cookies of other sites are dropped.

        After StateUnavailable the changes wait in this process for the next call.
        """
        if not self._on:
            return
        site = self._site(_site_of(urls.hostname(url)))
        changes, jar.changes = jar.changes, {}
        site.pending.update({key: cookie for key, cookie in changes.items() if _site_of(key[0]) == site.name})
        if self._due(site):
            await self._write(site)

    async def seed(self, cookies: Iterable[Cookie]) -> int:
        """Give the fleet cookies to begin with; they are kept until the last one of their site ends, at least LIFE.

        Answers for how many there was no room (see `Jar`). Repeat after StateUnavailable.
        """
        sites: dict[str, _Site] = {}
        for cookie in cookies:
            name = _site_of(cookie.domain)
            sites.setdefault(name, _Site(name)).pending[cookie.key] = cookie
        too_many = 0
        for site in sites.values():
            jar = Jar(self._clock)
            jar.apply(site.pending)
            too_many += len(site.pending) - len(jar)
            await self._write(site, max(cookie.expires or 0.0 for cookie in site.pending.values() if cookie))
        return too_many

    def _site(self, name: str) -> _Site:
        site = self._sites.get(name)
        if site is None:
            site = self._sites[name] = _Site(name)
            if len(self._sites) > MOST_SITES:
                self._sites.popitem(last=False)
        self._sites.move_to_end(name)
        return site

    def _due(self, site: _Site) -> bool:
        """Whether there is something to write: a change, or a life to be renewed."""
        return bool(site.pending) or (site.fact.jar != b"" and self._clock() - site.fact.written_at >= RENEW)

    async def _look(self, site: _Site) -> None:
        (known,) = await self._state.recall([f"cookies:{self._crawl}:{site.name}"])
        site.fact, site.seen_at = _decode(known), self._clock()

    async def _write(self, site: _Site, until: float = 0.0) -> None:
        """Put the pending changes into the fleet's copy. Of tasks that come together, the first writes for all.

        If the process dies between marker and fact, the marker lapses and the next writer goes on.
        """
        async with site.writing:
            while True:
                await self._look(site)
                if not self._due(site):
                    return
                number = site.fact.number + 1
                marker = f"cookies-write:{self._crawl}:{site.name}:{number}"
                if await self._state.remember(marker, b"", MARKER, if_absent=True):
                    break
                await asyncio.sleep(POLL)
            jar = Jar.load(site.fact.jar, self._clock)
            taken = dict(site.pending)
            jar.apply(taken)
            now = self._clock()
            fact = _Fact(number, now, max(site.fact.until, until), jar.dump())
            value = msgspec.msgpack.encode(fact)
            await self._state.remember(f"cookies:{self._crawl}:{site.name}", value, max(LIFE, fact.until - now))
            site.fact, site.seen_at = fact, now
            for key, cookie in taken.items():
                if site.pending[key] is cookie:
                    del site.pending[key]


def _site_of(host: str) -> str:
    """No cookie is shared beyond a registrable domain."""
    return urls.registrable_domain(host)


def _decode(known: bytes | None) -> _Fact:
    """A fact of another version counts as none."""
    try:
        return msgspec.msgpack.decode(known, type=_Fact) if known else _Fact()
    except msgspec.MsgspecError:
        return _Fact()
