"""The backlog of a host: what waits in the table, what moves it on, and that nothing is lost whoever dies when."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from crawler.config import CrawlSettings
from crawler.model import Added, CrawlRecord, Health, Page, Priority, done, skipped
from crawler.state.aws import backlog, chunk, feeding, placing
from crawler.state.aws.backlog import Line
from crawler.state.aws.records import Feed, message
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages

pytestmark = pytest.mark.usefixtures("impatient")

RATE = 100.0


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times so short that a tenth of a second of turns is far: a page in ten is on the queue, ten are a chunk."""
    monkeypatch.setattr(placing, "SOON", 0.0)
    monkeypatch.setattr(placing, "FAR", 0.1)
    monkeypatch.setattr(placing, "WINDOW", 0.1)
    monkeypatch.setattr(placing, "LOW", 0.0)
    monkeypatch.setattr(feeding, "WINDOW", 0.1)
    monkeypatch.setattr(feeding, "GRACE", 0.5)
    monkeypatch.setattr(feeding, "AGAIN", 0.0)
    monkeypatch.setattr(feeding, "NOTED", 0.0)
    monkeypatch.setattr(placing, "NOTED", 0.0)


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

    for client in (state._aws.sqs, state._aws.dynamodb, state._aws.polls):
        client.meta.events.register_first("before-send", count)
    return lambda: dead


async def prompt(state: AwsState, *hosts: str) -> None:
    for host in hosts:
        await state.diagnose(host, Health(prompt=True))


async def finish(state: AwsState, place: Place) -> Counter[str]:
    """Work until every page has ended: how often each URL was handed out."""
    urls: Counter[str] = Counter()
    end = time.monotonic() + 30
    while any(item["phase"]["S"] == "p" for item in place.items()):
        assert time.monotonic() < end
        leases = await state.claim(100)
        urls.update(lease.url for lease in leases)
        await state.settle([(lease, skipped(lease.limit) if lease.limit else done(1)) for lease in leases])
        if not leases:
            await asyncio.sleep(0.05)
    return urls


async def empty(state: AwsState, place: Place) -> None:
    """Claim until no message is left: what comes is of pages that have ended, or feeders'."""
    end = time.monotonic() + 30
    while sum(place.depth()) + sum(place.depth(place.high)):
        assert time.monotonic() < end
        assert await state.claim(100) == []
        await asyncio.sleep(0.05)


def chunks(place: Place) -> list[dict[str, Any]]:
    """Those that have pages."""
    found = [item for item in place.items(place.control) if backlog.NUMBER in item["pk"]["S"]]
    assert all(("ttl" in item) == (item["count"]["N"] == "0") for item in found)
    return [item for item in found if item["count"]["N"] != "0"]


def line(place: Place, host: str = "site.example", crawl: str = "c") -> dict[str, Any]:
    name = backlog.name(crawl, place.run(crawl), host)
    item: dict[str, Any] = place.dynamodb.get_item(TableName=place.control, Key={"pk": {"S": name}})["Item"]
    return item


def waiting(place: Place) -> int:
    """Pages in chunks."""
    return sum(int(item["count"]["N"]) for item in chunks(place))


async def feed_by_hand(state: AwsState, place: Place, crawl: str = "c", host: str = "site.example") -> None:
    """Do what the line's feeder asks for, as if its message had come; it stays where it is, as after a crash."""
    token = line(place, host, crawl)["feeder"]["S"]
    feed = Feed(feed=crawl, run=place.run(crawl), gate=host, token=token, born=time.time())
    await state._claiming._feeding.feed([(feed, "1:gone")])


# ---------------------------------------------------------------- what waits where


@pytest.mark.case("F07")
async def test_what_has_no_turn_for_long_waits_in_the_table_behind_one_message(opening: Open, place: Place) -> None:
    state = await opening(rate=0.1)
    before = state.requests.copy()
    assert await state.add("c", pages(1_000)) == [Added.NEW] * 1_000
    visible, in_flight, delayed = place.depth()
    on_queue = visible + in_flight + delayed - 1
    assert on_queue <= placing.FAR / 9 + 2
    assert waiting(place) == 1_000 - on_queue
    assert (await state.counts("c")).pending == 1_000
    assert not await state.complete("c")
    sent = (state.requests - before)["sqs.SendMessageBatch"]
    assert sent <= on_queue / 10 + 3


