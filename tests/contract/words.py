"""Short ways to say what the contract tests say all the time."""

from __future__ import annotations

import hashlib
from typing import Any

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, HostState, Lease, Page, PageState, Parent, Phase, Priority
from crawler.state.port import CrawlState
from tests.contract.backends import Backend

CRAWL = "crawl-1"


def digest(url: str) -> bytes:
    return hashlib.sha256(url.encode()).digest()[:16]


def page(
    path: str = "/",
    host: str = "a.example",
    *,
    parent: Parent | None = None,
    depth: int = 0,
    priority: int = Priority.NORMAL,
    skip: str = "",
) -> Page:
    """A page at `path` of `host`, which is its gate and its site too; without `parent`, a seed."""
    url = f"http://{host}{path}"
    return Page(url, digest(url), host, depth=depth, priority=priority, site=host, parent=parent, skip=skip)


def pages(count: int, host: str = "a.example", **given: Any) -> list[Page]:
    return [page(f"/{number}", host, **given) for number in range(count)]


def parent(of: Page | Lease, *, redelivered: bool = False) -> Parent:
    return Parent(of.digest, of.url, redelivered)


async def new_crawl(state: CrawlState, backend: Backend, name: str = CRAWL, **settings: Any) -> str:
    """Write the record of a crawl that started now; without limits on the rate unless `settings` say so."""
    record = CrawlRecord(
        id=name, started_at=backend.now(), settings=CrawlSettings(**{"rate": 0.0, **settings}), store="file:///out"
    )
    await state.create(record)
    return name


async def take(state: CrawlState, want: int, crawl: str | None = None) -> list[Lease]:
    """Claim until `want` leases are there, or nothing came three times in a row. Never more than `want`."""
    leases: list[Lease] = []
    empty = 0
    while len(leases) < want and empty < 3:
        some = await state.claim(want - len(leases), crawl)
        empty = 0 if some else empty + 1
        leases += some
    assert len(leases) <= want
    return leases


async def take_one(state: CrawlState, crawl: str | None = None) -> Lease:
    (lease,) = await take(state, 1, crawl)
    return lease


def paths(leases: list[Lease]) -> list[str]:
    """What distinguishes the leases' URLs, without the scheme."""
    return [lease.url.removeprefix("http://") for lease in leases]


async def hosts(state: CrawlState, crawl: str = CRAWL) -> dict[str, HostState]:
    """The host gates of a crawl by name; each comes once."""
    found = [host async for host in state.hosts(crawl)]
    by_name = {host.gate: host for host in found}
    assert len(by_name) == len(found)
    return by_name


async def lines(state: CrawlState, crawl: str = CRAWL, phase: Phase | None = None) -> dict[bytes, PageState]:
    """The ledger (of one phase) by digest; each page is in it once."""
    found = [line async for line in state.ledger(crawl, phase)]
    by_digest = {line.digest: line for line in found}
    assert len(by_digest) == len(found)
    return by_digest
