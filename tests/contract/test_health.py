"""How a host is doing: told with every lease, obeyed by its gate, and the end of all patience."""

from __future__ import annotations

from itertools import pairwise

import pytest

from crawler.model import HOST_DOWN, WELL, Health, Lease, Priority, Settled, Why, dead, done
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, hosts, lines, new_crawl, page, pages, take, take_one

SLACK = 1e-3
"""Of two starts, for arithmetic on times of ten digits."""

POORLY = Health(gap=3.0, why=Why.BACKOFF, prompt=False, failures=2, error="connection refused")


def apart(starts: list[float]) -> float:
    return min(later - earlier for earlier, later in pairwise(sorted(starts)))


def limits(leases: list[Lease]) -> list[str]:
    return [lease.limit for lease in leases]


async def test_of_a_host_nobody_knows_nothing_is_told(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=4.0)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    assert (lease.health, lease.interval) == (WELL, 0.25)


async def test_a_lease_tells_the_health_that_was_written_last(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend, "one", rate=1.0)
    await new_crawl(state, backend, "two", rate=0.0)
    await state.add("one", pages(1) + pages(1, "b.example"))
    await state.add("two", pages(1))
    await other.diagnose("a.example", Health(gap=40.0, prompt=True, failures=7))
    await state.diagnose("a.example", POORLY)
    told = {lease.gate: (lease.health, lease.interval) for lease in await take(other, 2, "one")}
    assert told == {"a.example": (POORLY, 3.0), "b.example": (WELL, 1.0)}
    await backend.advance(4)
    assert (await take_one(state, "two")).health == POORLY
    await state.diagnose("a.example", WELL)
    await state.add("two", [page("/more")])
    await backend.advance(4)
    lease = await take_one(other, "two")
    assert (lease.health, lease.interval) == (WELL, 0.0)


async def test_a_lease_tells_the_longest_of_the_intervals(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.5)
    for host, crawl_delay, gap in (("a", 0.5, 1.0), ("b", 6.0, 3.0), ("c", 3.0, 6.0)):
        await state.add(CRAWL, pages(1, host))
        await state.hold(host, interval=crawl_delay)
        await state.diagnose(host, Health(gap=gap))
    leases = await take(state, 3)
    assert {lease.gate: lease.interval for lease in leases} == {"a": 2.0, "b": 6.0, "c": 6.0}


@pytest.mark.parametrize("rate", [0.0, 10.0])
async def test_turns_are_apart_by_the_gap_that_a_host_needs(backend: Backend, rate: float) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=rate)
    await state.diagnose("a.example", POORLY)
    assert apart([await state.turn(CRAWL, "a.example") for _ in range(4)]) >= 3 - SLACK


async def test_a_longer_gap_counts_from_the_latest_turn_on(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    first = await state.turn(CRAWL, "a.example")
    for _ in range(2):  # as after a lost reply
        await state.diagnose("a.example", Health(gap=5.0))
    assert await state.turn(CRAWL, "a.example") == pytest.approx(first + 5, abs=0.1)


async def test_a_gap_shorter_than_the_crawl_s_interval_counts_for_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.5)
    await state.diagnose("a.example", Health(gap=0.1))
    assert apart([await state.turn(CRAWL, "a.example") for _ in range(4)]) >= 2 - SLACK


