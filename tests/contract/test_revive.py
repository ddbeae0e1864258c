"""Dead pages made alive again."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import UsageError
from crawler.model import Lease, Phase, Settled, dead, done, retry, skipped
from crawler.state.port import CrawlState
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, digest, lines, new_crawl, page, pages, take, take_one


async def given_up(state: CrawlState, count: int = 1) -> list[Lease]:
    """Add `count` pages and let them die."""
    await state.add(CRAWL, pages(count))
    leases = await take(state, count)
    assert len(leases) == count
    answers = await state.settle([(lease, dead("connect", "connection refused")) for lease in leases])
    assert answers == [Settled.SETTLED] * count
    return leases


async def test_only_dead_pages_are_revived(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(5))
    fetched, left_out, failed, held = await take(state, 4)
    await state.settle([(fetched, done(1)), (left_out, skipped("robots")), (failed, dead("dns", "no such host"))])
    before = await lines(state)
    asked = [*before, digest("http://nowhere.example/")]
    answers = await state.revive(CRAWL, [(each, 0.0) for each in asked])
    assert answers == [each == failed.digest for each in asked]
    after = await lines(state)
    assert {each for each in asked if before.get(each) != after.get(each)} == {failed.digest}
    assert after[failed.digest].phase is Phase.PENDING
    assert await state.settle([(held, done(1))]) == [Settled.SETTLED]


async def test_a_page_is_revived_once(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    (lease,) = await given_up(state)
    assert await state.revive(CRAWL, [(lease.digest, 0.0)] * 2) == [True, False]
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [False]
    assert [again.digest for again in await take(state, 3)] == [lease.digest]
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [False]


async def test_of_many_who_revive_one_page_exactly_one_is_told_so(backend: Backend) -> None:
    states = [await backend.open() if number == 0 else await backend.open(f"worker-{number}") for number in range(4)]
    await new_crawl(states[0], backend)
    leases = await given_up(states[0], 12)
    asked = [(lease.digest, 0.0) for lease in leases]
    answers = await asyncio.gather(*(states[number % 4].revive(CRAWL, asked) for number in range(8)))
    assert [each.count(True) for each in zip(*answers, strict=True)] == [1] * 12
    assert len(await take(states[0], 13)) == 12


async def test_a_page_that_many_revive_is_finished_once(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    leases = await given_up(state, 5)
    answers = await asyncio.gather(*(state.revive(CRAWL, [(lease.digest, 0.0) for lease in leases]) for _ in range(4)))
    assert all(any(each) for each in zip(*answers, strict=True))
    finished = []
    while found := await take(state, 20):
        settled = await state.settle([(lease, done(1)) for lease in found])
        finished += [lease.digest for lease, answer in zip(found, settled, strict=True) if answer is Settled.SETTLED]
    assert sorted(finished) == sorted(lease.digest for lease in leases)
    assert await state.complete(CRAWL)


async def test_a_revived_page_has_all_its_attempts_again_and_its_history_still(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), retry(0, "dns", "no such host"))])
    lease = await take_one(state)
    await state.settle([(lease, dead("connect", "connection refused"))])
    await state.revive(CRAWL, [(lease.digest, 0.0)])
    line = (await lines(state))[lease.digest]
    assert (line.phase, line.reason, line.error) == (Phase.PENDING, "", "")
    assert [failure.reason for failure in line.failures] == ["dns", "connect"]
    again = await take_one(state)
    assert (again.url, again.depth, again.priority, again.parent_url) == (lease.url, 0, lease.priority, "")
    assert (again.attempt, again.receives) == (1, 1)
    await state.settle([(again, retry(0, "timeout", "no answer"))])
    last = await take_one(state)
    assert last.attempt == 2
    await state.settle([(last, done(1))])
    reasons = [failure.reason for failure in (await lines(state))[lease.digest].failures]
    assert reasons == ["dns", "connect", "timeout"]


async def test_a_revived_page_waits_for_its_time(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    now_due, later = await given_up(state, 2)
    at = backend.now() + 4
    assert await state.revive(CRAWL, [(later.digest, at), (now_due.digest, 0.0)]) == [True, True]
    assert (await lines(state))[later.digest].phase is Phase.PENDING
    (lease,) = await take(state, 2)
    assert lease.digest == now_due.digest
    await state.settle([(lease, done(1))])
    assert not await state.complete(CRAWL)
    await backend.advance(max(0.0, at - backend.now()) + 1)
    assert [lease.digest for lease in await take(state, 2)] == [later.digest]


async def test_a_revived_page_opens_a_complete_crawl_again(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    (lease,) = await given_up(state)
    assert await state.complete(CRAWL)
    assert await state.revive(CRAWL, [(page("/never-seen").digest, 0.0)]) == [False]
    assert (await state.crawls())[0].completed_at is not None
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [True]
    assert (await state.crawls())[0].completed_at is None
    assert not await state.complete(CRAWL)
    assert await state.settle([(await take_one(state), done(1))]) == [Settled.SETTLED]
    assert await state.complete(CRAWL)


async def test_the_lease_a_page_died_under_is_lost_when_it_is_revived(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    (old,) = await given_up(state)
    await state.revive(CRAWL, [(old.digest, 0.0)])
    assert await state.settle([(old, done(1))]) == [Settled.LOST]
    new = await take_one(state)
    assert await state.settle([(old, done(1)), (new, skipped("robots"))]) == [Settled.LOST, Settled.SETTLED]
    assert await state.extend([old]) == [Settled.LOST]


async def test_the_sums_follow_a_revival(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend)
    leases = await given_up(state, 3)
    await state.revive(CRAWL, [(leases[0].digest, 0.0), (leases[1].digest, backend.now() + 60)])
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.pending, counts.dead, counts.leased) == (3, 2, 1, 0)


@pytest.mark.parametrize("size", [0, 11, 101])
async def test_many_pages_are_revived_at_once(backend: Backend, size: int) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    leases = await given_up(state, size)
    assert await state.revive(CRAWL, [(lease.digest, 0.0) for lease in leases]) == [True] * size
    again = await take(state, size)
    assert {lease.digest for lease in again} == {lease.digest for lease in leases}


async def test_reviving_in_an_unknown_crawl_is_a_usage_error(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError):
        await state.revive("nothing", [(page().digest, 0.0)])
