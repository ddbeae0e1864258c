"""The backlog of a host: nothing of it is lost, whoever writes at the same time and whoever dies when."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

import pytest

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, done
from crawler.state.aws import backlog
from crawler.state.aws.records import Feed, message
from crawler.state.aws.state import AwsState
from tests.aws.backlogs import RATE, chunks, empty, feed_by_hand, finish, line, prompt, waiting
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages

pytestmark = pytest.mark.usefixtures("impatient")


class Killed(BaseException):
    """What a process dies of."""


def kill_after(state: AwsState, requests: int) -> Callable[[], bool]:
    """Let the state make so many more requests and then no more; answers whether it has died."""
    left, dead = requests, False

    def count(**_: object) -> None:
        nonlocal left, dead
        left -= 1
        if left < 0:
            dead = True
            raise Killed

    async def unpaid() -> None:
        """Who died pays nothing when he is closed."""

    state._accounts.close = unpaid  # type: ignore[method-assign]
    for client in (state._aws.sqs, state._aws.dynamodb, state._aws.polls):
        client.meta.events.register_first("before-send", count)
    return lambda: dead


# ---------------------------------------------------------------- many workers


@pytest.mark.usefixtures("brief")
async def test_many_workers_write_to_one_backlog_and_none_of_their_pages_is_lost(opening: Open, place: Place) -> None:
    states = [await opening(f"w{number}", rate=RATE) for number in range(4)]
    await prompt(states[0], "site.example")
    added = pages(120)
    parts = [added[start : start + 10] for start in range(0, 120, 10)]
    await asyncio.gather(*(states[number % 4].add("c", part) for number, part in enumerate(parts)))
    assert set(await finish(states[1], place)) == {page.url for page in added}
    assert chunks(place) == []


@pytest.mark.usefixtures("brief")
async def test_chunks_of_a_worker_that_saw_the_line_long_ago_are_not_lost(
    opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "FRESH", 1_000.0)
    late, other = await opening("late", rate=RATE), await opening("other")
    await prompt(other, "site.example")
    await late.add("c", pages(60))
    seen = late._claiming._placing._lines.seen(backlog.name("c", place.run("c"), "site.example"))
    assert seen.tail > seen.head
    assert len(await finish(other, place)) == 60
    more = [page(f"https://site.example/more/{number}") for number in range(40)]
    await late._claiming._placing._lines.append(
        backlog.name("c", place.run("c"), "site.example"),
        [[message("c", place.run("c"), some, time.time())] for some in more],
    )
    item = line(place)
    held = {int(found["pk"]["S"].rpartition("#")[2]) for found in chunks(place)}
    assert held == set(range(int(item["head"]["N"]), int(item["tail"]["N"])))
    assert len(held) == 40


# ---------------------------------------------------------------- who dies when


@pytest.mark.usefixtures("brief")
async def test_whenever_a_worker_dies_that_adds_to_a_backlog_its_parent_s_next_delivery_mends_it(
    opening: Open, place: Place
) -> None:
    healthy = await opening(rate=RATE)
    died = 0
    expected: dict[str, set[str]] = {}
    for requests in range(40):
        crawl, host = f"k{requests}", f"h{requests}.example"
        await healthy.create(CrawlRecord(id=crawl, started_at=time.time(), settings=CrawlSettings(rate=RATE)))
        await prompt(healthy, host)
        parent = page(f"https://{host}/")
        await healthy.add(crawl, [parent])
        dying = await opening("dying")
        await dying._crawls.known(crawl)
        dead = kill_after(dying, requests)
        try:
            await dying.add(crawl, pages(28, parent, host))
        except Killed:
            died += 1
            again = [page(child.url, parent, redelivered=True) for child in pages(28, parent, host)]
            await healthy.add(crawl, again)
        expected[crawl] = {parent.url, *(child.url for child in pages(28, parent, host))}
        if not dead():
            break
    assert died == len(expected) - 1 > 5
    assert set(await finish(healthy, place)) == set().union(*expected.values())
    await empty(healthy, place)
    assert chunks(place) == []


@pytest.mark.usefixtures("brief")
async def test_whenever_a_worker_dies_that_feeds_the_message_comes_back_and_nothing_is_lost(
    opening: Open, place: Place
) -> None:
    healthy = await opening(rate=RATE)
    died = 0
    expected: dict[str, set[str]] = {}
    for requests in range(40):
        crawl, host = f"k{requests}", f"h{requests}.example"
        await healthy.create(CrawlRecord(id=crawl, started_at=time.time(), settings=CrawlSettings(rate=RATE)))
        await prompt(healthy, host)
        added = pages(28, host=host)
        await healthy.add(crawl, added)
        assert waiting(place) > 0
        dying = await opening("dying")
        dead = kill_after(dying, requests)
        try:
            await feed_by_hand(dying, place, crawl, host)
        except Killed:
            died += 1
        expected[crawl] = {page.url for page in added}
        if not dead():
            break
    assert died == len(expected) - 1 > 5
    assert set(await finish(healthy, place)) == set().union(*expected.values())
    await empty(healthy, place)
    # A chunk that was moved and not deleted lies behind the head: nobody looks there but a sweep, which removes it.
    assert [await healthy.sweep(crawl) for crawl in expected] == [0] * len(expected)
    assert chunks(place) == []
    assert {line(place, f"h{number}.example", f"k{number}")["feeder"]["S"] for number in range(len(expected))} == {""}


@pytest.mark.usefixtures("brief")
async def test_of_two_deliveries_of_a_feeder_one_is_followed_by_the_next(opening: Open, place: Place) -> None:
    one, two = await opening(rate=RATE), await opening("two")
    await prompt(one, "site.example")
    added = pages(90)
    await one.add("c", added)
    await asyncio.gather(feed_by_hand(one, place), feed_by_hand(two, place))
    assert set(await finish(one, place)) == {page.url for page in added}
    await empty(one, place)
    assert line(place)["feeder"]["S"] == ""


async def test_a_feeder_that_is_not_yet_known_waits_and_an_old_one_is_dropped(opening: Open, place: Place) -> None:
    state = await opening(rate=0.1)
    await state.add("c", pages(100))
    before = place.depth()
    stranger = Feed(feed="c", run=place.run("c"), gate="site.example", token=uuid.uuid4().hex[:12], born=time.time())
    await state._claiming._feeding.feed([(stranger, "1:gone")])
    assert place.depth()[2] == before[2] + 1
    old = Feed(feed="c", run=place.run("c"), gate="site.example", token="old", born=time.time() - 3_600)
    await state._claiming._feeding.feed([(old, "1:gone")])
    assert place.depth()[2] == before[2] + 1


# ---------------------------------------------------------------- sweep


@pytest.mark.usefixtures("brief")
async def test_a_sweep_feeds_a_backlog_whose_feeder_was_lost(opening: Open, place: Place) -> None:
    state = await opening(rate=RATE)
    await prompt(state, "site.example")
    added = pages(90)
    await state.add("c", added)
    left = waiting(place)
    place.sqs.purge_queue(QueueUrl=place.url(place.normal))
    assert await state.sweep("c") == left
    seen: set[str] = set()
    while sum(place.depth()):
        leases = await state.claim(100)
        seen |= {lease.url for lease in leases}
        await state.settle([(lease, done(1)) for lease in leases])
    assert len(seen) == left
    assert await state.sweep("c") == 90 - left
    assert seen | set(await finish(state, place)) == {page.url for page in added}


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("where", ["behind the head", "beyond the tail", "beyond a gap", "without a line"])
async def test_a_sweep_finds_chunks_that_no_line_covers(opening: Open, place: Place, where: str) -> None:
    state = await opening(rate=RATE)
    await prompt(state, "site.example")
    added = pages(60)
    await state.add("c", added)
    place.sqs.purge_queue(QueueUrl=place.url(place.normal))
    item, lines = line(place), state._claiming._placing._lines
    name, head, tail = item["pk"]["S"], 0, int(item["tail"]["N"])
    key = {"pk": {"S": name}}
    if where == "behind the head":
        change = {"head": {"Value": {"N": "1"}}}
        place.dynamodb.update_item(TableName=place.control, Key=key, AttributeUpdates=change)
        head = 1
    elif where == "beyond the tail":
        change = {"tail": {"Value": {"N": str(tail - 1)}}}
        place.dynamodb.update_item(TableName=place.control, Key=key, AttributeUpdates=change)
    elif where == "beyond a gap":
        stray = [message("c", place.run("c"), some, time.time()) for some in pages(1, host="site.example")]
        await lines._put(name, [tail + 3], [stray])
    else:
        place.dynamodb.delete_item(TableName=place.control, Key=key)
    assert await state.sweep("c") > 0
    held = {int(found["pk"]["S"].rpartition("#")[2]) for found in chunks(place)}
    item = line(place)
    assert held == set(range(int(item.get("head", {"N": "0"})["N"]), int(item["tail"]["N"])))
    assert min(held) == head
    while sum(place.depth()):
        await state.settle([(lease, done(1)) for lease in await state.claim(100)])
    await state.sweep("c")
    await finish(state, place)
    assert (await state.counts("c")).done == 60