def test_a_page_of_a_chunk_is_a_few_bytes() -> None:
    parent = page("https://site.example/")
    found = [message("c", "r", page(f"https://site.example/section/article-{n}", parent), 1e9 + n) for n in range(100)]
    packed = chunk.pack(found)
    assert chunk.unpack(packed) == found
    assert len(packed) <= 3_072


def test_a_page_with_a_digest_of_its_own_is_packed_whole() -> None:
    odd = Page("https://site.example/\x00\x7f?q=\u20ac", b"0123456789abcdef", "site.example", 3, Priority.LOW)
    found = [msgspec.structs.replace(message("c", "r", odd, 5.25), lost=2)]
    assert chunk.unpack(chunk.pack(found)) == found


def test_long_urls_make_smaller_chunks() -> None:
    long = [message("c", "r", page("https://site.example/" + "a" * 90_000 + str(n)), 0.0) for n in range(5)]
    assert [len(some) for some in chunk.cut(long, 100)] == [2, 2, 1]
    assert [len(some) for some in chunk.cut(long[:1] * 7, 1)] == [1] * 7


@pytest.mark.usefixtures("brief")
async def test_a_backlog_is_worked_off_each_page_once_and_leaves_nothing(opening: Open, place: Place) -> None:
    state, other = await opening(rate=RATE), await opening("other")
    await prompt(state, "site.example")
    added = pages(80)
    await state.add("c", added)
    assert waiting(place) >= 50
    one, two = await asyncio.gather(finish(state, place), finish(other, place))
    assert one + two == Counter(page.url for page in added)
    await empty(state, place)
    assert chunks(place) == []
    assert line(place)["feeder"]["S"] == ""
    assert await state.complete("c")
    assert (await state.counts("c")).done == 80


async def test_pages_of_high_priority_do_not_wait_behind_a_backlog(opening: Open, place: Place) -> None:
    state = await opening(rate=0.1)
    await state.add("c", pages(200))
    before = waiting(place)
    urgent = page("https://site.example/urgent", priority=Priority.HIGH)
    await state.add("c", [urgent, page("https://site.example/last")])
    assert waiting(place) == before + 1
    assert sum(place.depth(place.high)) == 1


async def test_pages_of_a_host_that_is_held_for_long_wait_in_the_table(opening: Open, place: Place) -> None:
    state = await opening()
    await state.add("c", pages(30, host="slow.example"))
    await state.hold("slow.example", until=time.time() + 7_200)
    while sum(place.depth()[:2]):
        assert await state.claim(50) == []
    assert waiting(place) == 30
    assert place.depth() == (0, 0, 1)
    before = state.requests.copy()
    await feed_by_hand(state, place, host="slow.example")
    assert waiting(place) == 30
    assert (state.requests - before)["sqs.SendMessageBatch"] == 1


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


# ---------------------------------------------------------------- limits, purge, sweep


@pytest.mark.usefixtures("brief")
async def test_a_time_that_is_up_reaches_the_backlog(opening: Open, place: Place) -> None:
    state = await opening(rate=0.5, max_time=2.0)
    await state.add("c", pages(60))
    assert waiting(place) >= 50
    urls = await finish(state, place)
    assert len(urls) == 60
    assert (await state.counts("c")).skipped >= 55
    assert chunks(place) == []


async def test_a_page_limit_that_is_used_up_feeds_all_of_a_backlog_at_once(opening: Open, place: Place) -> None:
    state = await opening(rate=0.1, max_pages=1)
    await state.add("c", pages(150))
    (lease,) = await state.claim(10)
    await state.settle([(lease, done(1))])
    await state._crawls.read("c")
    while chunks(place):
        await feed_by_hand(state, place)
    leases = [lease for _ in range(20) for lease in await state.claim(100)]
    assert {lease.limit for lease in leases} == {"max-pages"}
    assert len({lease.url for lease in leases}) >= 80


async def test_a_purge_drops_the_backlog_and_its_feeder_finds_nothing(opening: Open, place: Place) -> None:
    state = await opening(rate=0.1)
    await state.add("c", pages(200))
    token, run = line(place)["feeder"]["S"], place.run("c")
    await state.purge("c")
    assert [item for item in place.items(place.control) if item["pk"]["S"].startswith(backlog.PREFIX)] == []
    feed = Feed(feed="c", run=run, gate="site.example", token=token, born=time.time())
    before = state.requests.copy()
    await state._claiming._feeding.feed([(feed, "1:gone")])
    assert "sqs.SendMessageBatch" not in state.requests - before


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


def test_an_unknown_line_is_empty() -> None:
    assert Line().empty
