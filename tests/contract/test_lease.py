"""What leases owe: one holder a page, nothing lost when the holder dies, and no settlement that counts twice."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import UsageError
from crawler.model import Settled, dead, defer, done, retry, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, new_crawl, page, pages, paths, take, take_one

LEASE = 5.0
"""The shortest lease that settings allow."""


async def test_two_workers_never_hold_the_same_page(backend: Backend) -> None:
    needs(backend, Difference.DUPLICATE_LEASE)
    one, two = await backend.open("one"), await backend.open("two")
    await new_crawl(one, backend)
    await one.add(CRAWL, [page for host in "abcde" for page in pages(20, f"{host}.example")])
    claims = await asyncio.gather(*(state.claim(7) for state in (one, two) * 8))
    urls = [lease.url for leases in claims for lease in leases]
    assert len(urls) == len(set(urls)) == 100


async def test_each_page_is_handed_out_once_while_its_lease_lives(backend: Backend) -> None:
    needs(backend, Difference.DUPLICATE_LEASE)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(10))
    first = await take(state, 10)
    assert len({lease.digest for lease in first}) == 10
    assert await take(state, 10) == []


async def test_a_lease_says_how_long_it_lasts(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, lease=60.0)
    await state.add(CRAWL, pages(1))
    before = backend.now()
    lease = await take_one(state)
    assert before + 59 <= lease.expires_at <= backend.now() + 61
    assert (lease.attempt, lease.receives, lease.limit) == (1, 1, "")


async def test_claiming_nothing_from_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    assert await state.claim(10) == []
    assert await state.settle([]) == []
    assert await state.extend([]) == []


async def test_an_expired_lease_comes_back_and_says_so(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, lease=LEASE)
    await state.add(CRAWL, pages(1))
    first = await take_one(state)
    await backend.advance(LEASE + 1)
    second = await take_one(state)
    assert (second.digest, second.receives, second.attempt) == (first.digest, 2, 1)
    assert second.token != first.token


async def test_expired_leases_come_back_first(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, lease=LEASE)
    await state.add(CRAWL, [page("/deep", depth=5)])
    await take_one(state)
    await state.add(CRAWL, pages(3))
    await backend.advance(LEASE + 1)
    assert paths(await state.claim(2)) == ["a.example/deep", "a.example/0"]


@pytest.mark.case("F01", "F12")
async def test_a_late_settlement_changes_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, lease=LEASE)
    await state.add(CRAWL, pages(1))
    late = await take_one(state)
    await backend.advance(LEASE + 1)
    now_held = await take_one(state)
    for verdict in (done(1), skipped("robots"), dead("dns", "no such host"), retry(0, "dns", ""), defer(0)):
        assert await state.settle([(late, verdict)]) == [Settled.LOST]
    assert await state.extend([late]) == [Settled.LOST]
    assert await state.settle([(now_held, skipped("robots"))]) == [Settled.SETTLED]
    assert await state.settle([(late, done(1))]) == [Settled.LOST]
    assert [(line.phase.value, line.reason) async for line in state.ledger(CRAWL)] == [("skipped", "robots")]


async def test_settling_again_after_a_lost_reply_does_no_harm(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(2))
    endings = [(lease, done(100)) for lease in await take(state, 2)]
    assert await state.settle(endings) == [Settled.SETTLED] * 2
    assert await state.settle(endings) == [Settled.LOST] * 2
    assert [line.phase.value async for line in state.ledger(CRAWL)] == ["done", "done"]


async def test_a_retry_repeated_after_a_lost_reply_counts_one_attempt(backend: Backend) -> None:
    needs(backend, Difference.DUPLICATE_LEASE)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    failed = [(lease, retry(0, "connect", "refused"))]
    assert await state.settle(failed) == [Settled.SETTLED]
    assert await state.settle(failed) == [Settled.LOST]
    assert (await take_one(state)).attempt == 2
    assert await take(state, 1) == []


async def test_the_same_lease_twice_in_one_call_settles_once(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    assert await state.settle([(lease, done(5)), (lease, done(5))]) == [Settled.SETTLED, Settled.LOST]
    assert (await state.counts(CRAWL)).bytes == 5


async def test_answers_of_settle_come_in_input_order(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(12))
    leases = await take(state, 12)
    await state.settle([(lease, done()) for lease in leases[::3]])
    answers = await state.settle([(lease, done()) for lease in leases])
    assert answers == [Settled.LOST, Settled.SETTLED, Settled.SETTLED] * 4


async def test_retry_counts_an_attempt_and_defer_gives_it_back(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    attempts = []
    for verdict in (retry(0, "dns", ""), defer(0), retry(0, "dns", ""), defer(0), done()):
        lease = await take_one(state)
        attempts.append((lease.attempt, lease.receives))
        await state.settle([(lease, verdict)])
    assert attempts == [(1, 1), (2, 1), (2, 1), (3, 1), (3, 1)]


async def test_a_page_whose_links_may_be_recorded_comes_again_as_after_a_crash(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    seen = []
    for verdict in (defer(0, again=True), defer(backend.now() + 2, again=True), defer(0), done()):
        await backend.advance(3)
        lease = await take_one(state)
        seen.append((lease.attempt, lease.receives))
        await state.settle([(lease, verdict)])
    assert seen == [(1, 1), (1, 2), (1, 2), (1, 1)]


async def test_a_delayed_page_waits_for_its_time(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(2))
    one, two = await take(state, 2)
    at = backend.now() + 4
    await state.settle([(one, retry(at, "connect", "refused")), (two, defer(at))])
    assert await state.claim(2) == []
    assert not await state.complete(CRAWL)
    await backend.advance(5)
    assert {lease.url: lease.attempt for lease in await take(state, 2)} == {one.url: 2, two.url: 1}


@pytest.mark.case("F01")
async def test_a_heartbeat_keeps_a_lease(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, lease=LEASE)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    for _ in range(2):
        await backend.advance(LEASE - 2)
        assert await state.extend([lease]) == [Settled.SETTLED]
    assert await state.claim(1) == []
    assert await state.settle([(lease, done())]) == [Settled.SETTLED]
    assert await state.extend([lease]) == [Settled.LOST]


async def test_a_claim_for_one_crawl_leaves_the_others_alone(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "one", lease=60.0)
    await new_crawl(state, backend, "two", lease=60.0)
    await state.add("one", pages(3))
    await state.add("two", pages(3))
    assert {lease.crawl for lease in await take(state, 6, "two")} == {"two"}
    assert {lease.crawl for lease in await take(state, 6)} == {"one"}
    with pytest.raises(UsageError):
        await state.claim(1, "three")


async def test_a_known_dead_worker_s_leases_are_given_back_at_once(backend: Backend) -> None:
    needs(backend, Difference.NO_RELEASE)
    gone, other = await backend.open("gone"), await backend.open("other")
    await new_crawl(gone, backend)
    await gone.add(CRAWL, pages(6))
    lost = await take(gone, 3)
    kept = await take(other, 2)
    assert await other.release("gone") == 3
    assert await other.release("gone") == 0
    back = await take(other, 4)
    assert [lease.receives for lease in back] == [2, 2, 2, 1]
    assert {lease.url for lease in back[:3]} == {lease.url for lease in lost}
    assert await gone.settle([(lost[0], done())]) == [Settled.LOST]
    assert await other.settle([(lease, done()) for lease in kept]) == [Settled.SETTLED] * 2


async def test_words_that_no_column_can_hold_are_written_all_the_same(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    assert await state.settle([(lease, dead("protocol", "bad header: caf\udce9 \x00\x07"))]) == [Settled.SETTLED]
    assert [line.reason async for line in state.ledger(CRAWL)] == ["protocol"]


async def test_a_cancelled_claim_leaves_nothing_leased(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(5))
    claim = asyncio.ensure_future(state.claim(5))
    await asyncio.sleep(0)
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    assert [(lease.attempt, lease.receives) for lease in await take(state, 5)] == [(1, 1)] * 5
