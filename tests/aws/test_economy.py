"""What a page of a paced host costs in requests, and what waiting costs: counted, each is billed."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter

import pytest

from crawler.model import Health, Lease, done
from crawler.state.aws import claiming, lanes
from crawler.state.aws.intake import Job
from crawler.state.aws.queue import Received
from crawler.state.aws.records import message
from crawler.state.aws.room import Room
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, copy_of, page, pages

FRONTIER = ("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")


def frontier(used: Counter[str]) -> int:
    """Requests at the queues but for questions about them."""
    return sum(used[f"sqs.{operation}"] for operation in FRONTIER)


async def work(state: AwsState, count: int, fetched: list[Lease]) -> None:
    """Take part in a crawl of so many pages as the loop does: each page when its turn has come."""

    async def visit(lease: Lease) -> None:
        await asyncio.sleep(max(0.0, lease.start_at - time.time()))
        fetched.append(lease)

    while len(fetched) < count:
        leases = await state.claim(64)
        await asyncio.gather(*(visit(lease) for lease in leases))
        await state.settle([(lease, done(1)) for lease in leases])


async def test_a_page_of_one_paced_host_costs_four_workers_less_than_one_and_a_half_requests(opening: Open) -> None:
    states = [await opening(f"w{number}", rate=20.0) for number in range(4)]
    await states[0].diagnose("site.example", Health(prompt=True))
    before = sum((state.requests for state in states), Counter[str]())
    await states[0].add("c", pages(200))
    fetched: list[Lease] = []
    async with asyncio.timeout(60):
        await asyncio.gather(*(work(state, 200, fetched) for state in states))
    used = sum((state.requests for state in states), Counter[str]()) - before
    assert Counter(lease.digest for lease in fetched) == Counter(page.digest for page in pages(200))
    print({name: count / 200 for name, count in sorted(used.items())}, frontier(used) / 200)
    assert frontier(used) / 200 <= 1.5
    starts = sorted(lease.start_at for lease in fetched)
    assert all(later - earlier >= 0.0499 for earlier, later in itertools.pairwise(starts))


async def test_pages_that_cannot_have_a_turn_soon_are_delayed_when_they_are_added(opening: Open, place: Place) -> None:
    state = await opening(rate=1.0)
    await state.add("c", pages(100))
    visible, in_flight, delayed = place.depth()
    assert (visible + delayed, in_flight) == (100, 0)
    assert delayed >= 85
    assert state.requests["sqs.SendMessageBatch"] == 10


async def test_what_others_added_is_booked_for_all(opening: Open) -> None:
    one, two = await opening("one", rate=1.0), await opening("two")
    name = f"#line#c#{(await one._crawls.read('c')).run}#site.example"
    await one.add("c", pages(50))
    first = (await two._claiming._placing._lines.read(name)).booked
    await two.add("c", [page(f"https://site.example/more/{number}") for number in range(50)])
    assert (await one._claiming._placing._lines.read(name)).booked - first >= 40 * 900_000


async def test_pages_whose_turn_is_near_wait_in_hand_without_a_request(opening: Open, place: Place) -> None:
    state = await opening(rate=1.0)
    await state.add("c", pages(4))
    leases = await state.claim(10)
    before = state.requests.copy()
    end = time.monotonic() + 15
    while len(leases) < 4 and time.monotonic() < end:
        leases += await state.claim(10)
    assert len(leases) == 4
    used = state.requests - before
    assert used["sqs.SendMessageBatch"] == used["sqs.DeleteMessageBatch"] == 0
    assert place.depth() == (0, 4, 0)


@pytest.mark.parametrize("between", [0.0, 3600.0])
async def test_claims_for_pages_in_hand_ask_a_queue_now_and_then(
    opening: Open, monkeypatch: pytest.MonkeyPatch, between: float
) -> None:
    monkeypatch.setattr(claiming, "BETWEEN", between)
    state = await opening(rate=5.0)
    await state.add("c", pages(5))
    leases = await state.claim(64)
    assert len(leases) < 5  # the host is new: not all its turns are taken
    await state.add("c", pages(1, host="other.example"))
    await asyncio.sleep(state._claiming._room.pause() + 0.01)
    before = state.requests.copy()
    assert await state.claim(64)
    assert bool((state.requests - before)["sqs.ReceiveMessage"]) is not bool(between)


async def test_pages_that_waited_in_hand_are_given_back_at_the_end_and_do_not_count_as_handed_out(
    opening: Open, place: Place
) -> None:
    state, other = await opening("one", rate=0.5), await opening("other")
    await state.add("c", pages(3))
    taken = await state.claim(10)
    assert sum(place.depth()) == 3 > len(taken)
    await state.close()
    end = time.monotonic() + 15
    again: list[Lease] = []
    while len(again) + len(taken) < 3 and time.monotonic() < end:
        again += await other.claim(10)
    assert [lease.receives for lease in again] == [1] * (3 - len(taken))


def test_a_page_whose_lease_ran_out_in_hand_is_nobody_s_here_and_one_that_would_is_not_kept() -> None:
    now = 1_000.0
    room = Room(120, lambda: now)

    def job(url: str, expires_at: float) -> Job:
        return Job(message("c", "r", page(url), 0.0), Received(url, "1:x", "", 1, expires_at))

    late, good = job("https://site.example/late", 1_050.0), job("https://site.example/good", 1_120.0)
    assert not room.admit(job("https://site.example/far", 1_120.0), now + 60, now)
    assert not room.admit(job("https://site.example/short", 1_030.0), now + 5, now)
    assert room.admit(late, now + 5, now)
    assert room.admit(good, now + 25, now + 10)
    assert room.pause() == pytest.approx(0.05)
    assert room.due() == []
    now = 1_060.0
    assert room.due() == [good]
    assert room.clear() == []


async def test_a_worker_without_work_asks_a_queue_once_and_waits_there(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "POLL", 1)
    state = await opening()
    for _ in range(lanes.QUIET + 1):
        assert await state.claim(10) == []
    before = state.requests["sqs.ReceiveMessage"]
    assert await state.claim(10) == []
    assert await state.claim(10) == []
    lower = len(lanes.Lanes(state._queues, lambda: 1)._lanes) - 1
    assert state.requests["sqs.ReceiveMessage"] - before <= lower


async def test_what_comes_while_a_worker_waits_is_its_own_for_a_whole_lease(
    opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUIET", 0)
    state = await opening()
    assert await state.claim(10) == []
    place.send(copy_of(place, "https://site.example/"))
    (lease,) = await state.claim(10)
    assert lease.expires_at - time.time() > lanes.GRASP
    assert state.requests["sqs.ChangeMessageVisibilityBatch"] == 1


async def test_a_stop_does_not_wait_for_a_long_poll_and_what_that_takes_is_back_soon(
    opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUIET", 0)
    monkeypatch.setattr(lanes, "GRASP", 1)
    state, other = await opening(), await opening("other")
    assert await state.claim(10) == []
    async with asyncio.timeout(lanes.LONG_POLL / 2):
        await state.close()
    place.send(copy_of(place, "https://site.example/"))
    leases: list[Lease] = []
    async with asyncio.timeout(lanes.LONG_POLL):
        while not leases:
            leases = await other.claim(10)
    assert [lease.url for lease in leases] == ["https://site.example/"]


async def test_what_a_long_poll_brought_and_nobody_claimed_is_somebody_else_s(
    opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUIET", 0)
    monkeypatch.setattr(lanes, "GRASP", 1)
    state, other = await opening(), await opening("other")
    assert await state.claim(10) == []
    place.send(copy_of(place, "https://site.example/"))
    leases: list[Lease] = []
    async with asyncio.timeout(lanes.LONG_POLL):
        while not leases:
            leases = await other.claim(10)
    assert await state.claim(10) == []
