"""A pause on AWS: the queues empty themselves into the table and are filled again, whoever dies when."""

from __future__ import annotations

import contextlib
import time
from collections import Counter

import msgspec
import pytest

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, Priority
from crawler.state.aws import chunk, feeding, intake, parking
from crawler.state.aws.delivered import Delivery
from crawler.state.aws.records import Feed, Message, message
from crawler.state.aws.state import AwsState
from tests.aws.backlogs import RATE, chunks, empty, finish, line, prompt, waiting
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages
from tests.aws.test_backlog_repair import Killed, kill_after

pytestmark = pytest.mark.usefixtures("impatient", "quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim reads what it goes by, and a lot's feeder comes at once; one that finds the crawl paused goes soon."""
    monkeypatch.setattr(intake, "CRAWL_FRESH", 0.0)
    for module in (parking, feeding):
        monkeypatch.setattr(module, "NOTED", 0)
    monkeypatch.setattr(feeding, "AGAIN", 0.0)
    monkeypatch.setattr(feeding, "GRACE", 0.3)


def lots(place: Place) -> int:
    """Messages that lie in lots."""
    return sum(int(item["count"]["N"]) for item in chunks(place) if f"#{parking.LOT}" in item["pk"]["S"])


async def park(state: AwsState, place: Place) -> None:
    """Claim until nothing is on the queues."""
    end = time.monotonic() + 20
    while sum(place.depth()) + sum(place.depth(place.high)) + sum(place.depth(place.low)):
        assert time.monotonic() < end
        assert await state.claim(100) == []


async def test_a_pause_leaves_the_queues_empty_and_an_idle_worker_pays_nothing_for_it(
    opening: Open, place: Place
) -> None:
    state = await opening()
    await state.add("c", [*pages(150), page("https://b.example/", priority=Priority.HIGH)])
    await state.pause("c")
    before = state.requests.copy()
    await park(state, place)
    parked = state.requests - before
    assert lots(place) == 151
    assert (await state.counts("c")).pending == 151
    assert not await state.complete("c")
    before = state.requests.copy()
    for _ in range(5):
        assert await state.claim(100) == []
    assert set(state.requests - before) <= {"sqs.ReceiveMessage"}
    assert sum(parked.values()) <= 0.5 * 151
    await state.resume("c")
    assert set(await finish(state, place)) == {item.url for item in [*pages(150), page("https://b.example/")]}
    await empty(state, place)
    assert (lots(place), waiting(place)) == (0, 0)
    assert await state.complete("c")


@pytest.mark.usefixtures("brief")
async def test_backlogs_of_hosts_sleep_with_their_feeders_and_go_on(opening: Open, place: Place) -> None:
    state = await opening(rate=RATE)
    await prompt(state, "site.example")
    added = pages(80)
    await state.add("c", added)
    feeder, behind = line(place)["feeder"]["S"], waiting(place)
    assert feeder
    assert behind > 0
    await state.pause("c")
    await park(state, place)
    assert waiting(place) == 80 + 1  # all pages, and the feeder
    assert line(place)["feeder"]["S"] == feeder
    await state.resume("c")
    assert await finish(state, place) == Counter(each.url for each in added)
    await empty(state, place)
    assert chunks(place) == []
    assert await state.complete("c")


@pytest.mark.usefixtures("brief")
async def test_a_function_parks_what_it_is_given(opening: Open, place: Place) -> None:
    state = await opening(rate=RATE)
    await prompt(state, "site.example")
    await state.add("c", pages(80))
    await state.pause("c")
    function = await AwsState.open(place.address, worker="f", delivered=True)
    arn = f"arn:aws:sqs:us-east-1:000000000000:{place.normal}"
    end = time.monotonic() + 20
    while sum(place.depth()):
        assert time.monotonic() < end
        url = place.url(place.normal)
        received = place.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        first = {"ApproximateReceiveCount": "1"}
        function.deliver([Delivery(m["MessageId"], m["ReceiptHandle"], m["Body"], first, arn) for m in received], 0.0)
        assert await function.claim(100) == []
        assert await function.hand_back(5) == []
        for m in received:  # as Lambda does
            place.sqs.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
    await function.close()
    assert waiting(place) == 80 + 1
    assert lots(place) > 1
    await state.resume("c")
    assert set(await finish(state, place)) == {each.url for each in pages(80)}


async def test_a_worker_that_has_not_heard_of_the_end_of_a_pause_parks_nothing_for_good(
    opening: Open, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = await opening("late"), await opening("other")
    await other.add("c", pages(20))
    await other.pause("c")
    await late._crawls.read("c")
    monkeypatch.setattr(intake, "CRAWL_FRESH", 1_000.0)
    assert await other.resume("c")
    await empty_of_feeders(other, place)
    assert late._crawls.paused("c")
    await late.claim(10)  # it takes ten for paused
    assert len(await finish(other, place)) == 20
    await empty(other, place)
    assert lots(place) == 0


async def empty_of_feeders(state: AwsState, place: Place) -> None:
    """Let the feeders of a resumed crawl's lots end: nothing is in any lot."""
    for number in range(parking.LOTS):
        name = f"{parking.LOT}{number}"
        found = line(place, name).get("feeder", {"S": ""})["S"]
        feed = Feed(feed="c", run=place.run("c"), gate=name, token=found, born=time.time())
        await state._claiming._feeding.feed([(feed, "1:gone")])
        assert line(place, name)["feeder"]["S"] == ""


async def test_whenever_a_worker_dies_that_parks_its_messages_are_parked_again(opening: Open, place: Place) -> None:
    healthy = await opening()
    added = pages(12)
    await healthy.add("c", added)
    await healthy.pause("c")
    await park(healthy, place)
    died = 0
    for requests in range(20):
        dying = await opening("dying")
        dead = kill_after(dying, requests)
        messages = [message("c", place.run("c"), each, time.time()) for each in added]
        try:
            await dying._parking.park(messages)
        except Killed:
            died += 1
            await healthy._parking.park(messages)
        if not dead():
            break
    assert died >= 3
    await healthy.resume("c")
    assert set(await finish(healthy, place)) == {each.url for each in added}
    await empty(healthy, place)
    assert lots(place) == 0


async def test_whenever_a_process_dies_that_resumes_a_crawl_it_is_paused_or_goes_on(
    opening: Open, place: Place
) -> None:
    healthy = await opening()
    died: list[bool] = []
    for requests in (0, 2, 12, 18, 19, 20, 21, 40):  # the nineteenth or so is the crawl's own
        crawl, host = f"k{requests}", f"h{requests}.example"
        await healthy.create(CrawlRecord(id=crawl, started_at=time.time(), settings=CrawlSettings(rate=0.0)))
        await healthy.add(crawl, pages(3, host=host))
        await healthy.pause(crawl)
        await park(healthy, place)
        dying = await opening("dying")
        dead = kill_after(dying, requests)
        with contextlib.suppress(Killed):
            await dying.resume(crawl)
        (paused,) = [record.paused for record in await healthy.crawls() if record.id == crawl]
        died += [paused] if dead() else []
        if paused:
            await park(healthy, place)  # feeders that were sent find it paused, and go
            assert lots(place) == 3
            assert await healthy.resume(crawl)
        assert set(await finish(healthy, place)) == {each.url for each in pages(3, host=host)}
        await empty(healthy, place)
        assert lots(place) == 0
    assert {True, False} == set(died)


def test_a_mixture_is_packed_as_the_messages_say() -> None:
    pages_ = [message("c", "r", page(f"https://h{n}.example/ü?{n}"), 1e9 + n / 7) for n in range(20)]
    later: Message = msgspec.structs.replace(pages_[0], not_before=2e9, lost=2)
    feeder = Feed.new("c", "r", "h1.example", 5.5)
    mixtures: list[list[chunk.Entry]] = [[*pages_, later, feeder], [later], [feeder], [*pages_[:2]]]
    for mixture in mixtures:
        packed = chunk.pack(mixture)
        assert chunk.unpack(packed) == mixture
    assert len(chunk.pack(pages_)) < 1_500
