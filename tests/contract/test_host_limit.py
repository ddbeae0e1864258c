"""A limit of pages a host: as many pages are fetched behind one gate, the others are handed out to be skipped."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from crawler.config import CrawlSettings
from crawler.model import MAX_PAGES_PER_HOST, Phase, Settled, dead, defer, done, retry, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take, take_one


async def test_two_handles_at_once_fetch_exactly_the_limit_of_each_host(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    states = [await backend.open("one"), await backend.open("two")]
    await new_crawl(states[0], backend, max_pages_per_host=4)
    await states[0].add(CRAWL, [each for host in "abc" for each in pages(20, f"{host}.example")])
    await states[0].add(CRAWL, pages(3, "small.example"))
    while not await states[0].complete(CRAWL):
        claims = await asyncio.gather(*(state.claim(5) for state in states * 2))
        leased = Counter(lease.gate for leases in claims for lease in leases if not lease.limit)
        fetched = Counter(line.gate for line in (await lines(states[0], CRAWL, Phase.DONE)).values())
        assert max((leased + fetched).values()) <= 4
        for state, leases in zip(states * 2, claims, strict=True):
            verdicts = [skipped(lease.limit) if lease.limit else done(1) for lease in leases]
            await state.settle(list(zip(leases, verdicts, strict=True)))
    found = (await lines(states[0])).values()
    assert Counter(line.gate for line in found if line.phase is Phase.DONE) == {
        "a.example": 4,
        "b.example": 4,
        "c.example": 4,
        "small.example": 3,
    }
    assert (await states[0].counts(CRAWL)).skips == {MAX_PAGES_PER_HOST: 48}


async def test_no_more_pages_of_a_host_are_leased_than_there_is_room_for(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend, max_pages_per_host=3, lease=5.0)
    await state.add(CRAWL, pages(9) + pages(2, "b.example"))
    first = await state.claim(20)
    assert Counter(lease.gate for lease in first) == {"a.example": 3, "b.example": 2}
    assert await state.claim(20) == []
    one, two, three = [lease for lease in first if lease.gate == "a.example"]
    await state.settle([(one, done(1)), (two, skipped("robots")), (three, dead("dns", "no such host"))])
    again = await state.claim(20)
    assert [lease.limit for lease in again] == [""] * 2
    await state.settle([(again[0], retry(backend.now() + 60, "timeout", ""))])
    await state.settle([(again[1], defer(backend.now() + 60))])
    last = await state.claim(20)
    assert [lease.limit for lease in last] == [""] * 2
    await backend.advance(6)
    assert len(await state.claim(20)) == 4  # what had expired, of both hosts
    assert await state.claim(20) == []


async def test_the_pages_beyond_the_limit_come_at_once(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1, max_pages_per_host=1)
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), done(1))])
    await state.hold("a.example", until=backend.now() + 1000)
    await state.add(CRAWL, pages(5) + pages(1, "b.example"))
    leases = await take(state, 5)
    assert {lease.gate: lease.limit for lease in leases} == {"a.example": MAX_PAGES_PER_HOST, "b.example": ""}
    assert max(lease.start_at for lease in leases) <= backend.now() + 1
    assert (
        await state.settle([(lease, skipped(lease.limit) if lease.limit else done(1)) for lease in leases])
        == [Settled.SETTLED] * 5
    )
    assert await state.complete(CRAWL)


async def test_pages_that_wait_when_the_limit_is_reached_come_at_once(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1, max_pages_per_host=2)
    await state.add(CRAWL, pages(5))
    (one,) = await state.claim(5)
    assert await state.claim(5) == []
    await backend.advance(10)
    (two,) = await state.claim(5)
    await state.settle([(two, done(1))])
    assert await state.claim(5) == []
    await state.settle([(one, done(1))])
    assert [lease.limit for lease in await state.claim(5)] == [MAX_PAGES_PER_HOST] * 3


async def test_only_pages_that_are_done_count(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, max_pages_per_host=1)
    await state.add(CRAWL, [*pages(3), page("/no", skip="trap")])
    await state.settle([(await take_one(state), skipped("robots"))])
    await state.settle([(await take_one(state), dead("dns", "no such host"))])
    last = await take_one(state)
    assert last.limit == ""
    await state.settle([(last, done(1))])
    seed = page("/seed")
    await state.add(CRAWL, [seed, page("/link", parent=parent(seed), depth=1)])
    assert [lease.limit for lease in await take(state, 2)] == [MAX_PAGES_PER_HOST] * 2


async def test_a_page_that_is_revived_needs_room_too(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, max_pages_per_host=1)
    await state.add(CRAWL, pages(2))
    failed = await take_one(state)
    await state.settle([(failed, dead("dns", "no such host"))])
    await state.settle([(await take_one(state), done(1))])
    assert await state.revive(CRAWL, [(failed.digest, 0.0)]) == [True]
    assert (await take_one(state)).limit == MAX_PAGES_PER_HOST


async def test_a_dead_worker_s_leases_make_room_again(backend: Backend) -> None:
    needs(backend, Difference.NO_RELEASE)
    gone, other = await backend.open("gone"), await backend.open("other")
    await new_crawl(gone, backend, max_pages_per_host=2)
    await gone.add(CRAWL, pages(5))
    lost = await gone.claim(5)
    assert await other.claim(5) == []
    assert await other.release("gone") == 2
    back = await other.claim(5)
    assert [(lease.url, lease.receives) for lease in back] == [(lease.url, 2) for lease in lost]


async def test_each_crawl_has_its_own_limit(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "one", max_pages_per_host=1)
    await new_crawl(state, backend, "two")
    for name in ("one", "two"):
        await state.add(name, pages(1))
        await state.settle([(await take_one(state, name), done(1))])
        await state.add(name, [page("/more")])
    assert (await take_one(state, "one")).limit == MAX_PAGES_PER_HOST
    assert (await take_one(state, "two")).limit == ""


@pytest.mark.parametrize("settle_first", [True, False])
async def test_a_limit_that_is_raised_lets_more_in(backend: Backend, settle_first: bool) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, max_pages_per_host=1)
    await state.add(CRAWL, pages(5))
    (one,) = await state.claim(5)
    if settle_first:
        await state.settle([(one, done(1))])
    await state.amend(CRAWL, CrawlSettings(rate=0.0, max_pages_per_host=3))
    await backend.advance(30)
    assert [lease.limit for lease in await state.claim(5)] == [""] * 2
    await state.amend(CRAWL, CrawlSettings(rate=0.0, max_pages_per_host=1))
    await backend.advance(30)
    assert [lease.limit for lease in await state.claim(5)] == ([MAX_PAGES_PER_HOST] * 2 if settle_first else [])
