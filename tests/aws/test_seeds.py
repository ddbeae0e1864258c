"""Plain messages on a frontier queue: what anybody may send."""

from __future__ import annotations

import logging

import pytest

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, Priority, done, skipped
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page


@pytest.mark.parametrize(
    ("body", "url", "depth", "priority"),
    [
        ('{"url": "https://site.example/a"}', "https://site.example/a", 0, Priority.NORMAL),
        ("https://site.example/a", "https://site.example/a", 0, Priority.NORMAL),
        ("  https://SITE.example/a#part\n", "https://site.example/a", 0, Priority.NORMAL),
        ('{"url": " https://site.example/a b", "depth": 3}', "https://site.example/a%20b", 3, Priority.NORMAL),
        (
            '{"url": "https://b\u00fccher.example/", "priority": "low"}',
            "https://xn--bcher-kva.example/",
            0,
            Priority.LOW,
        ),
        ('{"priority": "high", "url": "http://site.example", "note": 1}', "http://site.example/", 0, Priority.HIGH),
    ],
)
async def test_a_plain_message_is_a_seed(
    state: AwsState, place: Place, body: str, url: str, depth: int, priority: Priority
) -> None:
    place.send(body)
    (lease,) = await state.claim(5)
    assert (lease.crawl, lease.url, lease.depth, lease.priority) == ("c", url, depth, priority)
    assert await state.in_scope("c", [page(url).site]) == [True]
    assert not await state.complete("c")
    await state.settle([(lease, done())])
    assert await state.complete("c")
    assert (await state.counts("c")).discovered == 1
    place.send(body)
    assert await state.claim(5) == []
    assert place.depth() == (0, 0, 0)


GARBAGE = [
    "{",
    "{}",
    "null",
    "[1, 2]",
    "hello world",
    "nonsense",
    "mailto:a@site.example",
    "http://[x/",
    "http://a..example/",
    '{"url": 7}',
    '{"url": ""}',
    '{"url": "//site.example/"}',
    '{"url": "https://site.example/", "depth": -1}',
    '{"url": "https://site.example/", "depth": "deep"}',
    '{"url": "https://site.example/", "priority": "urgent"}',
    '{"url": "https://site.example/", "crawl": "../../etc"}',
    '{"url": "https://site.example/", "crawl": ""}',
    '{"url": "https://site.example/\\ud800"',
    '{"digest": "00", "url": "https://site.example/", "crawl": 5}',
]


async def test_what_is_no_seed_is_dropped_and_counted(
    state: AwsState, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    for body in GARBAGE:
        place.send(body)
    place.send("https://site.example/")
    with caplog.at_level(logging.WARNING):
        leases = [*await state.claim(50), *await state.claim(50)]
    assert [lease.url for lease in leases] == ["https://site.example/"]
    assert place.depth() == (0, 1, 0)
    assert sum("no seed" in record.message for record in caplog.records) == len(GARBAGE)
    assert not any("\n" in record.message for record in caplog.records)


async def test_a_seed_goes_to_the_crawl_it_names_or_to_the_latest(opening: Open, place: Place) -> None:
    state = await opening()
    await state.create(CrawlRecord(id="early", started_at=1.0, settings=CrawlSettings()))
    place.send('{"url": "https://site.example/", "crawl": "early"}')
    place.send('{"url": "https://site.example/", "crawl": "new"}')
    place.send("https://site.example/")
    leases = [*await state.claim(5), *await state.claim(5)]
    # The three crawls share the host's gate, and two of them have a rate: not all may be there at once.
    known = {crawl.id for crawl in await state.crawls()}
    assert known == {"early", "c", "new"}
    assert {lease.crawl for lease in leases} <= known
    assert [(await state.counts(crawl)).discovered for crawl in sorted(known)] == [1, 1, 1]


async def test_a_seed_on_a_state_without_crawls_makes_one(place: Place) -> None:
    state = await AwsState.open(place.address, worker="w")
    place.send("https://site.example/")
    (lease,) = await state.claim(5)
    assert lease.crawl == "default"
    assert [crawl.id for crawl in await state.crawls()] == ["default"]
    await state.close()


async def test_a_seed_too_long_to_request_comes_as_a_lease_so_that_it_is_skipped_with_a_row(
    state: AwsState, place: Place
) -> None:
    url = "https://site.example/" + "a" * 9_000
    place.send(url)
    (lease,) = await state.claim(5)
    assert lease.url == url
    await state.settle([(lease, skipped("url-too-long"))])
    assert [entry.reason async for entry in state.ledger("c")] == ["url-too-long"]
    assert await state.complete("c")


async def test_a_seed_too_long_for_a_message_of_ours_is_no_seed(state: AwsState, place: Place) -> None:
    place.send("https://site.example/" + "a" * 100_000)
    assert await state.claim(5) == []
    assert place.depth() == (0, 0, 0)
    assert place.items() == []
