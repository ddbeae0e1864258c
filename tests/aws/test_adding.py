"""What add answers and writes."""

from __future__ import annotations

import pytest

from crawler.errors import UsageError
from crawler.model import Added, done
from crawler.state.aws.records import MAX_URL
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages


@pytest.mark.case("F10")
async def test_the_first_of_equal_pages_counts(state: AwsState) -> None:
    parent, other = page("https://site.example/"), page("https://site.example/other")
    one, same, stranger = (page("https://site.example/x", above) for above in (parent, parent, other))
    assert await state.add("c", [one, same, stranger]) == [Added.NEW, Added.AGAIN, Added.KNOWN]
    assert await state.add("c", [stranger, one]) == [Added.KNOWN, Added.AGAIN]
    assert (await state.counts("c")).discovered == 1


@pytest.mark.parametrize("count", [1, 10, 11, 25, 26, 100, 101])
async def test_batches_of_any_size_are_added_whole(state: AwsState, place: Place, count: int) -> None:
    assert await state.add("c", pages(count)) == [Added.NEW] * count
    assert await state.add("c", [*pages(count), *pages(1)]) == [Added.AGAIN] * (count + 1)
    assert len(place.items()) == count


async def test_known_pages_of_a_parent_are_queued_again_only_if_it_was_redelivered(
    state: AwsState, place: Place
) -> None:
    parent = page("https://site.example/")
    await state.add("c", pages(3, parent))
    assert await state.add("c", pages(3, parent)) == [Added.AGAIN] * 3
    assert place.depth() == (3, 0, 0)
    redelivered = [page(child.url, parent, redelivered=True) for child in pages(3, parent)]
    assert await state.add("c", redelivered) == [Added.AGAIN] * 3
    assert place.depth() == (6, 0, 0)


async def test_finished_pages_are_never_queued_again(state: AwsState, place: Place) -> None:
    seed = page("https://site.example/")
    await state.add("c", [seed])
    (lease,) = await state.claim(1)
    await state.settle([(lease, done())])
    assert await state.add("c", [seed]) == [Added.AGAIN]
    assert place.depth() == (0, 0, 0)
    assert await state.complete("c")


async def test_skipped_pages_are_recorded_and_not_queued(state: AwsState, place: Place) -> None:
    assert await state.add("c", [page("https://site.example/", skip="robots")]) == [Added.NEW]
    assert place.depth() == (0, 0, 0)
    assert await state.complete("c")
    assert [(entry.phase, entry.reason) async for entry in state.ledger("c")] == [("skipped", "robots")]


@pytest.mark.case("F05", "F11")
async def test_long_urls_and_odd_characters_travel_whole(state: AwsState) -> None:
    long = "https://site.example/" + "a" * 40_000
    odd = "https://site.example/\x07\x00\x7f?q=\ufffe\u20ac\U0001f600"
    added = [page(odd), *(page(f"{long}{number}") for number in range(12))]
    assert await state.add("c", added) == [Added.NEW] * 13
    assert {lease.url for lease in await state.claim(20)} | {lease.url for lease in await state.claim(20)} == {
        page.url for page in added
    }


@pytest.mark.case("F05")
async def test_a_url_that_no_message_can_carry_is_recorded_as_skipped(state: AwsState) -> None:
    endless = page("https://site.example/" + "a" * MAX_URL)
    assert await state.add("c", [endless]) == [Added.NEW]
    assert await state.complete("c")
    assert [entry.reason async for entry in state.ledger("c")] == ["url-too-long"]


async def test_seeds_bring_their_sites_into_scope_for_all_workers(opening: Open) -> None:
    one, two = await opening("one"), await opening("two")
    assert await two.in_scope("c", ["site.example", "else.example"]) == [False, False]
    await one.add("c", [page("https://site.example/"), page("https://else.example/", page("https://site.example/"))])
    assert await two.in_scope("c", ["site.example", "else.example"]) == [True, False]


async def test_adding_to_a_complete_crawl_opens_it_again(state: AwsState) -> None:
    assert await state.complete("c")
    assert (await state.crawls())[0].completed_at is not None
    await state.add("c", pages(1))
    assert (await state.crawls())[0].completed_at is None
    assert not await state.complete("c")


async def test_a_crawl_that_does_not_exist_takes_no_pages(state: AwsState) -> None:
    with pytest.raises(UsageError, match="no crawl 'none'"):
        await state.add("none", pages(1))
