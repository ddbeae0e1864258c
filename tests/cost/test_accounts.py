"""The accounts of crawls: what a fleet uses is paid by its workers, shared out, once."""

from __future__ import annotations

import pytest

from crawler.cost.usage import PROCESS, Unit, Usage
from crawler.errors import StateUnavailable
from crawler.model import Beat, CrawlRecord, done
from crawler.state.aws import accounts
from crawler.state.aws.accounts import split
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, pages
from tests.aws.proxy import Proxy

pytestmark = pytest.mark.emulator


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def nothing_owed() -> None:
    """What other tests of this process used is not of these accounts."""
    PROCESS.take(Usage())


def at(clock: Clock) -> Beat:
    return Beat(worker="w", at=clock())


async def used(state: AwsState, crawl: str = "c") -> Usage:
    return (await state.accounts(crawl))[0].used


async def test_a_worker_pays_once_a_minute_and_when_it_ends(opening: Open) -> None:
    clock = Clock()
    state = await opening(clock=clock)
    await state.add("c", pages(3))
    await state.beat(at(clock))
    assert not await used(state)
    clock.now += 61
    await state.beat(at(clock))
    first = await used(state)
    assert first.requests["dynamodb.BatchExecuteStatement"] == 1
    assert first.requests["sqs.SendMessageBatch"] == 1
    clock.now += 5
    await state.settle([(lease, done(1)) for lease in await state.claim(3)])
    await state.beat(at(clock))
    assert await used(state) == first
    await state.beat(Beat(worker="w", at=0.0))
    assert (await used(state)).requests["dynamodb.BatchExecuteStatement"] == 2


async def test_what_closing_takes_is_paid_and_the_payment_is_in_the_account(opening: Open) -> None:
    before = PROCESS.used()
    state = await opening()
    await state.add("c", pages(1))
    await state.close()
    spent = PROCESS.used() - before
    reader = await opening("reader")
    paid = await used(reader)
    assert dict(paid.requests) == dict(spent.requests)
    assert dict(paid.units) == dict(spent.units)


async def test_what_two_workers_use_adds_up(opening: Open, place: Place) -> None:
    before = PROCESS.used()
    for worker in ("one", "two"):
        state = await opening(worker)
        await state.add("c", pages(1))
        await state.close()
    spent = PROCESS.used() - before
    assert await used(await opening("reader")) == spent
    items = [item for item in place.items(place.control) if item["pk"]["S"].startswith(accounts.PREFIX)]
    assert [item["pk"]["S"] for item in items] == ["#cost#c"]


async def test_a_minute_is_shared_out_by_the_pages_finished_for_each_crawl(opening: Open) -> None:
    clock = Clock()
    state = await opening(clock=clock)
    await state.create(CrawlRecord(id="d", started_at=clock(), settings=(await state.crawls())[0].settings))
    await state.add("c", pages(9))
    await state.add("d", pages(3))
    leases = [lease for _ in range(3) for lease in await state.claim(12)]
    assert len(leases) == 12
    await state.settle([(lease, done(1)) for lease in leases])
    clock.now += 61
    await state.beat(at(clock))
    c, d = await used(state), await used(state, "d")
    assert c.units[Unit.WRITES] == pytest.approx(3 * d.units[Unit.WRITES], abs=3)


async def test_idle_workers_are_nobody_s_and_readers_pay_nothing(opening: Open, place: Place) -> None:
    clock = Clock()
    reader = await opening("reader", clock=clock)
    await reader.counts("c")
    await reader.close()
    assert not [item for item in place.items(place.control) if item["pk"]["S"].startswith(accounts.PREFIX)]
    worker = await opening(clock=clock)
    clock.now += 61
    await worker.beat(at(clock))
    crawl, idle = await worker.accounts("c")
    assert not crawl.used
    assert idle.used.requests["sqs.GetQueueUrl"] == 6
    assert idle.updated_at == clock()


async def test_a_payment_that_fails_is_made_with_the_next(opening: Open, proxy: Proxy) -> None:
    clock = Clock()
    state = await opening(clock=clock)
    await state.add("c", pages(1))
    clock.now += 61
    proxy.fail("UpdateItem", 400, "AccessDeniedException")
    with pytest.raises(StateUnavailable):
        await state.beat(at(clock))
    clock.now += 61
    await state.beat(at(clock))
    assert (await used(state)).requests["dynamodb.BatchExecuteStatement"] == 1


async def test_a_purged_crawl_has_no_account_and_is_paid_nothing(opening: Open, place: Place) -> None:
    clock = Clock()
    state = await opening(clock=clock)
    await state.add("c", pages(1))
    clock.now += 61
    await state.beat(at(clock))
    assert await used(state)
    await state.add("c", pages(2))
    await state.purge("c")
    clock.now += 61
    await state.beat(at(clock))
    keys = {item["pk"]["S"] for item in place.items(place.control) if item["pk"]["S"].startswith(accounts.PREFIX)}
    assert keys == {accounts.PREFIX + accounts.NOBODY}


def test_shares_are_whole_and_add_up() -> None:
    spent = Usage({"a.B": 7, "a.C": 1}, {Unit.WRITES: 10})
    parts = dict(split(spent, {"x": 1, "y": 1, "z": 1, "none": 0}))
    assert sum(parts.values(), Usage()) == spent
    assert {name: part.requests.get("a.B") for name, part in parts.items()} == {"x": 2, "y": 2, "z": 3}


async def test_the_item_of_an_account_stays_below_a_kilobyte(opening: Open, place: Place) -> None:
    clock = Clock()
    state = await opening(clock=clock)
    await state.add("c", pages(1))
    operations = {
        "sqs": "SendMessageBatch ReceiveMessage DeleteMessageBatch ChangeMessageVisibilityBatch GetQueueUrl"
        " GetQueueAttributes",
        "dynamodb": "BatchGetItem BatchExecuteStatement BatchWriteItem PutItem UpdateItem Scan",
        "s3": "PutObject ListObjectsV2 GetObject DeleteObjects CopyObject CreateMultipartUpload UploadPart"
        " CompleteMultipartUpload",
        "cloudformation": "DescribeStacks",
    }
    names = [f"{service}.{operation}" for service, some in operations.items() for operation in some.split()]
    large = 10**11
    PROCESS.give_back(Usage(dict.fromkeys(names, large), dict.fromkeys(map(str, Unit), large)))
    clock.now += 61
    before = PROCESS.used()
    await state.beat(at(clock))
    assert (PROCESS.used() - before).units[Unit.WRITES] == 3  # its sign of life, its name on the list, its payment
    assert (await used(state)).requests["dynamodb.Scan"] == large
