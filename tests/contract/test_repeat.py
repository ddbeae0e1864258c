"""Every call made twice, as by a caller whose first reply was lost: the outcome is that of one."""

from __future__ import annotations

from crawler.model import Added, Beat, CrawlRecord, Lease, Page, Settled, Verdict, dead, defer, done, retry, skipped
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take

PAGES = 31
"""A binary tree: page n links to 2n + 1 and 2n + 2, and back to the first."""


def number(lease: Lease) -> int:
    return int(lease.url.rpartition("/")[2])


def links(lease: Lease) -> list[Page]:
    children = (0, 2 * number(lease) + 1, 2 * number(lease) + 2)
    return [page(f"/{child}", parent=parent(lease), depth=lease.depth + 1) for child in children if child < PAGES]


def verdict(lease: Lease) -> Verdict:
    """A third of the pages fails once, the last ones end in other ways than done."""
    if number(lease) % 3 == 0 and lease.attempt == 1:
        return retry(0.0, "http-503", "HTTP 503")
    return {28: skipped("robots"), 29: dead("dns", "no such host")}.get(number(lease), done(10))


async def test_a_crawl_of_repeated_calls_ends_as_one_of_single_calls(backend: Backend) -> None:
    state = await backend.open()
    for _ in range(2):
        await new_crawl(state, backend)
    assert await state.add(CRAWL, pages(1)) == [Added.NEW]
    assert await state.add(CRAWL, pages(1)) == [Added.AGAIN]
    visits: dict[int, int] = {}
    while leases := await take(state, 8):
        for lease in leases:
            visits[number(lease)] = visits.get(number(lease), 0) + 1
            first = await state.add(CRAWL, links(lease))
            again = [Added.KNOWN if answer is Added.KNOWN else Added.AGAIN for answer in first]
            assert await state.add(CRAWL, links(lease)) == again
        endings = [(lease, verdict(lease)) for lease in leases]
        assert await state.settle(endings) == [Settled.SETTLED] * len(leases)
        assert await state.settle(endings) == [Settled.LOST] * len(leases)
    assert visits == {each: 2 if each % 3 == 0 else 1 for each in range(PAGES)}
    for _ in range(2):
        assert await state.complete(CRAWL)
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.skipped, counts.dead) == (PAGES, PAGES - 2, 1, 1)
    assert counts.bytes == 10 * (PAGES - 2)
    assert len(await lines(state)) == PAGES


async def test_a_page_given_back_twice_comes_once_with_its_attempt(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    (lease,) = await take(state, 2)
    await state.settle([(lease, defer(0.0))])
    assert await state.settle([(lease, defer(0.0))]) == [Settled.LOST]
    (back,) = await take(state, 2)
    assert (back.attempt, back.receives) == (1, 1)


async def test_what_else_is_repeated_changes_nothing_more(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    (lease,) = await take(state, 1)
    record = CrawlRecord(id="another", started_at=5.0, settings=(await state.crawls())[0].settings)
    assert await state.create(record) == await state.create(record)
    for _ in range(2):
        assert await state.extend([lease]) == [Settled.SETTLED]
        await state.hold("a.example", until=backend.now() - 5, interval=0.0)
        await state.beat(Beat(worker="worker-9", at=backend.now()))
        assert await state.remember("fact", b"value", 60)
    assert await state.recall(["fact"]) == [b"value"]
    assert [beat.worker for beat in await state.workers()].count("worker-9") == 1
    await state.settle([(lease, dead("dns", "no such host"))])
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [True]
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [False]
    assert [await state.sweep(CRAWL) for _ in range(2)] == [0, 0]
    for _ in range(2):
        await state.purge(CRAWL)
    assert [crawl.id for crawl in await state.crawls()] == ["another"]
