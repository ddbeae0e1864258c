"""Repairs that are interrupted, repeated, or meet others at work."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest

from crawler.config import CrawlSettings
from crawler.errors import StateUnavailable
from crawler.model import Added, CrawlRecord, PageState, Phase, dead, done
from crawler.state.aws.repair import ABANDONED
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, copy_of, page, pages
from tests.aws.proxy import Answer, Forward, Proxy

pytestmark = pytest.mark.usefixtures("impatient")

ALWAYS = 1_000


async def given_up(state: AwsState, count: int) -> list[bytes]:
    """Digests of pages that were added and died."""
    await state.add("c", pages(count))
    leases = await state.claim(count)
    await state.settle([(lease, dead("dns", "no such host")) for lease in leases])
    return [lease.digest for lease in leases]


async def letters(state: AwsState) -> list[PageState]:
    return [line async for line in state.ledger("c", Phase.DEAD)]


async def again(state: AwsState, crawl: str = "c") -> None:
    """Begin the crawl anew under its name."""
    await state.create(CrawlRecord(id=crawl, started_at=time.time(), settings=CrawlSettings(rate=0.0)))


# ---------------------------------------------------------------- revive


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchExecuteStatement", "UpdateItem", "SendMessageBatch"])
@pytest.mark.parametrize("executed", [True, False], ids=["answer-lost", "not-executed"])
async def test_a_revival_that_failed_anywhere_can_be_repeated(
    proxy: Proxy, opening: Open, operation: str, executed: bool
) -> None:
    state = await opening()
    wanted = [(digest, 0.0) for digest in await given_up(state, 5)]
    assert await state.complete("c")
    (proxy.lose if executed else proxy.drop)(operation, times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await state.revive("c", wanted)
    proxy.heal()
    assert await state.revive("c", wanted) == [True] * 5
    assert await state.revive("c", wanted) == [False] * 5
    assert await letters(state) == []
    leases = await state.claim(50)
    assert sorted(lease.digest for lease in leases) == sorted(digest for digest, _ in wanted)
    await state.settle([(lease, done(1)) for lease in leases])
    assert await state.claim(50) == []
    assert await state.complete("c")
    counts = await state.counts("c")
    assert (counts.discovered, counts.done, counts.dead) == (5, 5, 0)


async def test_what_a_dead_process_revived_and_did_not_send_is_still_listed_and_revived_later(
    proxy: Proxy, opening: Open
) -> None:
    dying, other = await opening("dying"), await opening("other")
    later = await opening("later", clock=lambda: time.time() + ABANDONED + 1)
    wanted = [(digest, 0.0) for digest in await given_up(other, 2)]
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.revive("c", wanted)
    proxy.heal()
    assert {(letter.reason, letter.error) for letter in await letters(other)} == {("dns", "no such host")}
    assert await other.revive("c", wanted) == [False, False], "it may be sending at this moment"
    assert await later.revive("c", wanted) == [True, True]
    assert await letters(other) == []
    assert len(await other.claim(5)) == 2


async def test_a_sweep_queues_what_a_dead_process_revived_and_opens_the_crawl(
    proxy: Proxy, opening: Open, place: Place
) -> None:
    dying, other = await opening("dying"), await opening("other")
    wanted = [(digest, 0.0) for digest in await given_up(other, 2)]
    assert await other.complete("c")
    proxy.drop("UpdateItem", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.revive("c", wanted)
    proxy.heal()
    assert (await other.crawls())[0].completed_at is not None
    assert await other.sweep("c") == 2
    assert (await other.crawls())[0].completed_at is None
    assert await letters(other) == []
    assert place.depth() == (2, 0, 0)


async def test_a_revival_in_an_hour_is_delayed_again(state: AwsState, place: Place) -> None:
    (digest,) = await given_up(state, 1)
    at = time.time() + 3_600
    assert await state.revive("c", [(digest, at)]) == [True]
    assert place.depth() == (0, 0, 1)
    assert not await state.complete("c")


async def test_a_revived_page_knows_its_parent(state: AwsState) -> None:
    seed = page("https://site.example/")
    await state.add("c", [seed])
    (above,) = await state.claim(5)
    await state.add("c", [page("https://site.example/child", seed)])
    (below,) = await state.claim(5)
    await state.settle([(above, done(1)), (below, dead("dns", "no such host"))])
    await state.revive("c", [(below.digest, 0.0)])
    (lease,) = await state.claim(5)
    assert (lease.parent_url, lease.depth) == (seed.url, 1)


# ---------------------------------------------------------------- sweep


async def test_a_sweep_queues_what_is_recorded_and_on_no_queue(proxy: Proxy, opening: Open) -> None:
    dying, other = await opening("dying"), await opening("other")
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.add("c", pages(12))
    proxy.heal()
    assert await other.sweep("c") == 12
    assert await other.sweep("c") == 0
    leases = await other.claim(20)
    assert len(leases) == 12
    assert await other.sweep("c") == 0
    await other.settle([(lease, done(1)) for lease in leases])
    assert await other.complete("c")


async def test_a_sweep_says_why_it_does_nothing(proxy: Proxy, opening: Open, caplog: pytest.LogCaptureFixture) -> None:
    dying, other = await opening("dying"), await opening("other")
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.add("c", pages(2))
    proxy.heal()
    await again(other, "another")
    await other.add("another", pages(3))
    with caplog.at_level(logging.INFO):
        assert await other.sweep("c") == 0
    assert any("3 messages are on the queues" in record.message for record in caplog.records)


async def test_a_sweep_leaves_a_crawl_alone_that_moves_while_it_looks(
    proxy: Proxy, opening: Open, place: Place
) -> None:
    dying, other = await opening("dying"), await opening("other")
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.add("c", pages(2))
    proxy.heal()

    async def meanwhile(_: dict[str, Any], forward: Forward) -> Answer:
        answer = await forward()
        await dying.add("c", [page("https://site.example/new", skip="trap")])
        return answer

    proxy.on("Scan", meanwhile)
    assert await other.sweep("c") == 0
    assert place.depth() == (0, 0, 0)


# ---------------------------------------------------------------- purge


async def test_messages_of_a_purged_crawl_are_dropped_and_bring_nothing_back(opening: Open, place: Place) -> None:
    state, other = await opening(), await opening("other")
    await state.add("c", pages(4))
    await state.purge("c")
    place.send('{"url": "https://site.example/", "crawl": "c"}')
    assert await state.claim(10) == await other.claim(10) == []
    assert place.depth() == (0, 0, 0)
    assert place.items() == []
    assert await other.crawls() == []


async def test_a_crawl_begun_anew_takes_no_old_message_for_its_own(opening: Open, place: Place) -> None:
    state, other = await opening(), await opening("other")
    await state.add("c", pages(4))
    old = [copy_of(place, f"https://site.example/{name}") for name in ("unrecorded", "0")]
    await state.purge("c")
    await again(other)
    assert await other.add("c", pages(2)) == [Added.NEW] * 2
    for body in old:
        place.send(body)
    # This handle has not yet heard of either.
    leases = [*await state.claim(20), *await state.claim(20)]
    assert len(leases) == 2
    await state.settle([(lease, done(1)) for lease in leases])
    assert place.depth() == (0, 0, 0)
    assert await other.complete("c")
    counts = await other.counts("c")
    assert (counts.discovered, counts.done) == (2, 2)


async def test_pages_that_a_worker_adds_unaware_are_not_known_to_the_next_crawl(opening: Open, place: Place) -> None:
    unaware, state = await opening("unaware"), await opening()
    await unaware.add("c", pages(1))
    (lease,) = await unaware.claim(5)
    await state.purge("c")
    await again(state)
    links = pages(5, page(lease.url))
    assert await unaware.add("c", links) == [Added.NEW] * 5, "it learns of the new crawl, and adds to that"
    assert await state.add("c", [page(link.url) for link in links]) == [Added.KNOWN] * 5
    assert (await state.counts("c")).discovered == 5
    # What it had inserted before it knew belongs to no crawl, and goes with the next purge.
    assert len(place.items()) == 10
    await state.purge("c")
    assert place.items() == []


async def test_a_purge_that_failed_anywhere_can_be_repeated(proxy: Proxy, opening: Open, place: Place) -> None:
    state = await opening()
    await state.add("c", pages(60))
    for operation in ("UpdateItem", "Scan", "BatchWriteItem"):
        for fail in (proxy.drop, proxy.lose):
            fail(operation, times=ALWAYS)
            with pytest.raises(StateUnavailable):
                await state.purge("c")
            proxy.heal()
    await state.purge("c")
    assert place.items() == []
    assert not [item for item in place.items(place.control) if item["pk"]["S"].startswith("#scope#")]


async def test_deletions_that_a_batch_left_out_are_sent_again(proxy: Proxy, opening: Open, place: Place) -> None:
    state = await opening()
    await state.add("c", pages(30))

    async def ten_at_a_time(asked: dict[str, Any], forward: Forward) -> Answer:
        ((table, requests),) = asked["RequestItems"].items()
        asked["RequestItems"] = {table: requests[:10]}
        answer = await forward()
        answer["UnprocessedItems"] = {table: requests[10:]} if requests[10:] else {}
        return answer

    proxy.on("BatchWriteItem", ten_at_a_time, times=2)
    await state.purge("c")
    assert place.items() == []


async def test_the_mark_of_a_purged_crawl_outlives_its_messages_and_no_more(state: AwsState, place: Place) -> None:
    await state.purge("c")
    (mark,) = [item for item in place.items(place.control) if item["pk"]["S"] == "#crawl#c"]
    days = (int(mark["ttl"]["N"]) - time.time()) / 86_400
    assert 14 < days <= 15
    await again(state)
    (record,) = [item for item in place.items(place.control) if item["pk"]["S"] == "#crawl#c"]
    assert "ttl" not in record
    assert json.loads(record["settings"]["S"])["rate"] == 0


async def test_a_crawl_whose_name_begins_like_anothers_is_not_purged_with_it(opening: Open) -> None:
    state = await opening()
    for name in ("c-1", "cc", "c.1"):
        await again(state, name)
        await state.add(name, pages(2))
    await state.purge("c")
    for name in ("c-1", "cc", "c.1"):
        assert len([line async for line in state.ledger(name)]) == 2
        assert await state.in_scope(name, ["site.example"]) == [True]
