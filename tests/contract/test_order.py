"""The order of claims: priority, depth, first found; hosts in turn; the crawl's limits at the end."""

from __future__ import annotations

import pytest

from crawler.model import LOWEST, Priority, Settled, done, retry, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, new_crawl, page, pages, parent, paths, take, take_one


async def test_the_better_priority_comes_first(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        await state.add(CRAWL, pages(3, f"{priority.name.lower()}.example", priority=priority))
    leases = await take(state, 9)
    assert [lease.priority for lease in leases] == sorted([Priority.HIGH, Priority.NORMAL, Priority.LOW] * 3)


async def test_every_step_of_the_scale_has_its_place(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    for step in range(LOWEST + 1):
        place = step * 8 % (LOWEST + 1)  # each once, in no order; the better the deeper
        seed = page(f"/{place}", f"h{step % 3}.example", priority=place, depth=100_000 - place)
        await state.add(CRAWL, [seed])
    leases = await state.claim(5) + await state.claim(1) + await state.claim(40)
    assert [lease.priority for lease in leases] == list(range(LOWEST + 1))
    assert [lease.depth for lease in leases] == [100_000 - place for place in range(LOWEST + 1)]


async def test_a_priority_between_the_words_is_kept(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, [page(f"/{place}", priority=place) for place in range(LOWEST + 1)])
    leases = await take(state, LOWEST + 1)
    assert {lease.url: lease.priority for lease in leases} == {
        page(f"/{place}").url: place for place in range(LOWEST + 1)
    }
    await state.settle([(lease, retry(0, "timeout", "")) for lease in leases])
    again = await take(state, LOWEST + 1)
    assert sorted(lease.priority for lease in again) == list(range(LOWEST + 1))


async def test_an_expired_lease_of_the_lowest_priority_comes_before_all_others(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, lease=5.0)
    await state.add(CRAWL, [page("/last", depth=9, priority=LOWEST)])
    await take_one(state)
    await state.add(CRAWL, [page("/first", priority=0)])
    await backend.advance(6)
    assert paths(await state.claim(2)) == ["a.example/last", "a.example/first"]


async def test_of_one_priority_the_lower_depth_comes_first_then_the_first_found(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/seed")
    await state.add(CRAWL, [seed])
    await state.settle([(await take_one(state), done())])
    for path, depth, priority in (
        ("/deep", 3, Priority.NORMAL),
        ("/b", 1, Priority.NORMAL),
        ("/a", 1, Priority.NORMAL),
        ("/low", 0, Priority.LOW),
        ("/high", 9, Priority.HIGH),
        ("/c", 1, Priority.NORMAL),
    ):
        await state.add(CRAWL, [page(path, parent=parent(seed), depth=depth, priority=priority)])
    leases = await state.claim(4) + await state.claim(4)
    assert [lease.url.rpartition("/")[2] for lease in leases] == ["high", "b", "a", "c", "deep", "low"]
    assert [lease.depth for lease in leases] == [9, 1, 1, 1, 3, 0]


async def test_better_pages_of_another_host_come_before_the_rest_of_this_one(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3, "a.example", depth=1))
    await state.add(CRAWL, [page("/x", "b.example", depth=2), page("/y", "b.example", depth=0)])
    assert paths(await state.claim(5)) == [
        "b.example/y",
        "a.example/0",
        "a.example/1",
        "a.example/2",
        "b.example/x",
    ]


async def test_hosts_take_turns(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(100, "big.example"))
    await state.add(CRAWL, pages(4, "small.example"))
    await state.add(CRAWL, pages(4, "tiny.example"))
    gates = [lease.gate for lease in await state.claim(12)]
    assert sorted(gates) == ["big.example"] * 4 + ["small.example"] * 4 + ["tiny.example"] * 4
    assert {lease.gate for lease in await state.claim(10)} == {"big.example"}


async def test_the_host_served_longest_ago_is_next(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend)
    for host in "abc":
        await state.add(CRAWL, pages(5, f"{host}.example"))
    turns = [(await state.claim(1))[0].gate[0] for _ in range(9)]
    assert len(set(turns[:3])) == 3
    assert turns == turns[:3] * 3


async def test_crawls_take_turns(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    for name in ("one", "two"):
        await new_crawl(state, backend, name)
        await state.add(name, pages(10, f"{name}.example"))
    assert [lease.crawl for lease in await state.claim(10)].count("one") == 5


async def test_a_page_tried_again_keeps_its_priority_and_depth(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, lease=5.0)
    await state.add(CRAWL, [page("/", depth=4, priority=Priority.LOW)])
    lease = await take_one(state)
    await state.settle([(lease, retry(0, "timeout", ""))])
    await take_one(state)
    await backend.advance(6)
    again = await take_one(state)
    assert (again.depth, again.priority, again.attempt, again.receives) == (4, Priority.LOW, 2, 2)


async def test_a_page_that_came_back_and_failed_has_no_precedence_left(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, lease=5.0)
    await state.add(CRAWL, [page("/deep", depth=3)])
    await take_one(state)
    await backend.advance(6)
    await state.settle([(await take_one(state), retry(0, "timeout", ""))])
    await state.add(CRAWL, pages(1))
    assert paths(await state.claim(2)) == ["a.example/0", "a.example/deep"]


async def test_hosts_that_wait_hide_none_that_need_not(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1)
    for number in range(20):
        await state.add(CRAWL, pages(3, f"h{number}.example", priority=Priority.HIGH))
    assert len(await state.claim(40)) == 20
    await state.add(CRAWL, [page("/", "late.example", priority=Priority.LOW)])
    assert paths(await state.claim(2)) == ["late.example/"]


async def test_no_more_pages_than_the_limit_are_answered(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend, max_pages=5)
    await state.add(CRAWL, pages(9))
    first = await state.claim(9)
    assert len(first) == 5
    assert await state.claim(9) == []
    assert [lease.limit for lease in first] == [""] * 5
    await state.settle([(first[0], skipped("robots")), *((lease, done()) for lease in first[1:])])
    (fifth,) = await state.claim(9)
    assert fifth.limit == ""
    await state.settle([(fifth, done())])
    rest = await state.claim(9)
    assert [lease.limit for lease in rest] == ["max-pages"] * 3
    await state.settle([(lease, skipped("limit")) for lease in rest])
    counts = await state.counts(CRAWL)
    assert (counts.done, counts.skipped) == (5, 4)
    assert await state.complete(CRAWL)


async def test_a_page_limit_that_is_used_up_hands_the_rest_out_marked(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, max_pages=1)
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), done())])
    await state.add(CRAWL, pages(4))
    rest = await take(state, 3)
    assert [lease.limit for lease in rest] == ["max-pages"] * 3
    assert await state.settle([(lease, skipped("limit")) for lease in rest]) == [Settled.SETTLED] * 3
    assert await state.complete(CRAWL)


async def test_a_time_limit_that_is_used_up_hands_the_rest_out_without_waiting_for_gates(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, max_time=3.0, rate=0.1)
    await state.add(CRAWL, pages(4))
    await state.hold("a.example", until=backend.now() + 1000)
    assert await state.claim(4) == []
    await backend.advance(4)
    leases = await take(state, 4)
    assert [lease.limit for lease in leases] == ["max-time"] * 4
    assert max(lease.start_at for lease in leases) <= backend.now() + 1


async def test_a_used_up_limit_does_not_wait_for_delayed_pages(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, max_time=3.0)
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), retry(backend.now() + 900, "connect", "refused"))])
    await backend.advance(4)
    assert (await take_one(state)).limit == "max-time"


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_a_claim_is_never_larger_than_asked(backend: Backend, limit: int) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(5) + pages(5, "b.example"))
    assert len(await state.claim(limit)) <= limit
