"""Messages that the queue gave up on: their pages end as dead, in the one place where the dead are listed."""

from __future__ import annotations

import json
import logging
import time

import pytest

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, PageState, Phase, done
from crawler.state.aws import completion
from crawler.state.aws.address import parse
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open, unwritten
from tests.aws.places import Place, copy_of, page, pages
from tests.aws.proxy import Proxy

pytestmark = pytest.mark.usefixtures("impatient")


async def dead(state: AwsState, crawl: str = "c") -> list[PageState]:
    return [line async for line in state.ledger(crawl, Phase.DEAD)]


def redrive(place: Place, after: int) -> None:
    """Let the queue move messages to its dead letters after so many deliveries of a second each."""
    arn = place.sqs.get_queue_attributes(QueueUrl=place.url(place.dead), AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": after}
    attributes = {"VisibilityTimeout": "1", "RedrivePolicy": json.dumps(policy)}
    place.sqs.set_queue_attributes(QueueUrl=place.url(place.normal), Attributes=attributes)


async def test_a_page_that_kills_its_workers_ends_as_dead_and_the_crawl_ends(opening: Open, place: Place) -> None:
    redrive(place, after=2)
    state = await opening()
    good, poison = pages(2)
    await state.add("c", [good, poison])
    for lease in await state.claim(5):
        if lease.url == good.url:
            await state.settle([(lease, done(1))])
    deadline = time.monotonic() + 15
    while not await state.complete("c") and time.monotonic() < deadline:
        await (await opening("next")).claim(5)  # and dies with it
    (letter,) = await dead(state)
    assert (letter.url, letter.reason, letter.attempts) == (poison.url, "crash", 1)
    assert letter.error.startswith("received ")
    assert [failure.reason for failure in letter.failures] == ["crash"]
    counts = await state.counts("c")
    assert (counts.done, counts.dead, counts.exact) == (1, 1, True)
    assert place.depth(place.dead) == (0, 0, 0)


async def test_dead_letters_of_all_crawls_are_ended_and_what_is_none_is_dropped(
    opening: Open, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    state = await opening()
    await state.create(CrawlRecord(id="other", started_at=time.time(), settings=CrawlSettings(rate=0)))
    fetched, mine = pages(2)
    (others,) = pages(1, host="other.example")
    await state.add("c", [fetched])
    await state.settle([(lease, done(1)) for lease in await state.claim(5)])
    await state.add("c", [mine])
    await state.add("other", [others])
    for body in (
        copy_of(place, fetched.url),
        copy_of(place, mine.url, lost=8),
        copy_of(place, others.url, crawl="other", run=place.run("other")),
        copy_of(place, "https://gone.example/", crawl="gone"),
        "no seed",
    ):
        place.send(body, place.dead)
    with caplog.at_level(logging.WARNING):
        assert await state.sweep("c") == 0
    assert sum("no seed" in record.message for record in caplog.records) == 1
    (letter,) = await dead(state)
    assert (letter.url, letter.error.split(",")[0]) == (mine.url, "received 9 times")
    assert [letter.url for letter in await dead(state, "other")] == [others.url]
    assert place.depth(place.dead) == (0, 0, 0)
    assert await state.claim(5) == []  # their messages on the frontier are for nobody
    assert await state.complete("c")
    assert await state.complete("other")


async def test_a_dead_seed_is_listed_like_any_page(state: AwsState, place: Place) -> None:
    place.send("https://site.example/", place.dead)
    assert [letter.url for letter in await dead(state)] == ["https://site.example/"]
    assert (await state.counts("c")).discovered == 1


async def test_more_dead_letters_than_one_request_takes(state: AwsState, place: Place) -> None:
    added = pages(25)
    await state.add("c", added)
    for each in added:
        place.send(copy_of(place, each.url), place.dead)
    assert {letter.url for letter in await dead(state)} == {each.url for each in added}
    assert (await state.counts("c")).dead == 25


async def test_a_worker_without_a_right_to_the_dead_letters_works_on(
    proxy: Proxy, opening: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(completion, "SWEEP_AFTER", 3600.0)
    state = await opening()
    await state.add("c", pages(1))
    (lease,) = await state.claim(5)
    await state._queues.delete([lease.token.partition(" ")[2]])  # as if it were among them
    proxy.fail("GetQueueUrl", 403, "AccessDenied")
    with caplog.at_level(logging.INFO):
        assert not await state.complete("c")
    assert any("the dead-letter queue stays" in record.message for record in caplog.records)


async def test_a_state_that_names_no_dead_letters_has_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    address = place.address.replace(f"&dlq={place.dead}", "")
    assert parse(address.removeprefix("?")).dead_letters == ""
    state = await AwsState.open(address, worker="w", write_rows=unwritten)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0)))
    place.send(copy_of(place, page("https://site.example/").url), place.dead)
    assert await state.sweep("c") == 0
    assert place.depth(place.dead) == (1, 0, 0)
    await state.close()


async def test_where_nobody_writes_rows_dead_letters_stay(opening: Open, place: Place) -> None:
    state = await opening(write_rows=None)
    place.send(copy_of(place, page("https://site.example/").url), place.dead)
    assert await state.drain_dead_letters() == 0
    assert await dead(state) == []
    assert place.depth(place.dead) == (1, 0, 0)
