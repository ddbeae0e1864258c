"""One gate a host for the whole state: turns are apart, nobody saves them up, and holds are obeyed."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from crawler.errors import UsageError
from crawler.model import defer, done
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, new_crawl, pages, take

SLACK = 1e-3
"""Of two starts, for arithmetic on times of ten digits."""


def apart(starts: list[float]) -> float:
    """The least distance between two turns."""
    return min(later - earlier for earlier, later in pairwise(sorted(starts)))


async def test_turns_of_one_host_are_apart_by_the_rate(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=2.0)
    await state.add(CRAWL, pages(50))
    starts: list[float] = []
    for _ in range(4):
        starts += [lease.start_at for lease in await state.claim(50)]
        await backend.advance(0.7)
    assert len(starts) >= 3
    assert apart(starts) >= 0.5 - SLACK


async def test_a_turn_is_near_when_it_is_handed_out(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(50))
    leases = await state.claim(50)
    assert 1 <= len(leases) <= 30
    assert max(lease.start_at for lease in leases) <= backend.now() + 30


@pytest.mark.case("F14")
async def test_many_workers_together_keep_the_rate(backend: Backend) -> None:
    states = [await backend.open(f"worker-{number}") for number in range(4)]
    await new_crawl(states[0], backend, rate=5.0)
    await states[0].add(CRAWL, pages(60))
    starts: list[float] = []
    for _ in range(3):
        claims = await asyncio.gather(*(state.claim(10) for state in states))
        turns = await asyncio.gather(*(state.turn(CRAWL, "a.example") for state in states))
        starts += [lease.start_at for leases in claims for lease in leases] + turns
        await backend.advance(1)
    assert apart(starts) >= 0.2 - SLACK


async def test_the_hosts_of_one_claim_do_not_wait_for_each_other(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, [page for number in range(8) for page in pages(3, f"h{number}.example")])
    leases = await take(state, 8)
    assert {lease.gate for lease in leases} == {f"h{number}.example" for number in range(8)}
    assert max(lease.start_at for lease in leases) <= backend.now() + 1


async def test_nobody_bursts_after_a_pause(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0, lease=600.0)
    await state.add(CRAWL, pages(50))
    await state.claim(50)
    await backend.advance(120)
    starts = [lease.start_at for lease in await state.claim(50)]
    assert min(starts) >= backend.now()
    assert apart([*starts, await state.turn(CRAWL, "a.example")]) >= 1 - SLACK


async def test_a_turn_is_a_place_in_the_same_row(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(10))
    starts = [await state.turn(CRAWL, "a.example") for _ in range(5)]
    assert starts == sorted(starts)
    assert starts[0] <= backend.now() + SLACK
    assert apart(starts) >= 1 - SLACK
    assert await state.claim(10) == []


async def test_a_turn_at_a_gate_that_nobody_has_seen(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    before = backend.now()
    assert before - SLACK <= await state.turn(CRAWL, "new.example") <= backend.now() + SLACK
    with pytest.raises(UsageError):
        await state.turn("nothing", "new.example")


async def test_without_a_rate_no_turn_is_needed(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.0)
    await state.add(CRAWL, pages(30))
    leases = await take(state, 30)
    assert len(leases) == 30
    assert max(lease.start_at for lease in leases) <= backend.now() + SLACK
    assert await state.turn(CRAWL, "a.example") <= backend.now() + SLACK


async def test_a_gate_s_own_interval_paces_a_crawl_without_rate(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.0)
    await state.add(CRAWL, pages(30))
    await state.hold("a.example", interval=0.5)
    starts: list[float] = []
    for _ in range(3):
        starts += [lease.start_at for lease in await state.claim(30)]
        await backend.advance(0.7)
    assert len(starts) >= 2
    assert apart(starts) >= 0.5 - SLACK


async def test_a_crawl_delay_larger_than_the_rate_s_interval_counts(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=10.0)
    await state.hold("a.example", interval=3.0)
    starts = [await state.turn(CRAWL, "a.example") for _ in range(4)]
    assert apart(starts) >= 3 - SLACK


async def test_an_interval_shorter_than_the_rate_s_counts_for_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.5)
    await state.hold("a.example", interval=0.1)
    assert apart([await state.turn(CRAWL, "a.example") for _ in range(4)]) >= 2 - SLACK


async def test_an_interval_is_replaced_and_removed(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.hold("a.example", interval=30.0)
    await state.turn(CRAWL, "a.example")
    await state.hold("a.example", interval=0.0)
    await backend.advance(31)
    starts = [await state.turn(CRAWL, "a.example") for _ in range(3)]
    assert starts == pytest.approx([backend.now(), backend.now() + 1, backend.now() + 2])


async def test_a_held_gate_lets_nobody_through_until_then(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.0)
    await state.add(CRAWL, pages(5) + pages(1, "b.example"))
    until = backend.now() + 4
    await state.hold("a.example", until=until)
    assert {lease.gate for lease in await take(state, 6)} == {"b.example"}
    assert await state.turn(CRAWL, "a.example") >= until - SLACK
    await backend.advance(5)
    assert [lease.start_at >= until for lease in await take(state, 5)] == [True] * 5


async def test_a_hold_is_never_lowered(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    until = backend.now() + 500
    await state.hold("a.example", until=until)
    await state.hold("a.example", until=until - 400)
    await state.hold("a.example", interval=1.0)
    assert await state.turn(CRAWL, "a.example") >= until - SLACK


async def test_a_hold_repeated_after_a_lost_reply_does_no_harm(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    until = backend.now() + 50
    for _ in range(3):
        await state.hold("a.example", until=until, interval=2.0)
    first, second = [await state.turn(CRAWL, "a.example") for _ in range(2)]
    assert first == pytest.approx(until, abs=0.1)
    assert second == pytest.approx(until + 2, abs=0.1)


async def test_crawls_share_a_gate(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "one", rate=1.0)
    await new_crawl(state, backend, "two", rate=1.0)
    await state.add("one", pages(20))
    await state.add("two", pages(20))
    starts: list[float] = []
    for _ in range(4):
        starts += [lease.start_at for lease in await state.claim(10)]
        starts.append(await state.turn("two", "a.example"))
        await backend.advance(1)
    assert apart(starts) >= 1 - SLACK


async def test_pages_given_back_do_not_give_their_turn_back(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(2))
    starts: list[float] = []
    for _ in range(3):
        leases = await state.claim(1)
        starts += [lease.start_at for lease in leases]
        await state.settle([(lease, defer(0)) for lease in leases])
        await backend.advance(0.8)
    assert apart(starts) >= 1 - SLACK


async def test_a_gate_opens_for_each_crawl_behind_it(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, "one", rate=1.0)
    await new_crawl(state, backend, "two", rate=1.0)
    await state.add("one", pages(10))
    await state.add("two", pages(10))
    served = []
    for _ in range(20):
        leases = await state.claim(1)
        served += [lease.crawl for lease in leases]
        await state.settle([(lease, done()) for lease in leases])
        await backend.advance(1)
    assert (served.count("one"), served.count("two")) == (10, 10)
