"""Lanes that wait for a gate or for a limit, where the Redis state writes down until when: never too late."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from crawler.errors import StateUnavailable
from crawler.model import (
    HOST_DOWN,
    MAX_PAGES_PER_HOST,
    Health,
    Lease,
    Phase,
    Verdict,
    Why,
    dead,
    defer,
    done,
    retry,
    skipped,
)
from crawler.state.redis import RedisState
from crawler.state.redis import client as client_module
from tests.contract.words import CRAWL, page, pages
from tests.redis.making import Make, direct, name_of, record
from tests.redis.relay import Relay
from tests.redis_server import RedisServer

NOW = 1_800_000_000.0
GATE = "a.example"


class Timed:
    """A state under a clock that the test moves."""

    state: RedisState

    def __init__(self, address: str) -> None:
        self.address, self.now = address, NOW

    async def crawl(self, name: str, **settings: Any) -> None:
        await self.state.create(msgspec.structs.replace(record(name, **settings), started_at=self.now))
        await self.state.add(name, pages(50))

    async def amend(self, **settings: Any) -> None:
        (crawl,) = await self.state.crawls()
        await self.state.amend(crawl.id, msgspec.structs.replace(crawl.settings, **settings))


@pytest.fixture
async def timed(redis_server: RedisServer) -> AsyncIterator[Timed]:
    made = Timed(redis_server.address())
    made.state = await RedisState.open(made.address, worker="w", create=True, clock=lambda: made.now)
    yield made
    await made.state.close()


def settled(leases: list[Lease], verdict: Verdict) -> list[tuple[Lease, Verdict]]:
    return [(lease, verdict) for lease in leases]


# ---------------------------------------------------------------- a full gate


async def test_a_full_gate_that_is_freed_opens_for_every_crawl_that_waits_there(timed: Timed) -> None:
    for number in range(3):
        await timed.crawl(f"crawl-{number}", rate=10.0)
    await timed.state.diagnose(GATE, Health(prompt=True))
    for flight in ("one", "two"):
        await timed.state.occupy(GATE, flight, timed.now + 600)
    for _ in range(2):  # the second one finds them all waiting
        assert await timed.state.claim(3) == []
    await timed.state.occupy(GATE, "two", 0)
    assert {lease.crawl for lease in await timed.state.claim(3)} == {"crawl-0", "crawl-1", "crawl-2"}


async def test_a_full_gate_opens_when_the_first_flight_s_time_has_come(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=1.0)
    await timed.state.occupy(GATE, "late", timed.now + 600)
    await timed.state.occupy(GATE, "soon", timed.now + 60)
    assert await timed.state.claim(1) == []
    timed.now += 59.9
    assert await timed.state.claim(1) == []
    timed.now += 0.1
    assert len(await timed.state.claim(1)) == 1


async def test_a_flight_whose_time_is_moved_back_opens_the_gate_then(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=1.0, in_flight_per_host=1)
    await timed.state.occupy(GATE, "flight", timed.now + 600)
    assert await timed.state.claim(1) == []
    await timed.state.occupy(GATE, "flight", timed.now + 5)
    assert await timed.state.claim(1) == []
    timed.now += 5
    assert len(await timed.state.claim(1)) == 1


async def test_each_crawl_counts_by_its_own_settings_at_a_shared_gate(timed: Timed) -> None:
    await timed.crawl("narrow", rate=1.0, in_flight_per_host=1)
    await timed.crawl("wide", rate=1.0, in_flight_per_host=3)
    await timed.crawl("unlimited", rate=0.0)
    await timed.state.occupy(GATE, "flight", timed.now + 600)
    assert await timed.state.claim(1, "narrow") == []
    assert len(await timed.state.claim(5, "unlimited")) == 5
    assert len(await timed.state.claim(1, "wide")) == 1


async def test_a_larger_number_in_flight_opens_lanes_that_wait(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=1.0, in_flight_per_host=1)
    await timed.state.occupy(GATE, "flight", timed.now + 600)
    assert await timed.state.claim(1) == []
    await timed.amend(in_flight_per_host=2)
    assert len(await timed.state.claim(1)) == 1


@pytest.mark.parametrize("said", ["prompt", "gap", "interval"])
async def test_what_makes_a_gate_open_earlier_is_obeyed_by_lanes_that_wait(timed: Timed, said: str) -> None:
    await timed.crawl(CRAWL, rate=10.0, in_flight_per_host=1)
    if said == "gap":
        await timed.state.diagnose(GATE, Health(gap=0.9))
    elif said == "interval":
        await timed.state.hold(GATE, interval=0.9)
    assert len(await timed.state.claim(1)) == 1
    assert await timed.state.claim(1) == []  # the turn that was taken may be a request yet
    if said == "interval":
        await timed.state.hold(GATE, interval=0)
    else:
        await timed.state.diagnose(GATE, Health(prompt=said == "prompt"))
    timed.now += 0 if said == "prompt" else 0.1
    assert len(await timed.state.claim(1)) == 1


async def test_turns_that_may_be_requests_yet_make_room_one_by_one(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=10.0, in_flight_per_host=3)
    starts = [lease.start_at for lease in await timed.state.claim(9)]
    timed.now += 0.065  # a little less than three quarters of an interval after the first turn
    assert await timed.state.claim(9) == []
    for _ in range(3):
        timed.now += 0.02
        starts += [lease.start_at for lease in await timed.state.claim(9)]
        timed.now += 0.08
    assert [start - NOW for start in starts] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


async def test_a_host_that_is_given_up_makes_nobody_wait_at_its_gate(timed: Timed) -> None:
    for number in range(3):
        await timed.crawl(f"crawl-{number}", rate=1.0)
    await timed.state.hold(GATE, until=timed.now + 600, why=Why.RETRY_AFTER)
    assert await timed.state.claim(3) == []
    await timed.state.diagnose(GATE, Health(down_until=timed.now + 60))
    leases = await timed.state.claim(3)
    assert {(lease.crawl, lease.limit) for lease in leases} == {(f"crawl-{number}", HOST_DOWN) for number in range(3)}
    timed.now += 60
    assert await timed.state.claim(3) == []


async def test_full_gates_cost_a_claim_nothing(timed: Timed, redis_server: RedisServer) -> None:
    await timed.state.create(msgspec.structs.replace(record(rate=1.0), started_at=timed.now))
    gates = [f"h{number}.example" for number in range(500)]
    await timed.state.add(CRAWL, [page("/", gate) for gate in gates])
    for gate in gates:
        await timed.state.occupy(gate, "one", timed.now + 600)
        await timed.state.occupy(gate, "two", timed.now + 600)
    assert await timed.state.claim(1000) == []
    with direct(redis_server) as redis:
        before = sum(each["calls"] for each in redis.info("commandstats").values())
        for _ in range(10):
            assert await timed.state.claim(50) == []
        assert sum(each["calls"] for each in redis.info("commandstats").values()) - before <= 10 * 20


async def test_flights_leave_no_key_behind(timed: Timed, redis_server: RedisServer) -> None:
    key = f"{{{name_of(timed.address)}}}:flights:{GATE}"
    with direct(redis_server) as redis:
        await timed.state.occupy(GATE, "flight", timed.now + 5)
        assert 5 <= redis.ttl(key) <= 70
        await timed.state.occupy(GATE, "flight", 0)
        assert not redis.exists(key)


# ---------------------------------------------------------------- a limit a host


async def test_a_lane_that_waits_for_its_limit_follows_a_new_one(timed: Timed) -> None:
    await timed.crawl(CRAWL, max_pages_per_host=2)
    two = await timed.state.claim(9)
    assert len(two) == 2
    assert await timed.state.claim(9) == []
    await timed.amend(max_pages_per_host=3)
    (third,) = await timed.state.claim(9)
    await timed.state.settle(settled([*two, third], done()))
    assert {lease.limit for lease in await timed.state.claim(9)} == {MAX_PAGES_PER_HOST}
    await timed.amend(max_pages_per_host=None)
    assert {lease.limit for lease in await timed.state.claim(9)} == {""}


async def test_a_limit_that_is_used_up_waits_for_no_gate(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=0.01, max_pages_per_host=1)
    leases = await timed.state.claim(1)
    assert await timed.state.claim(9) == []
    await timed.state.occupy(GATE, "flight", timed.now + 600)  # whoever waits is told to look again in 99 seconds
    await timed.state.settle(settled(leases, done()))
    assert [lease.limit for lease in await timed.state.claim(9)] == [MAX_PAGES_PER_HOST] * 9


async def test_a_limit_that_is_lowered_ends_what_waits_for_its_gate(timed: Timed) -> None:
    await timed.crawl(CRAWL, rate=0.01)
    await timed.state.settle(settled(await timed.state.claim(1), done()))
    assert await timed.state.claim(9) == []
    await timed.amend(max_pages_per_host=1)
    assert [lease.limit for lease in await timed.state.claim(9)] == [MAX_PAGES_PER_HOST] * 9


@pytest.mark.parametrize("verdict", [skipped("robots"), dead("dns", ""), retry(0, "dns", ""), defer(0)])
async def test_a_lease_that_ends_otherwise_makes_room_for_another(timed: Timed, verdict: Verdict) -> None:
    await timed.crawl(CRAWL, max_pages_per_host=1)
    leases = await timed.state.claim(9)
    for _ in range(5):
        assert [lease.limit for lease in leases] == [""]
        assert await timed.state.claim(9) == []
        await timed.state.settle(settled(leases, verdict))
        leases = await timed.state.claim(9)
    await timed.state.settle(settled(leases, done()))
    assert {lease.limit for lease in await timed.state.claim(99)} == {MAX_PAGES_PER_HOST}


@pytest.mark.parametrize("lost", ["expired", "released"])
async def test_a_lease_whose_holder_is_gone_makes_room_for_another(timed: Timed, lost: str) -> None:
    await timed.crawl(CRAWL, max_pages_per_host=2, lease=10.0)
    leases = await timed.state.claim(9)
    assert len(leases) == 2
    if lost == "expired":
        timed.now += 11
    else:
        assert await timed.state.release("w") == 2
    again = await timed.state.claim(9)
    assert [(lease.limit, lease.receives) for lease in again] == [("", 2)] * 2
    assert await timed.state.claim(9) == []


async def test_a_claim_whose_answer_was_lost_takes_no_room(
    redis_server: RedisServer, relay: Relay, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = redis_server.address()
    state = await make(address, max_pages_per_host=3)
    behind = await make(relay.address(address), "other")
    await state.add(CRAWL, pages(9))
    assert len(await state.claim(1)) == 1
    monkeypatch.setattr(client_module, "PATIENCE", 0.3)
    relay.losing = 1000
    with pytest.raises(StateUnavailable):
        await behind.claim(9)
    relay.losing = 0
    assert await state.claim(9) == []
    assert [lease.receives for lease in await behind.claim(9)] == [1, 1]
    assert (await state.counts(CRAWL)).leased == 3


async def test_a_limit_a_host_is_exact_whoever_claims_at_once(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    states = [await make(address, f"worker-{number}", max_pages_per_host=10) for number in range(4)]
    hosts = [f"h{number}.example" for number in range(3)]
    await states[0].add(CRAWL, [each for host in hosts for each in pages(40, host)])
    ended: Counter[str] = Counter()
    chance = random.Random(7)
    for _ in range(200):
        claims = await asyncio.gather(*(state.claim(5) for state in states * 3))
        leases = [lease for leases in claims for lease in leases if not lease.limit]
        held = Counter(lease.gate for lease in leases)
        assert all(ended[host] + held[host] <= 10 for host in hosts)
        marked = [lease for leases in claims for lease in leases if lease.limit]
        assert all((lease.limit, ended[lease.gate]) == (MAX_PAGES_PER_HOST, 10) for lease in marked)
        some = [lease for lease in leases if chance.random() < 0.5]
        ended.update(lease.gate for lease in some)
        rest = [lease for lease in leases if lease not in some]
        verdicts = settled(some, done()) + settled(rest, defer(0)) + settled(marked, skipped("max-pages-per-host"))
        await states[0].settle(verdicts)
        if sum(ended.values()) == 30:
            break
    assert ended == dict.fromkeys(hosts, 10)
    while leases := await states[1].claim(50):
        await states[1].settle(settled(leases, skipped("max-pages-per-host")))
    counts = await states[2].counts(CRAWL)
    assert (counts.done, counts.skips) == (30, {"max-pages-per-host": 90})


# ---------------------------------------------------------------- sums


async def test_the_sums_of_hosts_and_reasons_are_the_ledger_s_whatever_happens(timed: Timed) -> None:
    chance, state = random.Random(11), timed.state
    await state.create(msgspec.structs.replace(record(lease=10.0, max_pages_per_host=6), started_at=timed.now))
    held: list[Lease] = []
    for step in range(120):
        host = f"h{chance.randrange(6)}.example"
        skip = chance.choice(["", "", "", "trap"])
        await state.add(CRAWL, [page(f"/{step}", host, skip=skip)])
        held += await state.claim(chance.randrange(4))
        if held and chance.random() < 0.7:
            lease = held.pop(chance.randrange(len(held)))
            verdict = chance.choice([done(), done(), dead("dns", ""), skipped("robots"), retry(timed.now + 3, "t", "")])
            await state.settle([(lease, verdict)])
        if chance.random() < 0.1:
            timed.now += 11
        if chance.random() < 0.05:
            await state.release("w")
        if chance.random() < 0.1:
            lines = [line async for line in state.ledger(CRAWL, Phase.DEAD)]
            await state.revive(CRAWL, [(line.digest, timed.now + chance.choice([0, 3])) for line in lines[1:3]])
    lines = [line async for line in state.ledger(CRAWL)]
    counts = await state.counts(CRAWL)
    assert counts.skips == Counter(line.reason for line in lines if line.phase is Phase.SKIPPED)
    assert counts.deaths == Counter(line.reason for line in lines if line.phase is Phase.DEAD)
    phases = Counter((line.gate, line.phase) for line in lines)
    hosts = {host.gate: host async for host in state.hosts(CRAWL)}
    assert counts.hosts == len(hosts)
    assert {gate for gate, phase in phases if phase is not Phase.SKIPPED} <= set(hosts)
    for gate, seen in hosts.items():
        assert (seen.pending, seen.leased, seen.done) == tuple(
            phases[gate, phase] for phase in (Phase.PENDING, Phase.LEASED, Phase.DONE)
        )
    assert phases.total() == counts.discovered
    assert {phase for _, phase in phases} == set(Phase)
