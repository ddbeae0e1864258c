"""A paused crawl keeps what it has and hands out nothing; other crawls do not notice."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import UsageError
from crawler.model import Added, CrawlRecord, Lease, Settled, defer, done
from crawler.state.aws import feeding, intake, lanes, parking
from crawler.state.port import CrawlState
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, new_crawl, page, pages, parent, take, take_one

OTHER = "crawl-2"


@pytest.fixture(autouse=True)
def prompt(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where crawls' records are remembered, they are read at every claim; nobody waits for messages, nor they."""
    monkeypatch.setattr(intake, "CRAWL_FRESH", 0.0)
    monkeypatch.setattr(lanes, "POLL", 0)
    monkeypatch.setattr(lanes, "LONG_POLL", 0)
    monkeypatch.setattr(parking, "NOTED", 0)
    monkeypatch.setattr(feeding, "NOTED", 0)


async def all_of(state: CrawlState, want: int) -> list[Lease]:
    """Claim until there are so many, also what a resumed crawl gets back within some seconds."""
    leases: list[Lease] = []
    async with asyncio.timeout(20):
        while len(leases) < want:
            leases += await state.claim(want - len(leases))
            await asyncio.sleep(0.01)
    return leases


async def paused(state: CrawlState, crawl: str = CRAWL) -> bool:
    (record,) = [record for record in await state.crawls() if record.id == crawl]
    return record.paused


async def test_a_paused_crawl_hands_out_nothing_and_goes_on_where_it_was(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(30))
    assert await state.pause(CRAWL)
    assert await paused(state)
    assert await take(state, 30) == []
    assert await take(state, 30, CRAWL) == []
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.pending, counts.leased, counts.done) == (30, 30, 0, 0)
    assert not await state.complete(CRAWL)
    assert await state.resume(CRAWL)
    assert not await paused(state)
    leases = await all_of(state, 30)
    assert {lease.digest for lease in leases} == {page.digest for page in pages(30)}
    assert await state.settle([(lease, done(1)) for lease in leases]) == [Settled.SETTLED] * 30
    assert await take(state, 1) == []
    assert await state.complete(CRAWL)


async def test_pausing_and_resuming_twice_changes_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    assert not await state.resume(CRAWL)
    assert [await state.pause(CRAWL), await state.pause(CRAWL)] == [True, False]
    assert await take(state, 1) == []
    assert [await state.resume(CRAWL), await state.resume(CRAWL)] == [True, False]
    assert len(await all_of(state, 1)) == 1


async def test_what_is_in_flight_ends_and_its_links_wait(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(2))
    first, second = await take(state, 2)
    await state.pause(CRAWL)
    link = page("/link", parent=parent(first), depth=1)
    assert await state.add(CRAWL, [link]) == [Added.NEW]
    assert await state.extend([first, second]) == [Settled.SETTLED] * 2
    assert await state.settle([(first, done(1)), (second, defer(0.0))]) == [Settled.SETTLED] * 2
    assert await take(state, 3) == []
    await state.resume(CRAWL)
    assert {lease.url for lease in await all_of(state, 2)} == {link.url, second.url}


async def test_a_lease_that_expires_meanwhile_is_not_handed_on_before_the_end(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("worker-2")
    await new_crawl(state, backend, lease=5.0)
    await state.add(CRAWL, pages(1))
    lost = await take_one(state)
    await state.pause(CRAWL)
    await backend.advance(5.5)
    assert await take(other, 1) == []
    counts = await state.counts(CRAWL)
    assert (counts.pending, counts.leased) == (1, 0)
    await state.resume(CRAWL)
    (lease,) = await all_of(other, 1)
    assert (lease.digest, lease.receives) == (lost.digest, 2)


async def test_other_crawls_go_on(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await new_crawl(state, backend, OTHER)
    await state.add(CRAWL, pages(40))
    await state.pause(CRAWL)
    await state.add(OTHER, pages(20))
    leases = await all_of(state, 20)
    assert {lease.crawl for lease in leases} == {OTHER}
    await state.settle([(lease, done(1)) for lease in leases])
    assert await take(state, 1) == []
    assert await state.complete(OTHER)


async def test_every_handle_obeys(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("worker-2")
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    await other.settle([(await take_one(other), defer(0.0))])  # it has seen the crawl running
    await state.pause(CRAWL)
    assert await take(other, 3) == []
    await other.resume(CRAWL)
    assert len(await all_of(state, 3)) == 3


async def test_seeds_of_a_paused_crawl_wait(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.pause(CRAWL)
    assert await state.add(CRAWL, pages(5)) == [Added.NEW] * 5
    assert await take(state, 5) == []
    await state.resume(CRAWL)
    assert len(await all_of(state, 5)) == 5


async def test_a_page_whose_delay_ends_during_a_pause_comes_behind_it(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    await state.settle([(lease, defer(backend.now() + 1))])
    await state.pause(CRAWL)
    await backend.advance(2)
    assert await take(state, 1) == []
    await state.resume(CRAWL)
    assert [again.digest for again in await all_of(state, 1)] == [lease.digest]


async def test_a_complete_crawl_is_not_paused(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    await state.pause(CRAWL)
    await state.settle([(lease, done(1))])
    assert await state.complete(CRAWL)
    assert not await paused(state)
    assert not await state.pause(CRAWL)
    await state.add(CRAWL, [page("/more")])  # opens it again
    assert len(await all_of(state, 1)) == 1


async def test_a_limit_that_is_used_up_hands_out_nothing_during_a_pause(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, max_pages=1)
    await state.add(CRAWL, pages(3))
    await state.settle([(await take_one(state), done(1))])
    await state.pause(CRAWL)
    assert await take(state, 2) == []
    await state.resume(CRAWL)
    assert {lease.limit for lease in await all_of(state, 2)} == {"max-pages"}


async def test_a_sweep_leaves_a_paused_crawl_as_it_is(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    await state.pause(CRAWL)
    assert await take(state, 3) == []
    assert await state.sweep(CRAWL) == 0
    assert await take(state, 3) == []


async def test_a_purged_crawl_leaves_no_pause_behind(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    await state.pause(CRAWL)
    assert await take(state, 3) == []
    await state.purge(CRAWL)
    await new_crawl(state, backend)
    assert not await paused(state)
    await state.add(CRAWL, pages(2))
    assert len(await all_of(state, 2)) == 2


async def test_a_record_is_written_as_it_was_given(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    (record,) = await state.crawls()
    asleep = CrawlRecord(id="asleep", started_at=record.started_at, settings=record.settings, paused=True)
    assert (await state.create(asleep)).paused
    assert await paused(state, "asleep")


async def test_a_crawl_that_there_is_not_cannot_be_paused(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError, match="there is no crawl 'nowhere'"):
        await state.pause("nowhere")
    with pytest.raises(UsageError, match="there is no crawl 'nowhere'"):
        await state.resume("nowhere")
