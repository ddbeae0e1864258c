"""What the ledger tells of a page: phase, place, failed attempts; and what it tells of the crawl's settings."""

from __future__ import annotations

import pytest

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import ERROR_LENGTH, HISTORY, Phase, Settled, dead, defer, done, retry, skipped
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, lines, new_crawl, page, pages, parent, take, take_one

SLACK = 1e-3
"""Of two times, for states that keep them less exactly than a float does."""


async def test_the_ledger_of_one_phase_is_that_part_of_the_whole(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await new_crawl(state, backend, "other")
    await state.add("other", pages(3))
    await state.add(CRAWL, [*pages(12), page("/no", skip="trap")])
    leases = await take(state, 8, CRAWL)
    verdicts = [
        *(done(5), done(5), skipped("robots"), dead("dns", "no such host"), dead("connect", "refused")),
        retry(backend.now() + 60, "timeout", "no answer"),
    ]
    await state.settle(list(zip(leases, verdicts, strict=False)))
    whole = await lines(state)
    assert len(whole) == 13
    for phase in Phase:
        some = {digest: line for digest, line in whole.items() if line.phase is phase}
        assert await lines(state, CRAWL, phase) == some
    dead_letters = await lines(state, CRAWL, Phase.DEAD)
    assert {line.reason: line.error for line in dead_letters.values()} == {"dns": "no such host", "connect": "refused"}
    with pytest.raises(UsageError):
        await lines(state, "nothing", Phase.DEAD)


async def test_the_ledger_tells_where_a_page_was_found(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    before = backend.now()
    seed, sitemap = page("/"), page("/sitemap.xml")
    link = page("/link", "b.example", parent=parent(seed), depth=1)
    listed = page("/listed", parent=parent(sitemap), depth=2)
    await state.add(CRAWL, [seed])
    await state.add(CRAWL, [link, listed])
    after = backend.now()
    found = await lines(state)
    assert {each: (line.digest, line.url, line.gate, line.depth, line.parent) for each, line in found.items()} == {
        each.digest: (each.digest, each.url, each.gate, each.depth, each.parent and each.parent.digest)
        for each in (seed, link, listed)
    }
    assert all(before - SLACK <= line.discovered_at <= after + SLACK for line in found.values())


async def test_failed_attempts_are_kept_with_time_reason_and_error(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    seed = page()
    await state.add(CRAWL, [seed])
    times = []
    for verdict in (retry(0, "dns", "no such host"), defer(0), retry(0, "timeout", "no answer in 30 s")):
        times.append(backend.now())
        await state.settle([(await take_one(state), verdict)])
    await state.settle([(await take_one(state), dead("status-503", "Service Unavailable"))])
    line = (await lines(state))[seed.digest]
    assert (line.phase, line.reason, line.error) == (Phase.DEAD, "status-503", "Service Unavailable")
    assert line.attempts == 3
    assert [(failure.reason, failure.error) for failure in line.failures] == [
        ("dns", "no such host"),
        ("timeout", "no answer in 30 s"),
        ("status-503", "Service Unavailable"),
    ]
    at = [failure.at for failure in line.failures]
    assert at == sorted(at)
    assert times[0] - SLACK <= at[0] <= at[-1] <= backend.now() + SLACK


async def test_the_ledger_tells_of_failures_before_the_page_ends(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    for number in range(2):
        await state.settle([(await take_one(state), retry(0, "dns", f"failure {number}"))])
    ((line),) = (await lines(state)).values()
    assert (line.phase, line.reason, line.error, line.attempts) == (Phase.PENDING, "", "", 2)
    assert [failure.error for failure in line.failures] == ["failure 0", "failure 1"]


async def test_a_page_that_never_failed_has_no_history(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(3))
    fetched, left_out, waiting = await take(state, 3)
    await state.settle([(fetched, done(1)), (left_out, skipped("robots")), (waiting, defer(0))])
    assert {(line.attempts, line.failures, line.error) for line in (await lines(state)).values()} == {(0, (), "")}


async def test_a_success_leaves_the_failures_before_it_in_the_ledger(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), retry(0, "dns", "no such host"))])
    await state.settle([(await take_one(state), done(1))])
    ((line),) = (await lines(state)).values()
    assert (line.phase, line.reason, line.error, line.attempts) == (Phase.DONE, "", "", 1)
    assert [failure.reason for failure in line.failures] == ["dns"]


async def test_of_many_failures_the_latest_are_kept_and_of_a_long_error_the_beginning(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    errors = [f"failure {number}: " + "é" * 5000 for number in range(HISTORY + 4)]
    for error in errors[:-1]:
        assert await state.settle([(await take_one(state), retry(0, "protocol", error))]) == [Settled.SETTLED]
    assert await state.settle([(await take_one(state), dead("protocol", errors[-1]))]) == [Settled.SETTLED]
    ((line),) = (await lines(state)).values()
    assert line.attempts == HISTORY + 4
    assert [failure.error.partition(":")[0] for failure in line.failures] == [
        f"failure {number}" for number in range(4, HISTORY + 4)
    ]
    assert {len(failure.error) for failure in line.failures} == {ERROR_LENGTH}


async def test_a_lost_settlement_leaves_no_failure(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    lease = await take_one(state)
    failed = [(lease, dead("dns", "no such host"))]
    assert await state.settle(failed) == [Settled.SETTLED]
    assert await state.settle(failed) == [Settled.LOST]
    ((line),) = (await lines(state)).values()
    assert (line.attempts, len(line.failures)) == (1, 1)


async def test_the_record_tells_when_the_settings_were_replaced(backend: Backend) -> None:
    state, other = await backend.open(), await backend.open("other")
    await new_crawl(state, backend)
    await new_crawl(state, backend, "untouched")
    await backend.advance(1)
    before = backend.now()
    await state.amend(CRAWL, CrawlSettings(rate=9.0))
    after = backend.now()
    amended = {record.id: record.amended_at for record in await other.crawls()}
    assert amended["untouched"] == 0
    assert before - SLACK <= amended[CRAWL] <= after + SLACK
    await state.add(CRAWL, pages(1))
    await state.settle([(await take_one(state), done(1))])
    assert {record.id: record.amended_at for record in await state.crawls()} == amended
