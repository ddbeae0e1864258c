"""Requests that fail, are half done, or done without an answer: nothing is lost or doubled, nothing escapes."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.errors import StateUnavailable
from crawler.model import Added, Beat, Settled, defer, done
from crawler.state.aws import claiming
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages
from tests.aws.proxy import Answer, Forward, Proxy

pytestmark = pytest.mark.usefixtures("impatient")

ALWAYS = 1_000


async def drain(state: AwsState) -> list[str]:
    """Claim and settle until nothing comes; the URLs in the order of their claims."""
    urls = []
    empty = 0
    while empty < 3:  # one claim may find only second messages of pages that have ended
        leases = await state.claim(50)
        empty = 0 if leases else empty + 1
        urls += [lease.url for lease in leases]
        await state.settle([(lease, done(1)) for lease in leases])
    return urls


@pytest.mark.case("F04", "F10")
async def test_messages_that_a_batch_left_out_are_sent_again(proxy: Proxy, opening: Open) -> None:
    state = await opening()

    async def half(asked: dict[str, Any], forward: Forward) -> Answer:
        kept, left = asked["Entries"][::2], asked["Entries"][1::2]
        asked["Entries"] = kept
        answer = await forward()
        codes = [("InternalError", False), ("RequestThrottled", True)]
        answer["Failed"] = [
            {"Id": entry["Id"], "Code": codes[i % 2][0], "SenderFault": codes[i % 2][1]} for i, entry in enumerate(left)
        ]
        return answer

    proxy.on("SendMessageBatch", half, times=2)
    added = pages(10)
    await state.add("c", added)
    assert sorted(await drain(state)) == sorted(page.url for page in added)
    assert await state.complete("c")


@pytest.mark.case("F04", "F05")
async def test_a_message_that_sqs_never_takes_ends_as_skipped(proxy: Proxy, opening: Open) -> None:
    state = await opening()

    async def refuse_first(asked: dict[str, Any], forward: Forward) -> Answer:
        asked["Entries"] = asked["Entries"][1:]
        answer = await forward()
        answer["Failed"] = [{"Id": "0", "Code": "InvalidMessageContents", "SenderFault": True}]
        return answer

    proxy.on("SendMessageBatch", refuse_first)
    await state.add("c", pages(3))
    assert len(await drain(state)) == 2
    assert await state.complete("c")
    assert (await state.counts("c")).skipped == 1


@pytest.mark.case("F10")
async def test_unprocessed_keys_are_read_again(proxy: Proxy, opening: Open) -> None:
    state = await opening()
    added = pages(30)
    await state.add("c", added)

    async def a_third(asked: dict[str, Any], forward: Forward) -> Answer:
        (table,) = asked["RequestItems"]
        keys = asked["RequestItems"][table]["Keys"]
        asked["RequestItems"][table]["Keys"] = keys[:10]
        answer = await forward()
        answer["UnprocessedKeys"] = {table: {"Keys": keys[10:], "ConsistentRead": True}} if keys[10:] else {}
        return answer

    proxy.on("BatchGetItem", a_third, times=3)
    assert await state.add("c", added) == [Added.AGAIN] * 30


@pytest.mark.case("F10")
@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded", "InternalServerError"])
async def test_throttled_statements_are_run_again(proxy: Proxy, opening: Open, code: str) -> None:
    state = await opening()

    async def two_at_a_time(asked: dict[str, Any], forward: Forward) -> Answer:
        left = len(asked["Statements"]) - 2
        asked["Statements"] = asked["Statements"][:2]
        answer = await forward()
        answer["Responses"] += [{"Error": {"Code": code, "Message": "slow down"}}] * left
        return answer

    proxy.on("BatchExecuteStatement", two_at_a_time, times=2)
    assert await state.add("c", pages(6)) == [Added.NEW] * 6
    leases = await state.claim(10)
    proxy.on("BatchExecuteStatement", two_at_a_time, times=2)
    assert await state.settle([(lease, done(1)) for lease in leases]) == [Settled.SETTLED] * 6
    assert await state.complete("c")
    assert (await state.counts("c")).done == 6


@pytest.mark.parametrize("operation", ["BatchGetItem", "BatchExecuteStatement", "UpdateItem", "SendMessageBatch"])
@pytest.mark.parametrize("executed", [True, False], ids=["answer-lost", "not-executed"])
async def test_an_add_that_failed_anywhere_can_be_repeated(
    proxy: Proxy, opening: Open, operation: str, executed: bool
) -> None:
    state = await opening()
    await state.counts("c")
    (proxy.lose if executed else proxy.drop)(operation, times=ALWAYS)
    parent = page("https://site.example/")
    added = pages(30, parent)
    with pytest.raises(StateUnavailable):
        await state.add("c", added)
    proxy.heal()
    assert await state.add("c", added) == [Added.NEW] * 30
    assert await state.add("c", added) == [Added.AGAIN] * 30
    urls = await drain(state)
    assert set(urls) == {page.url for page in added}
    assert await state.complete("c")
    assert (await state.counts("c")).discovered == 30


@pytest.mark.parametrize(
    "operation", ["BatchExecuteStatement", "BatchGetItem", "UpdateItem", "SendMessageBatch", "DeleteMessageBatch"]
)
@pytest.mark.parametrize("executed", [True, False], ids=["answer-lost", "not-executed"])
async def test_a_settlement_that_failed_anywhere_can_be_repeated(
    proxy: Proxy, opening: Open, operation: str, executed: bool
) -> None:
    state = await opening()
    await state.add("c", pages(6))
    leases = await state.claim(10)
    endings = [(lease, done(5) if number % 2 else defer(0.0)) for number, lease in enumerate(leases)]
    (proxy.lose if executed else proxy.drop)(operation, times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await state.settle(endings)
    proxy.heal()
    assert await state.settle(endings) == [Settled.SETTLED] * 6
    assert set(await drain(state)) == {lease.url for lease, verdict in endings if verdict == defer(0.0)}
    assert await state.complete("c")
    assert (await state.counts("c")).done == 6


@pytest.mark.usefixtures("retrying")
async def test_an_insert_whose_answer_is_lost_once_is_still_new(proxy: Proxy, opening: Open) -> None:
    state = await opening()
    proxy.lose("BatchExecuteStatement")
    assert await state.add("c", pages(3)) == [Added.NEW] * 3
    leases = await state.claim(10)
    proxy.lose("BatchExecuteStatement")
    assert await state.settle([(lease, done(1)) for lease in leases]) == [Settled.SETTLED] * 3
    assert (await state.counts("c")).done == 3


@pytest.mark.usefixtures("retrying")
async def test_of_many_rememberers_one_is_first_even_if_its_answer_is_lost(proxy: Proxy, opening: Open) -> None:
    state = await opening()
    proxy.lose("PutItem")
    assert await state.remember("robots", b"x", 60, if_absent=True)
    assert not await state.remember("robots", b"y", 60, if_absent=True)
    assert await state.recall(["robots", "else"]) == [b"x", None]


@pytest.mark.case("F09")
async def test_children_that_a_dead_worker_recorded_and_did_not_queue_come_with_their_parent(
    proxy: Proxy, opening: Open, place: Place
) -> None:
    dying, other = await opening("dying"), await opening("other")
    parent = page("https://site.example/")
    children = pages(12, parent)
    await other.add("c", [parent])
    (first,) = await other.claim(10)
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.add("c", children)
    proxy.heal()
    assert len(place.items()) == 13
    # Another process than the one that failed: it only knows that its delivery of the parent is not the first.
    again = [page(child.url, parent, redelivered=True) for child in children]
    assert await other.add("c", again) == [Added.AGAIN] * 12
    await other.settle([(first, done(1))])
    assert sorted(await drain(other)) == sorted(child.url for child in children)
    assert await other.complete("c")
    assert (await other.counts("c")).discovered == 13


@pytest.mark.case("F09")
async def test_pages_recorded_and_on_no_queue_are_swept_when_nothing_else_is_left(
    proxy: Proxy, opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.state.aws.completion.SWEEP_AFTER", 0.0)
    dying, other = await opening("dying"), await opening("other")
    proxy.drop("SendMessageBatch", times=ALWAYS)
    with pytest.raises(StateUnavailable):
        await dying.add("c", pages(3))
    proxy.heal()
    assert (await other.counts("c")).outstanding == 0, "the queues are empty: the counters are not to be believed"
    assert not await other.complete("c")
    assert len(await drain(other)) == 3
    assert await other.complete("c")


async def test_pages_received_while_the_tables_are_away_are_no_step_nearer_to_the_dead_letters(
    proxy: Proxy, opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "OUTAGE", 0)
    state = await opening()
    await state.add("c", pages(3))
    for _ in range(4):
        proxy.drop("BatchGetItem", times=ALWAYS)
        with pytest.raises(StateUnavailable):
            await state.claim(5)
        assert place.depth() == (3, 0, 0)
        proxy.heal()
    assert [lease.receives for lease in await state.claim(5)] == [1, 1, 1]


async def test_a_sign_of_life_that_fails_is_tried_again_at_the_next(proxy: Proxy, opening: Open) -> None:
    state = await opening()
    proxy.drop("PutItem", times=ALWAYS)
    beat = Beat(worker="w", at=1.0)
    with pytest.raises(StateUnavailable):
        await state.beat(beat)
    proxy.heal()
    await state.beat(beat)
    assert proxy.seen.count("PutItem") == 3
