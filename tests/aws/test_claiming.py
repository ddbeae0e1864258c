"""Which messages become leases, which wait, and which are dropped."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import Added, CrawlRecord, Lease, Priority, Settled, defer, done, retry
from crawler.state.aws import claiming
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, copy_of, page, pages
from tests.aws.proxy import Proxy


async def test_a_second_message_of_a_finished_page_is_deleted_unfetched(state: AwsState, place: Place) -> None:
    seed = page("https://site.example/")
    await state.add("c", [seed])
    (lease,) = await state.claim(5)
    await state.settle([(lease, done())])
    place.send(copy_of(place, seed.url))
    assert await state.claim(5) == []
    assert place.depth() == (0, 0, 0)


async def test_a_second_message_of_a_page_in_hand_is_deleted(state: AwsState, place: Place) -> None:
    seed = page("https://site.example/")
    await state.add("c", [seed])
    (lease,) = await state.claim(5)
    place.send(copy_of(place, seed.url))
    assert await state.claim(5) == []
    assert place.depth() == (0, 1, 0)
    assert await state.settle([(lease, done())]) == [Settled.SETTLED]


async def test_two_messages_of_a_page_make_one_lease(state: AwsState, place: Place) -> None:
    seed = page("https://site.example/")
    assert await state.add("c", [seed]) == [Added.NEW]
    assert await state.add("c", [seed]) == [Added.AGAIN]  # perhaps recorded and never queued: it is queued again
    assert place.depth() == (2, 0, 0)
    assert len(await state.claim(5)) == 1


async def test_a_page_finished_by_another_worker_is_lost(opening: Open, place: Place) -> None:
    one, two = await opening("one"), await opening("two")
    seed = page("https://site.example/")
    await one.add("c", [seed])
    (first,) = await one.claim(5)
    place.send(copy_of(place, seed.url))
    (second,) = await two.claim(5)
    assert await two.settle([(second, done(3))]) == [Settled.SETTLED]
    assert await one.settle([(first, done(4))]) == [Settled.LOST]
    assert await one.settle([(first, retry(0.0, "reset", "gone"))]) == [Settled.LOST]
    counts = await one.counts("c")
    assert (counts.done, counts.bytes) == (1, 3)
    assert place.depth() == (0, 0, 0)


@pytest.mark.case("F01", "F12")
async def test_a_lease_that_expired_and_was_handed_on_is_lost(opening: Open, place: Place) -> None:
    url = place.url(place.normal)
    place.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
    one, two = await opening("one"), await opening("two")
    await one.add("c", [page("https://site.example/")])
    (first,) = await one.claim(5)
    second = await two.claim(5) or await two.claim(5)
    assert [lease.receives for lease in second] == [2]
    assert await one.extend([first]) == [Settled.LOST]
    assert await one.settle([(first, done())]) == [Settled.LOST]
    assert await two.extend(second) == [Settled.SETTLED]
    assert await two.settle([(second[0], done())]) == [Settled.SETTLED]


async def test_a_page_that_must_wait_longer_than_a_queue_can_delay_is_delayed_again(
    state: AwsState, place: Place
) -> None:
    later, now = "https://site.example/later", "https://site.example/now"
    place.send(copy_of(place, later, not_before=time.time() + 2_000))
    place.send(copy_of(place, now, not_before=time.time() - 1))
    (lease,) = await state.claim(5)
    assert (lease.url, lease.attempt) == (now, 1)
    assert place.depth() == (0, 1, 1)
    assert (await state.counts("c")).pending == 1


@pytest.mark.case("F06")
async def test_a_retry_in_an_hour_is_delayed_and_not_lost(state: AwsState, place: Place) -> None:
    await state.add("c", [page("https://site.example/")])
    (lease,) = await state.claim(5)
    assert await state.settle([(lease, retry(time.time() + 3_600, "reset", "gone"))]) == [Settled.SETTLED]
    assert place.depth() == (0, 0, 1)
    assert not await state.complete("c")


@pytest.mark.case("F01")
async def test_pages_whose_turn_is_far_wait_on_the_queue_and_near_ones_in_hand(opening: Open, place: Place) -> None:
    state = await opening(rate=0.5)
    await state.add("c", pages(10))
    leases = await state.claim(10)
    assert 1 <= len(leases) <= 3
    starts = [lease.start_at for lease in leases]
    assert all(later - earlier >= 1.999 for earlier, later in itertools.pairwise(starts))
    visible, in_flight, delayed = place.depth()
    assert (visible, in_flight + delayed) == (0, 10)
    assert len(leases) <= in_flight <= 5


async def test_a_held_gate_closes_a_crawl_without_rate(opening: Open, place: Place) -> None:
    state, other = await opening("one"), await opening("two")
    await state.add("c", pages(3, host="slow.example"))
    until = time.time() + 600
    await other.hold("slow.example", until=until)
    await other.hold("slow.example", until=until - 300)
    assert await state.claim(5) == []
    assert place.depth() == (0, 0, 3)
    assert await state.turn("c", "slow.example") == pytest.approx(until, abs=0.001)


async def test_a_gates_own_interval_paces_a_crawl_without_rate(state: AwsState) -> None:
    await state.hold("site.example", interval=1.5)
    await state.add("c", pages(3))
    starts = sorted(lease.start_at for lease in await state.claim(5))
    assert [round(later - starts[0], 3) for later in starts] == [0.0, 1.5, 3.0]
    assert await state.turn("c", "site.example") == pytest.approx(starts[0] + 4.5, abs=0.001)
    await state.hold("site.example", interval=0.0)
    assert await state.turn("c", "site.example") <= time.time()


async def test_turns_of_racing_workers_are_an_interval_apart(opening: Open) -> None:
    states = [await opening(f"w{number}", rate=100.0) for number in range(4)]
    turns = await asyncio.gather(*(state.turn("c", "busy.example") for state in states for _ in range(8)))
    assert all(later - earlier >= 0.0099 for earlier, later in itertools.pairwise(sorted(turns)))


async def test_the_page_limit_lets_no_page_too_many_out(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "NEAR_LIMIT", 0)
    state = await opening(max_pages=3)
    await state.add("c", pages(9))
    first = await state.claim(10)
    assert len(first) == 3
    assert {lease.limit for lease in first} == {""}
    await state.settle([(lease, done()) for lease in first])
    rest = [*await state.claim(10), *await state.claim(10)]
    assert len(rest) == 6
    assert {lease.limit for lease in rest} == {"max-pages"}


async def test_the_time_limit_hands_all_pages_out_without_turns(opening: Open) -> None:
    state = await opening(max_time=2.0, rate=0.1)
    await state.add("c", pages(5))
    until = time.time() + 10
    leases: list[Lease] = []
    while len(leases) < 5 and time.time() < until:
        leases += await state.claim(10)
    assert [lease.limit for lease in leases] == ["", *["max-time"] * 4]


async def test_lanes_are_claimed_best_first_and_none_starves(state: AwsState) -> None:
    for priority in (Priority.LOW, Priority.NORMAL, Priority.HIGH):
        some = [page(f"https://site.example/{priority}/{number}", priority=priority) for number in range(30)]
        await state.add("c", some)
    claims = [await state.claim(5) for _ in range(18)]
    order = [lease.priority for leases in claims for lease in leases]
    assert order[:10] == [Priority.HIGH] * 10
    assert set(order[:60]) == set(Priority)
    assert len(order) == 90


async def test_a_worker_of_one_crawl_puts_the_others_pages_back(opening: Open, place: Place) -> None:
    state = await opening()
    await state.create(CrawlRecord(id="another", started_at=time.time(), settings=CrawlSettings()))
    await state.add("c", pages(2))
    assert await state.claim(5, "another") == []
    assert place.depth() == (0, 0, 2)
    with pytest.raises(UsageError):
        await state.claim(5, "none")


async def test_what_a_cancelled_claim_received_is_given_back(opening: Open, place: Place) -> None:
    state = await opening()
    claim = asyncio.create_task(state.claim(5))
    await asyncio.sleep(0.5)  # into its long poll
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    place.send(copy_of(place, "https://site.example/"))
    await state.close()
    assert place.depth() == (1, 0, 0)


async def test_messages_of_a_crawl_that_is_gone_are_dropped(opening: Open, place: Place) -> None:
    state = await opening()
    place.send(copy_of(place, "https://site.example/", crawl="gone"))
    assert await state.claim(5) == []
    assert place.depth() == (0, 0, 0)
    with pytest.raises(UsageError, match="no crawl 'gone'"):
        await state.counts("gone")


async def test_a_defer_gives_the_attempt_back_and_a_duplicate_in_a_settlement_is_lost(
    state: AwsState, place: Place
) -> None:
    await state.add("c", [page("https://site.example/")])
    (lease,) = await state.claim(5)
    assert await state.settle([(lease, defer(0.0)), (lease, defer(0.0))]) == [Settled.SETTLED, Settled.SETTLED]
    assert place.depth() == (1, 0, 0)


async def test_a_crawls_own_lease_is_given_to_what_was_received_in_one_more_request(opening: Open) -> None:
    state = await opening(lease=600.0)
    await state.add("c", pages(5))
    before = state.requests.copy()
    leases = await state.claim(5)
    assert {round(lease.expires_at - time.time(), -1) for lease in leases} == {600}
    assert (state.requests - before)["sqs.ChangeMessageVisibilityBatch"] == 1


async def test_the_queues_own_lease_costs_no_request_and_is_in_the_record(opening: Open) -> None:
    state = await opening()
    assert [crawl.settings.lease for crawl in await state.crawls()] == [30.0]
    await state.add("c", pages(5))
    leases = await state.claim(5)
    assert {round(lease.expires_at - time.time(), -1) for lease in leases} == {30}
    assert "sqs.ChangeMessageVisibilityBatch" not in state.requests
    await state.amend("c", CrawlSettings(rate=0.0))
    assert [crawl.settings.lease for crawl in await state.crawls()] == [30.0]


async def test_a_lease_shorter_than_the_queues_is_over_when_it_says(opening: Open) -> None:
    one, two = await opening("one", lease=5.0), await opening("two")
    await one.add("c", pages(1))
    (first,) = await one.claim(5)
    again: list[Lease] = []
    while not again and time.time() < first.expires_at + 5:
        again = await two.claim(5)
    assert [lease.receives for lease in again] == [2]
    assert time.time() >= first.expires_at
    assert await one.settle([(first, done(1))]) == [Settled.LOST]


@pytest.mark.usefixtures("impatient")
async def test_leases_that_could_not_be_changed_last_as_long_as_the_queues(proxy: Proxy, opening: Open) -> None:
    state = await opening(lease=600.0)
    await state.add("c", pages(3))
    proxy.drop("ChangeMessageVisibilityBatch", times=10)
    leases = await state.claim(5)
    assert {round(lease.expires_at - time.time(), -1) for lease in leases} == {30}


async def test_a_message_delivered_again_while_its_lease_lives_makes_no_second_one(
    state: AwsState, place: Place
) -> None:
    await state.add("c", pages(1))
    (lease,) = await state.claim(5)
    handle = lease.token.partition(":")[2]
    url = place.url(place.normal)
    place.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    assert await state.claim(5) == []
    assert place.depth() == (0, 1, 0)
    assert await state.settle([(lease, done(1))]) == [Settled.SETTLED]
    assert (await state.counts("c")).done == 1
