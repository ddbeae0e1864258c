"""What `add` owes: one row a URL, whoever finds it and however often it is told."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import UsageError
from crawler.model import Added, Phase, Verdict, done, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, new_crawl, page, pages, parent, take, take_one


async def test_a_page_is_new_once_and_known_from_then_on(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed, other = page("/"), page("/other")
    link = page("/link", parent=parent(seed), depth=1)
    assert await state.add(CRAWL, [seed, other, link]) == [Added.NEW, Added.NEW, Added.NEW]
    same_link_elsewhere = page("/link", parent=parent(other), depth=1)
    assert await state.add(CRAWL, [same_link_elsewhere]) == [Added.KNOWN]
    assert await state.add(CRAWL, [link]) == [Added.AGAIN]
    assert await state.add(CRAWL, [page("/", parent=parent(other), depth=1)]) == [Added.KNOWN]


async def test_answers_come_in_input_order(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/")
    await state.add(CRAWL, [seed])
    children = pages(40, parent=parent(seed), depth=1)
    await state.add(CRAWL, children[::2])
    answers = await state.add(CRAWL, children)
    assert answers == [Added.AGAIN, Added.NEW] * 20


async def test_no_pages_is_no_work(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    assert await state.add(CRAWL, []) == []


async def test_the_first_of_a_repeated_digest_counts(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    first = page("/x", depth=0)
    answers = await state.add(CRAWL, [first, page("/y"), page("/x", depth=3)])
    assert answers[:2] == [Added.NEW, Added.NEW]
    assert answers[2] in (Added.KNOWN, Added.AGAIN)
    leases = await take(state, 3)
    assert sorted((lease.url, lease.depth) for lease in leases) == [
        ("http://a.example/x", 0),
        ("http://a.example/y", 0),
    ]


async def test_a_skipped_page_is_recorded_with_its_reason_and_never_handed_out(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    assert await state.add(CRAWL, [page("/no", skip="url-too-long")]) == [Added.NEW]
    assert await state.add(CRAWL, [page("/no")]) != [Added.NEW]
    assert await take(state, 1) == []
    (line,) = [line async for line in state.ledger(CRAWL)]
    assert (line.phase, line.reason) == (Phase.SKIPPED, "url-too-long")


@pytest.mark.parametrize("finish", [done(10), skipped("robots")])
async def test_a_finished_page_is_never_reset(backend: Backend, finish: Verdict) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/")
    await state.add(CRAWL, [seed])
    lease = await take_one(state)
    await state.settle([(lease, finish)])
    assert await state.add(CRAWL, [seed]) == [Added.AGAIN]
    assert await state.add(CRAWL, [page("/", parent=parent(page("/p"), redelivered=True))]) == [Added.KNOWN]
    assert await take(state, 1) == []


@pytest.mark.case("F17")
async def test_of_many_adders_of_one_page_exactly_one_is_told_new(backend: Backend) -> None:
    states = [await backend.open() if number == 0 else await backend.open(f"worker-{number}") for number in range(4)]
    await new_crawl(states[0], backend)
    batch = pages(30)
    answers = await asyncio.gather(*(states[number % 4].add(CRAWL, batch) for number in range(16)))
    for each in zip(*answers, strict=True):
        assert each.count(Added.NEW) == 1
    assert len([line async for line in states[0].ledger(CRAWL)]) == 30


async def test_many_tasks_of_one_process_share_one_state(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    answers = await asyncio.gather(*(state.add(CRAWL, pages(20)) for _ in range(16)))
    for each in zip(*answers, strict=True):
        assert each.count(Added.NEW) == 1


@pytest.mark.case("F09")
async def test_a_redelivered_parent_finds_its_children_again_and_doubles_none(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/")
    await state.add(CRAWL, [seed])
    await state.settle([(await take_one(state), done())])
    await state.add(CRAWL, pages(5, parent=parent(seed), depth=1))
    again = await state.add(CRAWL, pages(5, parent=parent(seed, redelivered=True), depth=1))
    assert again == [Added.AGAIN] * 5
    finished = set()
    while leases := await take(state, 5):
        await state.settle([(lease, done()) for lease in leases])
        finished |= {lease.url for lease in leases}
    assert len(finished) == 5
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done) == (6, 6)


async def test_a_lease_tells_where_the_page_was_found(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed, sitemap = page("/"), page("/sitemap.xml")
    await state.add(CRAWL, [seed])
    (first,) = await take(state, 1)
    assert (first.parent_url, first.depth) == ("", 0)
    assert first.discovered_at <= backend.now()
    await state.add(CRAWL, [page("/link", parent=parent(seed), depth=1)])
    await state.add(CRAWL, [page("/listed", parent=parent(sitemap), depth=1)])
    found = {lease.url: lease.parent_url for lease in await take(state, 2)}
    assert found == {"http://a.example/link": seed.url, "http://a.example/listed": sitemap.url}


@pytest.mark.case("F11")
async def test_a_long_url_is_as_good_as_any(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    long = page("/" + "x" * 7000)
    assert await state.add(CRAWL, [long]) == [Added.NEW]
    assert (await take_one(state)).url == long.url


async def test_seeds_bring_their_sites_into_scope_and_links_do_not(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page("/", "a.example")
    await state.add(CRAWL, [seed])
    await state.add(CRAWL, [page("/", "b.example", parent=parent(seed), depth=1)])
    assert await state.in_scope(CRAWL, ["b.example", "a.example", "c.example"]) == [False, True, False]
    assert await state.add(CRAWL, [page("/", "b.example")]) == [Added.KNOWN]
    assert await state.in_scope(CRAWL, ["b.example"]) == [True]


async def test_adding_to_an_unknown_crawl_is_a_usage_error(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError):
        await state.add("nothing", [page()])


async def test_crawls_do_not_see_each_other_s_pages(backend: Backend) -> None:
    state = await backend.open()
    one, two = await new_crawl(state, backend, "one"), await new_crawl(state, backend, "two")
    assert await state.add(one, [page("/")]) == [Added.NEW]
    assert await state.add(two, [page("/")]) == [Added.NEW]
    (lease,) = await take(state, 5, two)
    assert lease.crawl == two
    await state.settle([(lease, done(7))])
    assert (await state.counts(two)).done == 1
    assert (await state.counts(one)).done == 0
    assert await state.in_scope(two, ["a.example"]) == [True]
    assert [lease.crawl for lease in await take(state, 5)] == [one]


async def test_the_counts_tell_what_was_added(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, [*pages(3), *pages(2, "b.example"), page("/no", skip="trap")])
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.pending, counts.skipped, counts.hosts) == (6, 5, 1, 2)
    assert counts.exact