async def test_a_host_that_is_well_again_is_asked_at_the_crawl_s_rate(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.diagnose("a.example", Health(gap=30.0))
    await state.turn(CRAWL, "a.example")
    await state.diagnose("a.example", WELL)
    await backend.advance(31)
    starts = [await state.turn(CRAWL, "a.example") for _ in range(3)]
    assert starts == pytest.approx([backend.now(), backend.now() + 1, backend.now() + 2])


async def test_health_outlives_a_crawl(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    await state.diagnose("a.example", POORLY)
    await state.purge(CRAWL)
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    assert (await take_one(state)).health == POORLY


@pytest.mark.parametrize("error", ["caf\udce9", "a\x00b", "e" * 200, "\U0001f40d\uffff"])
async def test_an_error_of_any_characters_is_written(backend: Backend, error: str) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    await state.diagnose("a.example", Health(failures=1, error=error))
    lease = await take_one(state)
    assert lease.health.failures == 1
    assert lease.health.error[0] == error[0]
    assert lease.health.error.encode().decode() == lease.health.error


# ---------------------------------------------------------------- hosts that are down


@pytest.mark.parametrize("rate", [0.0, 0.1])
async def test_the_pages_of_a_host_that_is_down_come_at_once_to_be_given_up(backend: Backend, rate: float) -> None:
    if rate:
        needs(backend, Difference.DELAYED)
    state = await backend.open()
    await new_crawl(state, backend, rate=rate)
    await state.add(CRAWL, pages(6) + pages(1, "b.example"))
    await state.hold("a.example", until=backend.now() + 1000, interval=500.0)
    down = Health(gap=60.0, failures=9, error="no route", down_until=backend.now() + 500)
    await state.diagnose("a.example", down)
    leases = await take(state, 7)
    assert len(leases) == 7
    given_up = [lease for lease in leases if lease.gate == "a.example"]
    assert limits(given_up) == [HOST_DOWN] * 6
    assert [lease.health for lease in given_up] == [down] * 6
    assert max(lease.start_at for lease in given_up) <= backend.now() + 1
    (other,) = [lease for lease in leases if lease.gate == "b.example"]
    assert other.limit == ""
    endings = [(lease, dead(HOST_DOWN, lease.health.error)) for lease in given_up]
    assert await state.settle([*endings, (other, done(1))]) == [Settled.SETTLED] * 7
    assert await state.complete(CRAWL)
    reasons = {line.reason for line in (await lines(state)).values() if line.gate == "a.example"}
    assert reasons == {HOST_DOWN}


async def test_pages_that_are_given_up_take_no_turn(backend: Backend) -> None:
    needs(backend, Difference.DELAYED)
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1)
    await state.add(CRAWL, pages(3))
    await state.diagnose("a.example", Health(down_until=backend.now() + 500))
    assert limits(await take(state, 3)) == [HOST_DOWN] * 3
    await state.diagnose("a.example", WELL)
    assert await state.turn(CRAWL, "a.example") <= backend.now() + SLACK


async def test_a_host_is_tried_again_when_it_is_down_no_more(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3))
    until = backend.now() + 3
    await state.diagnose("a.example", Health(failures=9, down_until=until))
    assert limits(await take(state, 1)) == [HOST_DOWN]
    await backend.advance(4)
    (lease,) = await take(state, 1)
    assert (lease.limit, lease.health.failures) == ("", 9)
    assert (await hosts(state))["a.example"].why is not Why.DOWN


async def test_hosts_that_are_down_no_more_hide_none_that_need_not_wait(backend: Backend) -> None:
    needs(backend, Difference.PARTIAL_CLAIM)
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    for number in range(20):
        host = f"h{number}.example"
        await state.add(CRAWL, pages(3, host, priority=Priority.HIGH))
        await state.hold(host, until=backend.now() + 900)
        await state.diagnose(host, Health(down_until=backend.now() + 60))
    assert limits(await state.claim(30)) == [HOST_DOWN] * 30
    await backend.advance(61)
    await state.add(CRAWL, pages(1, "late.example", priority=Priority.LOW))
    assert [lease.gate for lease in await state.claim(2)] == ["late.example"]


async def test_a_host_that_is_well_again_before_its_time_is_no_more_given_up(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(4))
    await state.diagnose("a.example", Health(down_until=backend.now() + 500))
    assert limits(await take(state, 1)) == [HOST_DOWN]
    await state.diagnose("a.example", WELL)
    assert limits(await take(state, 3)) == [""] * 3


async def test_a_host_down_is_down_for_every_crawl(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "one", rate=1.0)
    await new_crawl(state, backend, "two", rate=0.0)
    await state.add("one", pages(2))
    await state.diagnose("a.example", Health(down_until=backend.now() + 500))
    await state.add("two", pages(2))
    assert sorted((lease.crawl, lease.limit) for lease in await take(state, 4)) == [
        ("one", HOST_DOWN),
        ("one", HOST_DOWN),
        ("two", HOST_DOWN),
        ("two", HOST_DOWN),
    ]


async def test_a_limit_of_the_crawl_wins_over_a_host_that_is_down(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, "pages", max_pages=1)
    await new_crawl(state, backend, "host", max_pages_per_host=1)
    for name in ("pages", "host"):
        await state.add(name, pages(1))
        await state.settle([(await take_one(state, name), done(1))])
    await state.diagnose("a.example", Health(down_until=backend.now() + 500))
    for name in ("pages", "host"):
        await state.add(name, [page("/more")])
    assert (await take_one(state, "pages")).limit == "max-pages"
    assert (await take_one(state, "host")).limit == "max-pages-per-host"
