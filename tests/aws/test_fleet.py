"""Facts, signs of life, crawls, and when a crawl is complete."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import Beat, CrawlRecord, Settled, done
from crawler.state.aws import completion
from crawler.state.aws.facts import LARGEST
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages


async def test_facts_live_as_long_as_told(opening: Open) -> None:
    state = await opening()
    late = await opening(clock=lambda: time.time() + 61)
    value = random.Random(1).randbytes(LARGEST)
    assert await state.remember("a", value, 60)
    assert await state.recall(["a", "b", "a"]) == [value, None, value]
    assert not await state.remember("a", b"x", 60, if_absent=True)
    assert await late.recall(["a"]) == [None]
    assert await late.remember("a", b"y", 60, if_absent=True)
    assert await late.remember("a", b"", 60)
    assert await late.recall(["a"]) == [b""]
    assert await state.remember("n" * 5_000, b"z", 60)
    assert await state.recall(["n" * 5_000]) == [b"z"]
    with pytest.raises(UsageError, match="at most"):
        await state.remember("a", value + b"!", 60)


async def test_of_many_only_one_is_first(opening: Open) -> None:
    states = [await opening(f"w{number}") for number in range(3)]
    calls = [state.remember("once", b"x", 60, if_absent=True) for state in states for _ in range(5)]
    assert sum(await asyncio.gather(*calls)) == 1


async def test_signs_of_life_are_written_seldom_and_expire(opening: Open) -> None:
    now = time.time()
    one, two = await opening("one"), await opening("two")
    for second in range(3):
        await one.beat(Beat(worker="one", at=now + second / 100, held=second))
    await two.beat(Beat(worker="two", at=now, rate=2.5))
    assert [(beat.worker, beat.held) for beat in await one.workers()] == [("one", 2), ("two", 0)]
    assert [(beat.worker, beat.rate) for beat in await two.workers()] == [("one", 0.0), ("two", 2.5)]
    puts = one.requests["dynamodb.PutItem"]
    await one.beat(Beat(worker="one", at=now))
    assert one.requests["dynamodb.PutItem"] == puts
    late = await opening(clock=lambda: now + 61)
    assert await late.workers() == []


async def test_crawls_are_created_once_listed_and_amended(opening: Open) -> None:
    one, two = await opening("one"), await opening("two")
    first = await one.create(CrawlRecord(id="b", started_at=5.0, settings=CrawlSettings(rate=3.0), store="s3://x"))
    assert await two.create(CrawlRecord(id="b", started_at=6.0, settings=CrawlSettings())) == first
    await two.amend("b", CrawlSettings(rate=7.0))
    assert [(crawl.id, crawl.settings.rate) for crawl in await one.crawls()] == [("b", 7.0), ("c", 0.0)]
    with pytest.raises(UsageError):
        await one.amend("none", CrawlSettings())


async def test_one_table_can_serve_for_both(place: Place) -> None:
    state = await AwsState.open(f"?queue={place.normal}&table={place.table}", worker="w")
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    await state.add("c", [page("https://site.example/")])
    (lease,) = await state.claim(5)
    await state.settle([(lease, done())])
    assert await state.complete("c")
    assert [entry.url async for entry in state.ledger("c")] == ["https://site.example/"]
    await state.close()


async def test_a_crawl_with_a_page_in_flight_anywhere_is_not_complete(opening: Open) -> None:
    one, two = await opening("one"), await opening("two")
    await one.add("c", pages(2))
    leases = await one.claim(2)
    assert not await two.complete("c")
    assert await one.settle([(leases[0], done())]) == [Settled.SETTLED]
    assert not await two.complete("c")
    await one.settle([(leases[1], done())])
    assert await two.complete("c")
    assert await one.complete("c")


async def test_messages_of_another_crawl_do_not_keep_a_crawl_open_for_ever(
    state: AwsState, monkeypatch: pytest.MonkeyPatch
) -> None:
    await state.create(CrawlRecord(id="other", started_at=time.time(), settings=CrawlSettings()))
    await state.add("other", pages(1))
    assert not await state.complete("c")
    monkeypatch.setattr(completion, "OTHERS_MESSAGES", 0.0)
    assert await state.complete("c")
    assert not await state.complete("other")


async def test_a_worker_killed_between_record_and_counter_leaves_the_crawl_able_to_end(
    state: AwsState, place: Place
) -> None:
    await state.add("c", pages(2))
    one, two = await state.claim(5)
    # As a killed worker leaves it: one page is finished and not counted, and its message comes back.
    place.dynamodb.update_item(
        TableName=place.table,
        Key={"pk": {"S": f"c#{place.run('c')}#{one.digest.hex()}"}},
        UpdateExpression="SET phase = :d",
        ExpressionAttributeValues={":d": {"S": "d"}},
    )
    await state.settle([(two, done())])
    assert await state.settle([(one, done())]) == [Settled.LOST]
    counts = await state.counts("c")
    assert (counts.outstanding, counts.done, counts.exact) == (0, 1, False)
    assert await state.complete("c")
    counts = await state.counts("c")
    assert (counts.discovered, counts.done, counts.exact) == (2, 2, True)


async def test_a_goodbye_is_written_at_once(opening: Open) -> None:
    one, two = await opening("one"), await opening("two")
    await one.beat(Beat(worker="one", at=time.time()))
    assert [beat.worker for beat in await two.workers()] == ["one"]
    await one.beat(Beat(worker="one", at=0.0))
    assert await two.workers() == []
    assert await one.workers() == []
