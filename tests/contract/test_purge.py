"""A crawl that is dropped: nothing of it is left, and nothing else is touched."""

from __future__ import annotations

import pytest

from crawler.errors import UsageError
from crawler.model import Added, Settled, dead, done, retry
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take, take_one


async def test_a_purged_crawl_is_unknown(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    await state.purge(CRAWL)
    assert await state.crawls() == []
    assert await other.crawls() == []
    for ask in (state.counts, other.counts, state.complete):
        with pytest.raises(UsageError):
            await ask(CRAWL)
    with pytest.raises(UsageError):
        await state.add(CRAWL, pages(3))
    with pytest.raises(UsageError):
        await state.in_scope(CRAWL, ["a.example"])
    with pytest.raises(UsageError):
        await lines(state)
    assert await take(other, 3) == []


async def test_purging_again_and_purging_nothing_do_no_harm(backend: Backend) -> None:
    state = await backend.open()
    await state.purge("nothing")
    await new_crawl(state, backend)
    await state.purge("nothing")
    assert [record.id for record in await state.crawls()] == [CRAWL]
    await state.purge(CRAWL)
    await state.purge(CRAWL)
    assert await state.crawls() == []


async def test_the_other_crawls_keep_all_that_is_theirs(backend: Backend) -> None:
    state = await backend.open()
    for name in ("kept", CRAWL):
        await new_crawl(state, backend, name)
        await state.add(name, [*pages(4), page("/no", skip="trap")])
    fetched, failed, held = await take(state, 3, "kept")
    dropped = await take(state, 2, CRAWL)
    await state.settle([(fetched, done(7)), (failed, dead("dns", "no such host"))])
    before, sums = await lines(state, "kept"), await state.counts("kept")
    await state.purge(CRAWL)
    assert await lines(state, "kept") == before
    after = await state.counts("kept")
    assert (after.discovered, after.done, after.skipped, after.dead, after.bytes) == (5, 1, 1, 1, sums.bytes)
    assert await state.in_scope("kept", ["a.example"]) == [True]
    assert await state.add("kept", pages(4)) == [Added.AGAIN] * 4
    assert await state.settle([(held, done(1))]) == [Settled.SETTLED]
    assert await state.settle([(await take_one(state), done(1))]) == [Settled.SETTLED]
    assert await state.settle([(lease, done(1)) for lease in dropped]) == [Settled.LOST] * 2
    assert await take(state, 1) == []
    assert await state.complete("kept")


async def test_leases_of_a_purged_crawl_are_lost_for_good(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    held = await take(state, 3)
    await other.purge(CRAWL)
    verdicts = [done(1), retry(0, "dns", "no such host"), dead("dns", "no such host")]
    assert await state.settle(list(zip(held, verdicts, strict=True))) == [Settled.LOST] * 3
    # The very same pages, found by a crawl of the same name and leased as often as they were before.
    await new_crawl(other, backend)
    await other.add(CRAWL, pages(3))
    now_held = await take(other, 3)
    assert {lease.url for lease in now_held} == {lease.url for lease in held}
    assert await state.settle(list(zip(held, verdicts, strict=True))) == [Settled.LOST] * 3
    assert await other.settle([(lease, done(1)) for lease in now_held]) == [Settled.SETTLED] * 3


async def test_a_heartbeat_tells_that_a_crawl_was_purged(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    held = await take(state, 3)
    await other.purge(CRAWL)
    assert await state.extend(held) == [Settled.LOST] * 3
    await new_crawl(other, backend)
    await other.add(CRAWL, pages(3))
    await take(other, 3)
    assert await state.extend(held) == [Settled.LOST] * 3


async def test_a_crawl_of_the_same_name_starts_from_nothing(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=0.0)
    seed = page("/")
    links = pages(5, parent=parent(seed), depth=1)
    await state.add(CRAWL, [seed])
    await state.add(CRAWL, links)
    first = await take(state, 6)
    await state.settle([(lease, retry(0, "dns", "no such host")) for lease in first])
    await state.purge(CRAWL)
    await new_crawl(state, backend, max_depth=3)
    (record,) = await state.crawls()
    assert (record.settings.max_depth, record.completed_at) == (3, None)
    assert await lines(state) == {}
    assert (await state.counts(CRAWL)).discovered == 0
    assert await state.in_scope(CRAWL, ["a.example"]) == [False]
    assert await state.add(CRAWL, [seed]) == [Added.NEW]
    assert await state.add(CRAWL, links) == [Added.NEW] * 5
    again = await take(state, 7)
    assert {(lease.url, lease.attempt, lease.receives) for lease in again} == {(lease.url, 1, 1) for lease in first}
    assert [line.failures for line in (await lines(state)).values()] == [()] * 6
    await state.settle([(lease, done(1)) for lease in again])
    assert await state.complete(CRAWL)


async def test_gates_and_facts_outlive_a_crawl(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend, rate=1.0)
    await state.add(CRAWL, pages(3))
    until = backend.now() + 60
    await state.hold("a.example", until=until)
    await state.hold("b.example", interval=30.0)
    first = await state.turn(CRAWL, "b.example")
    assert await state.remember("robots:a", b"rules", 60)
    await state.purge(CRAWL)
    await new_crawl(state, backend, rate=1.0)
    assert await state.turn(CRAWL, "a.example") >= until - 0.001
    assert await state.turn(CRAWL, "b.example") >= first + 30 - 0.001
    assert await state.recall(["robots:a"]) == [b"rules"]


async def test_thousands_of_pages_are_purged(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    for number in range(4):
        await state.add(CRAWL, pages(300, f"h{number}.example"))
    await take(state, 20)
    await state.purge(CRAWL)
    assert await state.crawls() == []
    await new_crawl(state, backend)
    assert await lines(state) == {}
