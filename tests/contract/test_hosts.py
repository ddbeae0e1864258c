"""The hosts of a crawl: how many pages wait behind each gate, when its next turn is, and why."""

from __future__ import annotations

import pytest

from crawler.errors import UsageError
from crawler.model import Health, Why, dead, defer, done, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, hosts, new_crawl, page, pages, take, take_one


async def test_a_host_shows_its_pages(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await new_crawl(state, backend, "other")
    assert await hosts(state) == {}
    await state.add(CRAWL, pages(7) + pages(1, "b.example") + [page("/no", "no.example", skip="trap")])
    await state.add("other", pages(3, "c.example"))
    leases = [lease for lease in await take(state, 8, CRAWL) if lease.gate == "a.example"]
    one, two, three, four, *_ = leases
    verdicts = [done(1), skipped("robots"), dead("dns", "no such host"), defer(backend.now() + 60)]
    await state.settle(list(zip((one, two, three, four), verdicts, strict=True)))
    await state.add(CRAWL, [page("/more")])
    found = await hosts(state)
    found.pop("no.example", None)  # nothing ever waited behind it
    sums = {name: (host.pending + host.leased, host.done) for name, host in found.items()}
    assert sums == {"a.example": (5, 1), "b.example": (1, 0)}
    if Difference.APPROXIMATE_COUNTS not in backend.differences:
        assert [host.leased for _, host in sorted(found.items())] == [3, 1]
    assert (await hosts(state, "other"))["c.example"].pending == 3


async def test_hosts_of_an_unknown_crawl_are_a_usage_error(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError):
        await hosts(state, "nothing")


async def test_many_hosts_are_listed_to_the_last(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, [page("/", f"h{number}.example") for number in range(4500)])
    assert len(await hosts(state)) == 4500


async def test_a_host_shows_what_makes_its_interval(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.5)
    await new_crawl(state, backend, "fast", rate=0.0)
    cases = {
        "default": (1.0, Health(gap=1.0)),
        "equal": (2.0, Health(gap=2.0)),
        "crawl-delay": (7.0, Health(gap=3.0)),
        "slow": (3.0, Health(gap=7.0, why=Why.RESPONSE_TIME)),
        "failing": (0.0, Health(gap=9.0, why=Why.BACKOFF, failures=3, error="connection refused")),
    }
    for name, (crawl_delay, health) in cases.items():
        await state.add(CRAWL, pages(1, name))
        await state.add("fast", pages(1, name))
        await state.hold(name, interval=crawl_delay)
        await state.diagnose(name, health)
    await state.add("fast", pages(1, "free"))
    assert {name: (host.interval, host.why) for name, host in (await hosts(state)).items()} == {
        "default": (2.0, Why.DEFAULT),
        "equal": (2.0, Why.DEFAULT),
        "crawl-delay": (7.0, Why.CRAWL_DELAY),
        "slow": (7.0, Why.RESPONSE_TIME),
        "failing": (9.0, Why.BACKOFF),
    }
    fast = await hosts(state, "fast")
    assert {name: (host.interval, host.why) for name, host in fast.items()} == {
        "default": (1.0, Why.CRAWL_DELAY),
        "equal": (2.0, Why.CRAWL_DELAY),
        "crawl-delay": (7.0, Why.CRAWL_DELAY),
        "slow": (7.0, Why.RESPONSE_TIME),
        "failing": (9.0, Why.BACKOFF),
        "free": (0.0, Why.DEFAULT),
    }
    assert (fast["failing"].failures, fast["failing"].error) == (3, "connection refused")
    assert (fast["slow"].failures, fast["slow"].error) == (0, "")


async def test_a_host_shows_its_next_turn(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1)
    await state.add(CRAWL, pages(3))
    assert (await hosts(state))["a.example"].next_at <= backend.now()
    lease = await take_one(state)
    assert (await hosts(state))["a.example"].next_at == pytest.approx(lease.start_at + 10, abs=0.1)
    await state.diagnose("a.example", Health(gap=20.0))
    assert (await hosts(state))["a.example"].next_at == pytest.approx(lease.start_at + 20, abs=0.1)
    await state.hold("a.example", until=backend.now() + 90)
    assert (await hosts(state))["a.example"].next_at == pytest.approx(backend.now() + 90, abs=5)


async def test_a_hold_shows_its_reason_while_it_is_what_closes_the_gate(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3) + pages(3, "b.example"))
    await state.hold("a.example", until=backend.now() + 3, why=Why.RETRY_AFTER)
    await state.hold("b.example", until=backend.now() + 3)
    assert {name: host.why for name, host in (await hosts(state)).items()} == {
        "a.example": Why.RETRY_AFTER,
        "b.example": Why.BACKOFF,
    }
    await backend.advance(4)
    assert {host.why for host in (await hosts(state)).values()} == {Why.DEFAULT}
    assert (await hosts(state))["a.example"].next_at <= backend.now()


async def test_of_several_holds_the_longest_stays_with_its_reason(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3))
    now = backend.now()
    for until, why, shown in (
        (now + 100, Why.RETRY_AFTER, Why.RETRY_AFTER),
        (now + 50, Why.BACKOFF, Why.RETRY_AFTER),
        (now + 300, Why.BACKOFF, Why.BACKOFF),
        (now + 200, Why.RETRY_AFTER, Why.BACKOFF),
        (0.0, Why.RETRY_AFTER, Why.BACKOFF),
    ):
        await state.hold("a.example", until=until, why=why)
        assert (await hosts(state))["a.example"].why is shown
    assert (await hosts(state))["a.example"].next_at == pytest.approx(now + 300, abs=0.1)


async def test_a_hold_shorter_than_the_pace_explains_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.1)
    await state.add(CRAWL, pages(3))
    await state.diagnose("a.example", Health(gap=60.0, why=Why.RESPONSE_TIME))
    lease = await take_one(state)
    await state.hold("a.example", until=lease.start_at + 30, why=Why.RETRY_AFTER)
    host = (await hosts(state))["a.example"]
    assert (host.why, host.interval) == (Why.RESPONSE_TIME, 60.0)
    assert host.next_at == pytest.approx(lease.start_at + 60, abs=0.1)


async def test_a_host_that_was_given_up_is_down(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3))
    await state.hold("a.example", until=backend.now() + 100, why=Why.RETRY_AFTER)
    down = Health(gap=5.0, why=Why.BACKOFF, failures=9, error="no route", down_until=backend.now() + 50)
    await state.diagnose("a.example", down)
    host = (await hosts(state))["a.example"]
    assert (host.why, host.interval, host.failures, host.error) == (Why.DOWN, 5.0, 9, "no route")
