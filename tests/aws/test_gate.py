"""Gates in the control table: what their writes cost, and what workers know of each other through them."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from typing import Any

import pytest

from crawler.model import HOST_DOWN, Health, Lease, Why
from crawler.state.aws import gate as gates
from crawler.state.aws.pacing import Pace
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, pages

GATE = "site.example"


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def used(state: AwsState, before: Counter[str]) -> dict[str, int]:
    """Requests since then, by operation."""
    return {name.partition(".")[2]: count for name, count in (state.requests - before).items()}


def item(place: Place) -> dict[str, Any]:
    key = {"pk": {"S": f"#gate#{GATE}"}}
    found: dict[str, Any] = place.dynamodb.get_item(TableName=place.control, Key=key)["Item"]
    return found


async def leased(state: AwsState, count: int) -> list[Lease]:
    await state.add("c", pages(count))
    return await state.claim(count)


async def test_what_is_told_of_a_host_is_one_write(state: AwsState) -> None:
    before = state.requests.copy()
    await state.hold(GATE, until=time.time() + 5, why=Why.RETRY_AFTER, interval=2.0)
    await state.diagnose(GATE, Health(gap=3.0))
    await state.occupy(GATE, "a", time.time() + 30)
    await state.occupy(GATE, "a", 0.0)
    assert used(state, before) == {"UpdateItem": 4}


async def test_a_batch_of_turns_is_one_write_and_reads_no_more_than_a_claim_does(opening: Open) -> None:
    state = await opening(rate=2.0)
    await state.diagnose(GATE, Health(prompt=True))
    await state.add("c", pages(6))
    before = state.requests.copy()
    leases = await state.claim(6)
    assert len(leases) == 6
    assert {(lease.interval, lease.health.prompt) for lease in leases} == {(0.5, True)}
    requests = used(state, before)
    assert (requests["UpdateItem"], requests["BatchGetItem"]) == (1, 1)


async def test_health_of_any_characters_is_kept_within_bounds(state: AwsState) -> None:
    await state.diagnose(GATE, Health(gap=1.0, failures=3, error="caf\udce9\n" + "x" * 100_000))
    (lease,) = await leased(state, 1)
    assert (lease.health.gap, lease.health.failures) == (1.0, 3)
    assert lease.health.error.startswith("caf? x")
    assert len(lease.health.error) == 200


async def test_a_turn_is_not_taken_from_a_gate_that_filled_meanwhile(opening: Open) -> None:
    clock = Clock()
    one, two = await opening("one", clock=clock), await opening("two", clock=clock)
    await one.turn("c", GATE)
    for flight in ("a", "b"):
        await two.occupy(GATE, flight, clock.now + 60)
    assert not one._gates.stale(GATE)  # it need not look, and the gate is not as it knows it
    assert await one._gates.take(GATE, 3, Pace(1.0, cap=2)) == []
    await two.occupy(GATE, "a", 0.0)
    assert len(await one._gates.take(GATE, 3, Pace(1.0, cap=2))) == 0
    clock.now += gates.FRESH
    await one._gates.read([GATE])
    assert len(await one._gates.take(GATE, 3, Pace(1.0, cap=2))) == 1


async def test_requests_that_never_said_they_ended_leave_the_item_with_the_next_turn(
    opening: Open, place: Place
) -> None:
    clock = Clock()
    state = await opening(clock=clock, rate=1.0)
    for flight in ("a", "b", "c"):
        await state.occupy(GATE, flight, clock.now + (60 if flight == "c" else 5))
    assert len([name for name in item(place) if name.startswith("flight#")]) == 3
    clock.now += 6
    await state.turn("c", GATE)
    assert [name for name in item(place) if name.startswith("flight#")] == ["flight#c"]


async def test_ends_of_a_request_out_of_order_and_twice_do_no_harm(state: AwsState, place: Place) -> None:
    await state.occupy(GATE, "a", 0.0)
    await state.occupy(GATE, "caf\udce9", time.time() + 30)
    await state.occupy(GATE, "caf\udce9", 0.0)
    await state.occupy(GATE, "caf\udce9", 0.0)
    assert not [name for name in item(place) if name.startswith("flight#")]


async def test_a_turn_just_taken_is_upheld_without_a_request_and_later_ones_by_one_read_a_second(
    opening: Open,
) -> None:
    clock = Clock()
    state = await opening(clock=clock, rate=2.0)
    await state.diagnose(GATE, Health(prompt=True))
    leases = await leased(state, 5)
    before = state.requests.copy()
    assert [await state.upheld(lease) for lease in leases] == [lease.start_at for lease in leases]
    assert used(state, before) == {}
    clock.now += gates.FRESH
    asked = await asyncio.gather(*(state.upheld(lease) for lease in leases))
    assert asked == [lease.start_at for lease in leases]
    assert used(state, before) == {"BatchGetItem": 1}


async def test_one_look_is_for_all_gates_whose_turns_come_next(opening: Open) -> None:
    clock = Clock()
    state = await opening(clock=clock, rate=0.5)
    await state.add("c", [page for i in range(5) for page in pages(2, host=f"h{i}.example")])
    leases = sorted(await state.claim(10), key=lambda lease: lease.start_at)
    assert len(leases) == 10
    clock.now += 2.0 - gates.TOGETHER + 0.1
    before = state.requests.copy()
    for lease in leases[5:]:
        assert await state.upheld(lease) == lease.start_at
    assert used(state, before) == {"BatchGetItem": 1}
    clock.now += gates.FRESH
    await state.upheld(leases[5])
    assert used(state, before) == {"BatchGetItem": 2}


async def test_turns_are_taken_when_the_first_is_near_and_then_together(opening: Open) -> None:
    clock = Clock()
    state = await opening(clock=clock, rate=1.0)
    horizon, pace = state._gates._horizon, Pace(0.1)
    for _ in range(8):
        await state.turn("c", GATE)
    before = state.requests.copy()
    assert await state._gates.take(GATE, 10, pace) == []
    assert used(state, before) == {}
    opens, _ = state._gates.outlook(GATE, pace)
    last = await state.turn("c", GATE) - 1
    assert last - horizon / 2 <= opens <= last
    clock.now = opens + 1
    before = state.requests.copy()
    assert len(await state._gates.take(GATE, 10, pace)) == 10
    assert used(state, before) == {"UpdateItem": 1}


async def test_workers_look_at_a_gate_at_different_times_and_each_for_all_its_pages_together(opening: Open) -> None:
    clock = Clock()
    one, two = await opening("one", clock=clock, rate=1.0), await opening("two", clock=clock)
    names = [f"h{i}.example" for i in range(12)]
    for name in names:
        for _ in range(10):
            await one.turn("c", name)
    await two._gates.read(names)
    looks = [[state._gates.outlook(name, Pace(1.0))[0] for name in names] for state in (one, two)]
    assert looks[0] != looks[1]
    assert looks[0] == [one._gates.outlook(name, Pace(1.0))[0] for name in names]
    assert len({round(look, 3) for look in looks[0]}) < len(names)  # several gates at one look


async def test_what_was_written_is_not_forgotten_for_a_read_that_began_before_it(state: AwsState, place: Place) -> None:
    await state.diagnose(GATE, Health(gap=1.0))
    before = item(place)
    until = time.time() + 30
    await state.hold(GATE, until=until)
    state._gates.note(GATE, before)
    assert state._gates.seen(GATE).held == pytest.approx(until * 1_000_000, abs=10)


async def test_turns_taken_ahead_are_gone_once_another_worker_raises_the_gate(opening: Open) -> None:
    clock = Clock()
    state, other = await opening("one", clock=clock, rate=2.0), await opening("two", clock=clock)
    await state.diagnose(GATE, Health(prompt=True))
    leases = await leased(state, 5)
    until = clock.now + 30
    await other.hold(GATE, until=until)
    clock.now += gates.FRESH
    assert [await state.upheld(lease) for lease in leases] == pytest.approx([until] * 5, abs=1e-5)
    await other.diagnose(GATE, Health(down_until=clock.now + 60))
    clock.now = until + 1
    assert [await state.upheld(lease) for lease in leases] == pytest.approx([clock.now] * 5, abs=1e-5)


async def test_a_host_that_is_down_hands_its_pages_out_without_a_turn(opening: Open, place: Place) -> None:
    state = await opening(rate=0.01)
    await state.diagnose(GATE, Health(failures=9, error="refused", down_until=time.time() + 60))
    leases = await leased(state, 5)
    assert [(lease.limit, lease.health.error) for lease in leases] == [(HOST_DOWN, "refused")] * 5
    assert "last" not in item(place)


async def test_hosts_reads_the_records_once_and_all_gates_together(opening: Open) -> None:
    state = await opening(rate=1.0)
    await state.add("c", [page for i in range(5) for page in pages(i + 1, host=f"h{i}.example")])
    await state.hold("h0.example", until=time.time() + 60, why=Why.RETRY_AFTER)
    await state.diagnose("h1.example", Health(gap=5.0, failures=2, error="slow"))
    before = state.requests.copy()
    found = {host.gate: host async for host in state.hosts("c")}
    assert used(state, before) == {"Scan": 1, "BatchGetItem": 2}  # the crawl, the gates
    assert [(found[f"h{i}.example"].pending, found[f"h{i}.example"].done) for i in range(5)] == list(
        zip(range(1, 6), itertools.repeat(0))
    )
    assert [found[f"h{i}.example"].why for i in range(3)] == [Why.RETRY_AFTER, Why.RESPONSE_TIME, Why.DEFAULT]
    assert (found["h1.example"].interval, found["h1.example"].failures, found["h1.example"].error) == (5.0, 2, "slow")
