"""The backlog of a host: what waits in the table, and what moves it on."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import msgspec
import pytest

from crawler.model import Added, Page, Priority, done
from crawler.state.aws import backlog, chunk, placing
from crawler.state.aws.backlog import Line
from crawler.state.aws.records import Feed, message
from tests.aws.backlogs import RATE, chunks, empty, feed_by_hand, finish, line, prompt, waiting
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages

pytestmark = pytest.mark.usefixtures("impatient")


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


# ---------------------------------------------------------------- limits, purge


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


def test_an_unknown_line_is_empty() -> None:
    assert Line().empty
