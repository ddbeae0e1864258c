"""Sums by reason and by host: where they are kept, what they cost, and how they become exact."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from crawler.config import CrawlSettings
from crawler.errors import StateUnavailable
from crawler.model import MAX_PAGES_PER_HOST, CrawlRecord, dead, done, skipped
from crawler.state.aws import claiming, quota
from crawler.state.aws.records import OTHER
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import Place, page, pages
from tests.aws.proxy import Proxy


async def test_reasons_are_counted_by_the_writes_that_count_the_ends(state: AwsState) -> None:
    await state.add("c", pages(6))
    leases = await state.claim(10)
    verdicts = [
        skipped("robots"),
        skipped("robots"),
        skipped("trap-length"),
        dead("dns", "no"),
        dead("tls", "no"),
        done(),
    ]
    before = state.requests.copy()
    await state.settle(list(zip(leases, verdicts, strict=True)))
    assert (state.requests - before)["dynamodb.UpdateItem"] == 1
    counts = await state.counts("c")
    assert (counts.skips, counts.deaths) == ({"robots": 2, "trap-length": 1}, {"dns": 1, "tls": 1})
    assert not counts.exact


async def test_a_revival_is_no_death_any_more(state: AwsState) -> None:
    await state.add("c", pages(3))
    leases = await state.claim(10)
    await state.settle([(lease, dead("dns" if i else "tls", "no")) for i, lease in enumerate(leases)])
    await state.revive("c", [(lease.digest, 0.0) for lease in leases[:2]])
    await state.revive("c", [(lease.digest, 0.0) for lease in leases[:2]])
    assert (await state.counts("c")).deaths == {"dns": 1}


async def test_pages_that_are_skipped_when_added_are_counted_by_reason(state: AwsState) -> None:
    await state.add("c", [page("https://a.example/1", skip="depth"), page("https://a.example/" + "x" * 200_000)])
    assert (await state.counts("c")).skips == {"depth": 1, "url-too-long": 1}


async def test_whatever_a_reason_holds_the_crawls_item_stays_small(state: AwsState, place: Place) -> None:
    await state.add("c", pages(200))
    settled = 0
    while settled < 200:
        leases = await state.claim(100)
        settled += len(await state.settle([(lease, skipped(f"Odd {lease.url} \ud800")) for lease in leases]))
    assert (await state.counts("c")).skips == {OTHER: 200}
    assert await state.complete("c")
    counts = await state.counts("c")
    assert (counts.exact, counts.skips) == (True, {OTHER: 200})
    assert len([name for item in place.items(place.control) for name in item if name.startswith("skipped#")]) == 1


async def test_a_crawl_that_is_complete_has_exact_sums_by_reason(state: AwsState) -> None:
    await state.add("c", pages(4))
    leases = await state.claim(10)
    verdicts = [skipped("robots"), dead("dns", "no"), dead("dns", "no"), done()]
    await state.settle(list(zip(leases, verdicts, strict=True)))
    # As a process that died between records and counters leaves them, and one that counted twice.
    state._crawls.owe(f"c#{state._crawls._seen['c'].run}", {"skipped#robots": -1, "skipped#wrong": 3, "dead#dns": 5})
    assert (await state.counts("c")).deaths == {"dns": 7}
    assert await state.complete("c")
    counts = await state.counts("c")
    assert (counts.exact, counts.skips, counts.deaths) == (True, {"robots": 1}, {"dns": 2})


async def settle_all(state: AwsState, count: int) -> Counter[str]:
    """Work on so many pages; how many of them came with which limit."""
    limits: Counter[str] = Counter()
    while limits.total() < count:
        leases = await state.claim(10)
        limits.update(lease.limit for lease in leases)
        await state.settle([(lease, skipped(lease.limit) if lease.limit else done()) for lease in leases])
    return limits


async def test_a_limit_a_host_counts_over_all_workers(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "NEAR_LIMIT", 0)
    monkeypatch.setattr(quota, "FRESH", 0.0)
    one, two = await opening("one", max_pages_per_host=4), await opening("two", max_pages_per_host=4)
    await one.add("c", pages(9, host="a.example") + pages(3, host="b.example"))
    first = await one.claim(2)
    await one.settle([(lease, done()) for lease in first])
    await settle_all(two, 10)
    done_at = Counter([line.gate async for line in one.ledger("c") if line.phase == "done"])
    assert done_at == {"a.example": 4, "b.example": 3}
    assert (await one.counts("c")).skips == {MAX_PAGES_PER_HOST: 5}


async def test_a_limit_a_host_costs_a_write_a_gate_and_batch_and_nothing_without_it(opening: Open) -> None:
    state = await opening(max_pages_per_host=100)
    await state.create(CrawlRecord(id="free", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    for crawl, writes in (("c", 1 + 3), ("free", 1)):
        await state.add(crawl, [page for host in "abc" for page in pages(3, host=f"{host}.example")])
        leases = await state.claim(10, crawl)
        assert len(leases) == 9
        before = state.requests.copy()
        await state.settle([(lease, done()) for lease in leases])
        assert (state.requests - before)["dynamodb.UpdateItem"] == writes


@pytest.mark.usefixtures("impatient")
async def test_a_count_that_failed_is_written_once_by_the_repetition(proxy: Proxy, opening: Open, place: Place) -> None:
    state = await opening(max_pages_per_host=100)
    await state.add("c", pages(3))
    endings = [(lease, done()) for lease in await state.claim(10)]
    pay, broken = state._quotas._pay, [True]

    async def pay_or_fail(run: str, gate: str) -> None:
        if broken.pop():
            proxy.drop("UpdateItem", times=1)
        await pay(run, gate)

    state._quotas._pay = pay_or_fail  # type: ignore[method-assign]
    with pytest.raises(StateUnavailable):
        await state.settle(endings)
    state._quotas._pay = pay  # type: ignore[method-assign]
    await state.settle(endings)
    assert counted(place) == [3]


def counted(place: Place) -> list[int]:
    items = place.items(place.control)
    return [int(item["done"]["N"]) for item in items if item["pk"]["S"].startswith("#done#")]


async def test_a_limit_that_is_set_late_counts_what_was_done_before(opening: Open, place: Place) -> None:
    state = await opening()
    await state.add("c", pages(8))
    await state.settle([(lease, done()) for lease in await state.claim(3)])
    await state.amend("c", CrawlSettings(rate=0.0, max_pages_per_host=3))
    await state.amend("c", CrawlSettings(rate=0.0, max_pages_per_host=3))
    assert counted(place) == [3]
    assert await settle_all(state, 5) == {MAX_PAGES_PER_HOST: 5}


async def test_counts_of_a_purged_crawl_are_gone(opening: Open, place: Place) -> None:
    state = await opening(max_pages_per_host=100)
    await state.create(
        CrawlRecord(id="c2", started_at=time.time(), settings=CrawlSettings(rate=0.0, max_pages_per_host=9))
    )
    for crawl in ("c", "c2"):
        await state.add(crawl, pages(2))
        await state.settle([(lease, done()) for lease in await state.claim(10, crawl)])
    assert counted(place) == [2, 2]
    await state.purge("c")
    assert counted(place) == [2]
