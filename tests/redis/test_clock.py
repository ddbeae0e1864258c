"""One clock for the fleet: the server's. A worker whose own clock is 90 seconds off takes and loses nothing by it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from crawler.model import HOST_DOWN, Beat, Health, Settled, Why, done, retry
from crawler.state.redis import clock as clock_module
from crawler.state.redis.clock import Clock
from tests.contract.words import CRAWL, pages, take
from tests.redis.making import Make, record
from tests.redis_server import RedisServer

OFF = 90.0
NEAR = 5.0
"""Seconds that are far more than a call takes, and far less than a clock is off."""

SetClock = Callable[[float], None]


@pytest.fixture
def off_by(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Set how far the clock of this process is ahead of the server's, for the calls that follow."""
    ahead = 0.0
    fake = SimpleNamespace(time=lambda: time.time() + ahead, monotonic=time.monotonic)
    monkeypatch.setattr(clock_module, "time", fake)

    def set_clock(seconds: float) -> None:
        nonlocal ahead
        ahead = seconds

    return set_clock


@pytest.mark.parametrize("off", [OFF, -OFF])
async def test_leases_and_turns_are_in_the_worker_s_own_time(
    redis_server: RedisServer, make: Make, off_by: SetClock, off: float
) -> None:
    off_by(off)
    state = await make(redis_server.address(), rate=1.0, lease=60.0)
    await state.add(CRAWL, pages(3))
    ours = time.time() + off
    lease = (await state.claim(1))[0]
    assert lease.start_at == pytest.approx(ours, abs=NEAR)
    assert lease.expires_at == pytest.approx(ours + 60, abs=NEAR)
    assert await state.turn(CRAWL, "b.example") == pytest.approx(ours, abs=NEAR)


async def test_a_worker_ahead_of_its_time_steals_no_lease_and_bursts_at_no_gate(
    redis_server: RedisServer, make: Make, off_by: SetClock
) -> None:
    address = redis_server.address()
    right = await make(address, "right", rate=1.0, lease=30.0)
    await right.add(CRAWL, pages(1) + pages(1, "b.example"))
    held = await take(right, 2)
    off_by(OFF)
    fast = await make(address, "fast")
    assert await fast.claim(9) == []
    start = await fast.turn(CRAWL, "a.example") - OFF
    assert start == pytest.approx(held[0].start_at + 1, abs=0.5)
    off_by(0)
    assert await right.settle([(lease, done()) for lease in held]) == [Settled.SETTLED] * 2


@pytest.mark.parametrize("off", [OFF, -OFF])
async def test_times_that_a_worker_gives_are_meant_by_its_clock(
    redis_server: RedisServer, make: Make, off_by: SetClock, off: float
) -> None:
    address = redis_server.address()
    right = await make(address, "right")
    off_by(off)
    state = await make(address, "off")
    ours = time.time() + off
    await state.hold("held.example", until=ours + 40)
    await state.beat(Beat(worker="off", at=ours, rate=1.0, held=2))
    await state.add(CRAWL, pages(1))
    (lease,) = await take(state, 1)
    await state.settle([(lease, retry(ours + 20, "dns", ""))])
    assert await state.claim(1) == []
    off_by(0)
    assert await right.turn(CRAWL, "held.example") == pytest.approx(time.time() + 40, abs=NEAR)
    assert await right.claim(1) == []
    (beat,) = await right.workers()
    assert (beat.worker, beat.rate, beat.held) == ("off", 1.0, 2)
    assert beat.at == pytest.approx(time.time(), abs=NEAR)


@pytest.mark.parametrize("off", [OFF, -OFF])
async def test_what_is_told_of_a_host_is_in_the_worker_s_own_time(
    redis_server: RedisServer, make: Make, off_by: SetClock, off: float
) -> None:
    address = redis_server.address()
    right = await make(address, "right", rate=1.0, in_flight_per_host=1)
    await right.add(CRAWL, [*pages(2, "down.example"), *pages(2, "busy.example")])
    off_by(off)
    state = await make(address, "off")
    ours = time.time() + off
    await state.diagnose("down.example", Health(down_until=ours + 40, failures=3, error="caf\udce9"))
    await state.occupy("busy.example", "flight", ours + 40)
    (lease,) = await state.claim(1)
    assert (lease.gate, lease.limit, lease.health.failures) == ("down.example", HOST_DOWN, 3)
    assert lease.health.down_until == pytest.approx(ours + 40, abs=NEAR)
    await state.hold("down.example", until=ours + 40)
    hosts = {host.gate: host async for host in state.hosts(CRAWL)}
    assert hosts["down.example"].next_at == pytest.approx(ours + 40, abs=NEAR)
    assert (hosts["down.example"].why, hosts["down.example"].error) == (Why.DOWN, "caf?")
    off_by(0)
    (lease,) = await right.claim(2)
    assert lease.limit == HOST_DOWN
    assert lease.health.down_until == pytest.approx(time.time() + 40, abs=NEAR)


async def test_a_time_limit_is_counted_by_the_server_s_clock(
    redis_server: RedisServer, make: Make, off_by: SetClock
) -> None:
    off_by(-OFF)
    state = await make(redis_server.address())
    started = time.time() - OFF
    timed = record("timed", max_time=60.0)
    from msgspec.structs import replace

    stored = await state.create(replace(timed, started_at=started))
    assert stored.started_at == started
    await state.add("timed", pages(2))
    assert [lease.limit for lease in await state.claim(2, "timed")] == ["", ""]


def test_the_fastest_answer_of_a_minute_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(wall=1000.0, monotonic=50.0)
    fake = SimpleNamespace(time=lambda: now.wall, monotonic=lambda: now.monotonic)
    monkeypatch.setattr(clock_module, "time", fake)
    clock = Clock()
    for age in (0.5, 0.01, 2.0):  # of the server's time when it arrives; the server is 7 seconds ahead
        clock.learn(1007.0 - age)
    assert clock.to_local(2000.0) == pytest.approx(1993.01)
    assert clock.to_server(1993.01) == pytest.approx(2000.0)
    assert clock.to_server(0.0) == 0.0
    now.wall, now.monotonic = 1100.0, 150.0  # the server has fallen back to 3 seconds ahead
    clock.learn(1102.9)
    assert clock.to_local(2000.0) == pytest.approx(1997.1)
