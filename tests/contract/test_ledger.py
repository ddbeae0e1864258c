"""Records, sums and the end of a crawl: the ledger adds up whatever happens."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import Added, CrawlRecord, Ending, Lease, Phase, Verdict, dead, done, skipped
from tests.contract.backends import Backend, Difference, needs
from tests.contract.words import CRAWL, hosts, new_crawl, page, pages, parent, take, take_one


async def test_a_record_is_written_once(backend: Backend) -> None:
    state = await backend.open()
    first = CrawlRecord(
        id=CRAWL, started_at=1000.0, settings=CrawlSettings(rate=3.0, include=("x",), lease=60.0), store="/out"
    )
    stored = await state.create(first)
    assert (stored.id, stored.started_at, stored.settings, stored.store) == (CRAWL, 1000.0, first.settings, "/out")
    second = CrawlRecord(id=CRAWL, started_at=2000.0, settings=CrawlSettings(), store="/elsewhere")
    assert (await state.create(second)).settings == first.settings
    assert (await state.create(first)).started_at == 1000.0


async def test_crawls_come_oldest_first(backend: Backend) -> None:
    state = await backend.open()
    assert await state.crawls() == []
    for name, started_at in (("late", 3000.0), ("early", 1000.0), ("middle", 2000.0)):
        await state.create(CrawlRecord(id=name, started_at=started_at, settings=CrawlSettings()))
    records = await state.crawls()
    assert [record.id for record in records] == ["early", "middle", "late"]
    assert [record.completed_at for record in records] == [None] * 3


async def test_settings_are_replaced_and_seen_by_every_handle(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    settings = CrawlSettings(rate=9.0, max_pages=7, lease=60.0)
    await state.amend(CRAWL, settings)
    await state.amend(CRAWL, settings)
    (record,) = await state.crawls()
    assert record.settings == settings
    with pytest.raises(UsageError):
        await state.amend("nothing", CrawlSettings())


async def test_another_handle_finds_what_the_first_wrote(backend: Backend) -> None:
    one = await backend.open("one")
    two = await backend.open("two")
    await new_crawl(one, backend)
    await one.add(CRAWL, pages(3))
    assert [record.id for record in await two.crawls()] == [CRAWL]
    assert len(await take(two, 3)) == 3


async def test_an_unknown_crawl_has_no_sums(backend: Backend) -> None:
    state = await backend.open()
    for ask in (state.counts, state.complete):
        with pytest.raises(UsageError):
            await ask("nothing")
    with pytest.raises(UsageError):
        [line async for line in state.ledger("nothing")]


async def test_the_ledger_lists_every_page_with_its_phase(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, [*pages(5), page("/no", skip="trap")])
    leases = sorted(await take(state, 4), key=lambda lease: lease.url)
    await state.settle([(leases[0], done(5)), (leases[1], skipped("robots")), (leases[2], dead("dns", "no such host"))])
    lines = {line.url: line async for line in state.ledger(CRAWL)}
    assert len(lines) == 6
    assert [(lines[lease.url].phase, lines[lease.url].reason) for lease in leases[:3]] == [
        (Phase.DONE, ""),
        (Phase.SKIPPED, "robots"),
        (Phase.DEAD, "dns"),
    ]
    assert lines["http://a.example/no"].phase is Phase.SKIPPED
    assert {lines[lease.url].digest for lease in leases} == {lease.digest for lease in leases}


async def test_a_long_ledger_is_read_to_its_end(backend: Backend) -> None:
    needs(backend, Difference.REAL_TIME)
    state = await backend.open()
    await new_crawl(state, backend)
    await new_crawl(state, backend, "other")
    await state.add(CRAWL, pages(4500))
    await state.add("other", pages(10))
    assert len({line.digest async for line in state.ledger(CRAWL)}) == 4500
    assert len([line async for line in state.ledger("other")]) == 10


async def test_a_crawl_is_complete_when_nothing_is_pending_leased_or_delayed(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(1))
    assert not await state.complete(CRAWL)
    lease = await take_one(state)
    assert not await state.complete(CRAWL)
    await state.add(CRAWL, [page("/child", parent=parent(lease), depth=1)])
    await state.settle([(lease, done())])
    assert not await state.complete(CRAWL)
    await state.settle([(await take_one(state), Verdict(Ending.DEFER, at=backend.now() + 2))])
    assert not await state.complete(CRAWL)
    await backend.advance(3)
    await state.settle([(await take_one(state), done())])
    assert (await state.crawls())[0].completed_at is None
    assert await state.complete(CRAWL)
    completed_at = (await state.crawls())[0].completed_at
    assert completed_at is not None
    assert completed_at <= backend.now()
    await backend.advance(1)
    assert await state.complete(CRAWL)
    assert (await state.crawls())[0].completed_at == completed_at


async def test_a_new_page_opens_a_completed_crawl_again_and_a_known_one_does_not(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, [page("/")])
    await state.settle([(await take_one(state), done())])
    assert await state.complete(CRAWL)
    assert await state.add(CRAWL, [page("/")]) == [Added.AGAIN]
    assert await state.complete(CRAWL)
    assert await state.add(CRAWL, [page("/new")]) == [Added.NEW]
    assert (await state.crawls())[0].completed_at is None
    assert not await state.complete(CRAWL)


async def test_the_record_says_when_it_last_moved(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    await backend.advance(2)
    await state.add(CRAWL, pages(1))
    added = (await state.crawls())[0].updated_at
    await backend.advance(2)
    await state.settle([(await take_one(state), done())])
    assert (await state.crawls())[0].updated_at >= added > 0


async def test_the_sums_follow_each_ending(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend)
    await state.add(CRAWL, pages(6))
    one, two, three, four, _ = await take(state, 5)
    later = Verdict(Ending.RETRY, at=backend.now() + 60, reason="dns")
    await state.settle([(one, done(70)), (two, skipped("robots")), (three, dead("dns", "")), (four, later)])
    counts = await state.counts(CRAWL)
    assert (counts.pending, counts.leased, counts.done, counts.skipped, counts.dead) == (2, 1, 1, 1, 1)
    assert (counts.discovered, counts.bytes, counts.outstanding) == (6, 70, 3)


async def test_skips_and_deaths_are_told_by_reason(backend: Backend) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS)
    state = await backend.open()
    await new_crawl(state, backend)
    assert (await state.counts(CRAWL)).skips == {}
    trapped = [page(f"/trap/{number}", skip="trap") for number in range(3)]
    await state.add(CRAWL, [*pages(6), *trapped, page("/no", skip="robots"), page("/no", skip="robots")])
    await state.add(CRAWL, trapped)
    leases = await take(state, 6)
    endings = [
        *((lease, skipped("robots")) for lease in leases[:2]),
        *((lease, dead("dns", "no such host")) for lease in leases[2:4]),
        (leases[4], dead("http-503", "HTTP 503")),
        (leases[5], done(1)),
    ]
    await state.settle(endings)
    await state.settle(endings)
    counts = await state.counts(CRAWL)
    assert (counts.skips, counts.deaths) == ({"trap": 3, "robots": 3}, {"dns": 2, "http-503": 1})
    assert (sum(counts.skips.values()), sum(counts.deaths.values())) == (counts.skipped, counts.dead)
    await state.revive(CRAWL, [(lease.digest, 0.0) for lease in leases[3:]] * 2)
    assert (await state.counts(CRAWL)).deaths == {"dns": 1}
    await state.settle([(lease, dead("timeout", "no answer")) for lease in await take(state, 2)])
    assert (await state.counts(CRAWL)).deaths == {"dns": 1, "timeout": 2}
    await state.purge(CRAWL)
    await new_crawl(state, backend)
    counts = await state.counts(CRAWL)
    assert (counts.skips, counts.deaths) == ({}, {})


async def test_reasons_are_told_for_each_crawl(backend: Backend) -> None:
    state = await backend.open()
    for name in ("one", "two"):
        await new_crawl(state, backend, name)
    await state.add("one", [page("/", skip="trap")])
    await state.add("two", [page("/", skip="depth")])
    assert [(await state.counts(name)).skips for name in ("one", "two")] == [{"trap": 1}, {"depth": 1}]


@pytest.mark.parametrize("seed", range(5))
async def test_the_sums_agree_with_the_ledger_after_any_history(backend: Backend, seed: int) -> None:
    needs(backend, Difference.APPROXIMATE_COUNTS, Difference.REAL_TIME)
    dice = random.Random(seed)
    states = [await backend.open("one")]
    await new_crawl(states[0], backend, lease=5.0, rate=dice.choice([0.0, 50.0]))
    held: list[Lease] = []
    size = 0
    for _ in range(150):
        state = dice.choice(states)
        match dice.randrange(6):
            case 0:
                source = parent(dice.choice(held)) if held and dice.random() < 0.7 else None
                place = f"/{dice.randrange(200)}", f"{dice.choice('abc')}.example"
                chosen = [page(*place, parent=source, depth=1, skip=dice.choice(["", "", "trap"]))]
                await state.add(CRAWL, chosen * dice.randrange(1, 3))
            case 1 | 2:
                held += await state.claim(dice.randrange(1, 8))
            case 3 if held:
                lease = held.pop(dice.randrange(len(held)))
                ending, at = dice.choice(list(Ending)), backend.now() + dice.choice([0, 3])
                verdict = Verdict(ending, at=at, reason=dice.choice(["dns", "robots"]), bytes=1)
                answers = await state.settle([(lease, verdict)] * dice.randrange(1, 3))
                size += [answer.value for answer in answers].count("settled")
            case 4:
                await backend.advance(dice.choice([0.1, 2.0, 6.0]))
            case 5:
                await state.release(dice.choice(["one", "nobody"]))
            case _:
                letters = [line.digest async for line in state.ledger(CRAWL, Phase.DEAD)]
                await state.revive(CRAWL, [(digest, backend.now() + dice.choice([0, 3])) for digest in letters])
                await state.extend(held)
        counts = await state.counts(CRAWL)
        ledger = [line async for line in state.ledger(CRAWL)]
        phases = [line.phase for line in ledger]
        assert [phases.count(phase) for phase in Phase] == [
            counts.pending,
            counts.leased,
            counts.done,
            counts.skipped,
            counts.dead,
        ]
        assert (counts.discovered, counts.bytes) == (len(phases), size)
        assert counts.skips == Counter(line.reason for line in ledger if line.phase is Phase.SKIPPED)
        assert counts.deaths == Counter(line.reason for line in ledger if line.phase is Phase.DEAD)
        assert Counter({name: host.pending for name, host in (await hosts(state)).items()}) == Counter(
            line.gate for line in ledger if line.phase is Phase.PENDING
        )
        assert Counter({name: host.leased for name, host in (await hosts(state)).items()}) == Counter(
            line.gate for line in ledger if line.phase is Phase.LEASED
        )
        assert Counter({name: host.done for name, host in (await hosts(state)).items()}) == Counter(
            line.gate for line in ledger if line.phase is Phase.DONE
        )
    while not await states[0].complete(CRAWL):
        await backend.advance(6)
        await states[0].settle([(lease, done()) for lease in await states[0].claim(50)])
    assert {line.phase async for line in states[0].ledger(CRAWL)} <= {Phase.DONE, Phase.SKIPPED, Phase.DEAD}
