"""Requests in flight at one host: no turn is taken at a gate that is full of them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from crawler.config import CrawlSettings
from crawler.model import Health, Lease, done
from crawler.state.port import CrawlState
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, new_crawl, pages, take

PROMPT = Health(prompt=True)


async def first(state: CrawlState, backend: Backend, within: float, crawl: str | None = None) -> Lease:
    """One lease, that comes within so many seconds."""
    end = backend.now() + within
    while not (leases := await state.claim(1, crawl)):
        assert backend.now() < end
        await backend.advance(0.1)
    return leases[0]


async def crowd(state: CrawlState, count: int, until: float, gate: str = "a.example") -> list[str]:
    """Report `count` requests that take long; their names."""
    flights = [f"worker-9/{number}" for number in range(count)]
    for flight in flights:
        await state.occupy(gate, flight, until)
    return flights


@pytest.mark.parametrize("health", [Health(), PROMPT], ids=["unknown", "prompt"])
async def test_no_turn_is_taken_at_a_gate_that_is_full(backend: Backend, health: Health) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend, rate=1.0, in_flight_per_host=3)
    await state.add(CRAWL, pages(9) + pages(1, "b.example"))
    await state.diagnose("a.example", health)
    flights = await crowd(other, 3, backend.now() + 60)
    assert {lease.gate for lease in await take(state, 10)} == {"b.example"}
    await other.occupy("a.example", flights[1], 0)
    assert (await first(state, backend, 3)).gate == "a.example"


async def test_requests_count_until_their_time_should_nobody_tell_their_end(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(9))
    await state.diagnose("a.example", PROMPT)
    until = backend.now() + 3
    await crowd(state, 2, until)
    assert await state.claim(9) == []
    await first(state, backend, 6)
    assert backend.now() >= until


async def test_one_that_is_told_again_counts_once_and_longer(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(9))
    await state.diagnose("a.example", PROMPT)
    for _ in range(3):
        await crowd(state, 1, backend.now() + 60)
    await first(state, backend, 1)
    await state.occupy("a.example", "short", backend.now() + 1)
    await state.occupy("a.example", "short", backend.now() + 60)
    await backend.advance(2)
    assert await state.claim(9) == []


async def test_the_end_of_a_request_may_be_told_twice_and_for_one_that_nobody_knows(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(9))
    await state.diagnose("a.example", PROMPT)
    await state.occupy("new.example", "unknown", 0)
    one, _ = await crowd(state, 2, backend.now() + 60)
    for flight in (one, one, "unknown"):
        await state.occupy("a.example", flight, 0)
    await first(state, backend, 1)
    await crowd(state, 2, backend.now() + 60)
    await backend.advance(1.1)
    assert await state.claim(9) == []


async def test_a_crawl_without_a_rate_has_no_cap(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.0, in_flight_per_host=1)
    await state.add(CRAWL, pages(9))
    await crowd(state, 5, backend.now() + 60)
    assert len(await take(state, 9)) == 9


async def test_each_crawl_has_its_own_cap(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "one", rate=1.0, in_flight_per_host=1)
    await new_crawl(state, backend, "two", rate=1.0, in_flight_per_host=3)
    await state.add("one", pages(3))
    await state.add("two", pages(3))
    await state.diagnose("a.example", PROMPT)
    (flight,) = await crowd(state, 1, backend.now() + 60)
    for _ in range(2):
        assert (await first(state, backend, 3)).crawl == "two"
        await backend.advance(1)
    assert await state.claim(3, "one") == []
    await state.occupy("a.example", flight, 0)
    assert (await first(state, backend, 3, "one")).crawl == "one"


async def test_a_full_gate_lets_a_turn_through_that_is_asked_for(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await crowd(state, 2, backend.now() + 60)
    asked = backend.now()
    assert await state.turn(CRAWL, "a.example") == pytest.approx(asked, abs=1)
    assert await state.turn(CRAWL, "a.example") == pytest.approx(asked + 1, abs=1)


async def test_a_held_gate_that_is_freed_stays_held(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3))
    flights = await crowd(state, 2, backend.now() + 60)
    await state.hold("a.example", until=backend.now() + 50)
    for flight in flights:
        await state.occupy("a.example", flight, 0)
    assert await take(state, 3) == []


# ---------------------------------------------------------------- turns of late, which may take long


async def test_turns_of_late_count_like_requests(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=4.0)
    await state.add(CRAWL, pages(60))
    starts: list[float] = []
    for _ in range(8):
        starts += [lease.start_at for lease in await state.claim(60)]
        assert len([start for start in starts if start > backend.now() - 0.1875]) <= 2
        await backend.advance(0.1)
    assert len(starts) >= 3


async def test_turns_of_late_and_requests_add_up(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=10.0, in_flight_per_host=3)
    await state.add(CRAWL, pages(60))
    await crowd(state, 1, backend.now() + 60)
    assert len(await state.claim(60)) == 2
    assert await state.claim(60) == []
    await backend.advance(0.076)  # the first is older than three quarters of an interval
    assert len(await state.claim(60)) == 1
    await state.occupy("a.example", "another", backend.now() + 60)
    await backend.advance(0.1)  # still younger: the one whose turn is ahead
    assert await state.claim(60) == []
    await backend.advance(0.1)
    assert len(await state.claim(60)) == 1


async def test_turns_of_robots_and_redirects_are_turns_of_late(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=10.0)
    await state.add(CRAWL, pages(60))
    for _ in range(2):
        await state.turn(CRAWL, "a.example")
    assert await state.claim(60) == []
    await backend.advance(0.08)
    assert len(await state.claim(60)) == 1


async def test_turns_at_a_prompt_host_may_be_taken_ahead(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, rate=10.0)
    await state.add(CRAWL, pages(60))
    await state.diagnose("a.example", PROMPT)
    assert len(await state.claim(60)) > 2


async def test_a_host_that_is_prompt_no_more_gives_no_turn_ahead(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=10.0)
    await state.add(CRAWL, pages(60))
    await state.diagnose("a.example", PROMPT)
    ahead = max(lease.start_at for lease in await state.claim(5))
    await state.diagnose("a.example", Health())
    assert await state.claim(60) == []
    await backend.advance(ahead - 0.02 - backend.now())  # all but the last are older than three quarters of an interval
    assert len(await state.claim(60)) == 1


@pytest.mark.parametrize("rate", [0.5, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("cap", [1, 2])
async def test_the_cap_costs_a_host_nothing_of_its_rate(backend: Backend, rate: float, cap: int) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=rate, in_flight_per_host=cap)
    await state.add(CRAWL, pages(100))
    began = backend.now()
    starts: list[float] = []
    while len(starts) < 40:
        leases = await state.claim(10)
        starts += [lease.start_at for lease in leases]
        await state.settle([(lease, done(1)) for lease in leases])
        await backend.advance(0.05 / rate)
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 1 / rate - 1e-3
    # With a single request in flight a turn is seen to be free a moment late, once; then never again.
    assert starts[-1] - began <= 40 / rate


async def test_many_workers_together_fill_a_gate_and_no_more(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    states = [await backend.open(f"worker-{number}") for number in range(4)]
    await new_crawl(states[0], backend, rate=10.0, in_flight_per_host=3)
    await states[0].add(CRAWL, pages(60))
    claims = await asyncio.gather(*(state.claim(10) for state in states))
    assert sum(len(leases) for leases in claims) == 3


async def test_a_cap_that_is_raised_lets_more_in(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0, in_flight_per_host=1)
    await state.add(CRAWL, pages(5))
    await state.diagnose("a.example", PROMPT)
    await crowd(state, 1, backend.now() + 600)
    assert await state.claim(5) == []
    await state.amend(CRAWL, CrawlSettings(rate=1.0, in_flight_per_host=2))
    await backend.advance(30)
    assert len(await state.claim(1)) == 1
