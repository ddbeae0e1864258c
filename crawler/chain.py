"""The redirect chain of a page: what a server sets a cookie for and then sends back.

Every redirect leads to a new URL, a page of its own; only one that leads back into the chain is followed at once, with
the chain's cookies: the visited set would swallow it, and the page behind it would never be had. A chain may run
through several pages, so the fleet remembers it for the page that a redirect leads to.
"""

from __future__ import annotations

import contextlib

import msgspec

from crawler.cookies import Jar
from crawler.errors import StateUnavailable
from crawler.fetched import Response
from crawler.large import Room
from crawler.model import CrawlRecord, Lease
from crawler.sessions import Sessions
from crawler.state.port import CrawlState
from crawler.url_key import keys_of

MOST_HOPS = 10
"""Redirects of one page that are followed at once."""

LONGEST = 20
"""Pages of a chain that are remembered."""

TEMPORARY = frozenset({302, 303, 307})
"""Redirects that are not for good."""

KEPT = 24 * 3600.0
"""Seconds for which a chain is remembered."""


class _Passed(msgspec.Struct, frozen=True, array_like=True):
    """What the fleet knows of the chain that led to a page: the digests of its URLs, and its cookies."""

    digests: tuple[bytes, ...]
    cookies: bytes


class Chain:
    """One page's chain as far as this visit has come."""

    def __init__(self, lease: Lease, jar: Jar, room: Room) -> None:
        self.lease, self.jar, self.room = lease, jar, room
        self.digests = [lease.digest]
        self.before: _Passed | None = None
        self.answers: list[Response] = []

    @property
    def hops(self) -> int:
        return len(self.answers) - 1

    @property
    def bounces(self) -> bool:
        """Whether the redirect may be one of those that come back for a cookie: not for good, or with one. The
        others, most of them, are spared the state's requests."""
        return self.answers[-1].status in TEMPORARY or self.answers[-1].header(b"set-cookie") is not None

    def headers(self, url: str) -> tuple[tuple[str, str], ...]:
        """The request's Cookie field, if there is anything to say."""
        cookies = self.jar.header(url)
        return (("Cookie", cookies),) if cookies else ()


class Chains:
    """The chains of one crawl."""

    def __init__(self, state: CrawlState, record: CrawlRecord, sessions: Sessions) -> None:
        self._state, self._sessions, self._shared = state, sessions, record.settings.sessions
        self._digest = keys_of(record.settings).digest
        # Facts outlive a purge: a crawl begun anew under an old name must find nothing.
        self._crawl = f"{record.id}:{round(record.started_at * 1_000_000)}"

    async def begin(self, lease: Lease, room: Room) -> Chain:
        """The chain of a page that is to be asked for; `room` is for its answers."""
        return Chain(lease, await self._sessions.jar(lease.url), room)

    async def read(self, chain: Chain, response: Response) -> None:
        """Take an answer into the chain."""
        chain.answers.append(response)
        chain.jar.read(response.url, response)
        if self._shared:
            # What could not be written waits in this process for the next page of the site.
            with contextlib.suppress(StateUnavailable):
                await self._sessions.keep(response.url, chain.jar)

    async def leads_back(self, chain: Chain, target: str) -> bool:
        """Whether a redirect's target is in the chain already, so that it is to be asked for now."""
        digest = self._digest(target)
        if digest in chain.digests:
            return True
        if not chain.bounces:
            return False
        (known,) = await self._state.recall([self._name(chain.lease.digest)])
        chain.before = _decode(known)
        if chain.before is None or digest not in chain.before.digests:
            return False
        if self._shared:
            chain.jar = await self._sessions.jar(target)
        else:
            chain.jar = Jar.load(chain.before.cookies)
            for answer in chain.answers:
                chain.jar.read(answer.url, answer)
        # Without a cookie the page would be the same redirect again.
        return chain.jar.header(target) is not None

    async def pass_on(self, chain: Chain, target: str) -> None:
        """Remember the chain for the page that it leads to. Of several chains the first counts."""
        if not chain.bounces and chain.before is None:
            return
        digests = [*chain.digests, *(chain.before.digests if chain.before else ())]
        passed = _Passed(tuple(digests[:LONGEST]), b"" if self._shared else chain.jar.dump())
        name = self._name(self._digest(target))
        await self._state.remember(name, msgspec.msgpack.encode(passed), KEPT, if_absent=True)

    def _name(self, digest: bytes) -> str:
        return f"chain:{self._crawl}:{digest.hex()}"


def _decode(known: bytes | None) -> _Passed | None:
    """A fact of another version counts as none."""
    try:
        return msgspec.msgpack.decode(known, type=_Passed) if known else None
    except msgspec.MsgspecError:
        return None
