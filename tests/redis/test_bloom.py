"""`--dedup bloom`: done and skipped pages leave their record for a filter, and nothing else changes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import Added, Lease, Page, Phase, Settled, dead, defer, done, retry, skipped
from crawler.state.redis import RedisState
from tests.contract.words import CRAWL, lines, page, pages, parent, take, take_one
from tests.redis.making import Make, direct, keys, name_of, record
from tests.redis.relay import relaying
from tests.redis_server import RedisServer, bloom_module, running


def size(redis: Redis, address: str, name: str) -> int:
    """Entries of a key of the address's first crawl."""
    key = f"{{{name_of(address)}}}:1:{name}"
    return int(redis.zcard(key) if name in ("kept", "leases") else redis.hlen(key))


def left_over(redis: Redis, address: str) -> dict[str, int]:
    """What is still kept of pages, by key."""
    names = ("pages", "parents", "failures", "children", "kept", "leases")
    return {name: size(redis, address, name) for name in names}


NOTHING = dict.fromkeys(("pages", "parents", "failures", "children", "kept", "leases"), 0)

# ---------------------------------------------------------------- what leaves, and what stays


async def test_pages_that_ended_leave_their_record_and_stay_known(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state, other = await make(address, dedup="bloom"), await make(address, "other", dedup="bloom")
    await state.add(CRAWL, [*pages(4), page("/no", skip="url-too-long")])
    one, two, three, _ = await take(state, 4)
    assert (
        await state.settle([(one, done(7)), (two, skipped("robots")), (three, dead("dns", "no such host"))])
        == [Settled.SETTLED] * 3
    )
    left = {line.phase for line in (await lines(state)).values()}
    assert left == {Phase.DEAD, Phase.LEASED}
    for handle in (state, other):
        assert await handle.add(CRAWL, [*pages(4)[:2], page("/no")]) == [Added.KNOWN] * 3
        assert await handle.add(CRAWL, [page("/0", parent=parent(page("/3")))]) == [Added.KNOWN]
        assert await handle.add(CRAWL, pages(4)[2:]) == [Added.AGAIN] * 2
    assert await state.settle([(one, done())]) == await state.extend([two]) == [Settled.LOST]
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.skipped, counts.dead, counts.leased) == (5, 1, 2, 1, 1)
    assert (counts.bytes, counts.exact) == (7, True)


async def test_the_sums_of_hosts_and_reasons_stay_when_records_leave(bloom_server: RedisServer, make: Make) -> None:
    state = await make(bloom_server.address(), dedup="bloom", max_pages_per_host=2)
    await state.add(CRAWL, [*pages(4), page("/no", skip="url-too-long"), *pages(2, "b.example")])
    leases = {lease.url: lease for lease in await take(state, 9)}
    assert len(leases) == 4
    one, two, three, four = leases.values()
    await state.settle([(one, done()), (two, done()), (three, done()), (four, dead("dns", "no such host"))])
    rest = await take(state, 9)
    assert [lease.limit for lease in rest] == ["max-pages-per-host"] * 2
    await state.settle([(lease, skipped("max-pages-per-host")) for lease in rest])
    counts = await state.counts(CRAWL)
    assert counts.skips == {"url-too-long": 1, "max-pages-per-host": 2}
    assert counts.deaths == {"dns": 1}
    hosts = {host.gate: (host.pending, host.leased, host.done) async for host in state.hosts(CRAWL)}
    assert set(hosts) == {"a.example", "b.example"}
    assert sum(done for _, _, done in hosts.values()) == counts.done == 3
    assert {(pending, leased) for pending, leased, _ in hosts.values()} == {(0, 0)}


async def test_what_the_filter_takes_for_known_is_not_added(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address, dedup="bloom")
    with direct(bloom_server) as redis:
        redis.bf().add(f"{{{name_of(address)}}}:1:filter", page("/1").digest)
    assert await state.add(CRAWL, pages(3)) == [Added.NEW, Added.KNOWN, Added.NEW]
    assert (await state.counts(CRAWL)).discovered == 2


async def test_a_crawl_without_the_option_keeps_every_record(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address)
    await state.add(CRAWL, pages(3))
    await state.settle([(lease, done()) for lease in await take(state, 3)])
    assert len(await lines(state, phase=Phase.DONE)) == 3
    assert await state.add(CRAWL, pages(3)) == [Added.AGAIN] * 3
    with direct(bloom_server) as redis:
        assert not keys(redis, address) & {"1:filter", "1:children", "1:kept"}


# ---------------------------------------------------------------- parents and children


async def leased(state: RedisState) -> Lease:
    """A page at which a worker is."""
    await state.add(CRAWL, [page("/")])
    return await take_one(state)


async def test_a_parent_that_comes_again_finds_its_own_links_although_they_have_ended(
    bloom_server: RedisServer, make: Make
) -> None:
    address = bloom_server.address()
    state, other = await make(address, dedup="bloom"), await make(address, "other", dedup="bloom")
    first = await leased(state)
    links = [*pages(3, "b.example", parent=parent(first)), page("/no", skip="robots", parent=parent(first))]
    assert await state.add(CRAWL, links) == [Added.NEW] * 4
    await other.settle([(lease, done()) for lease in await take(other, 3)])
    await state.release("w")
    again = await take_one(other)
    assert (again.url, again.receives) == (first.url, 2)
    assert await other.add(CRAWL, links) == [Added.AGAIN] * 4
    fresh = await make(address, "fresh", dedup="bloom")  # it remembers nothing
    assert await fresh.add(CRAWL, links) == [Added.AGAIN] * 4
    assert await fresh.add(CRAWL, [page("/0", "b.example", parent=parent(page("/x")))]) == [Added.KNOWN]
    await other.settle([(again, done())])
    with direct(bloom_server) as redis:
        assert left_over(redis, address) == NOTHING
    late = await make(address, "late", dedup="bloom")
    assert await late.add(CRAWL, links) == [Added.KNOWN] * 4


async def test_a_lease_names_its_parent_long_after_that_one_has_ended(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address, dedup="bloom", lease=5.0)
    first = await leased(state)
    await state.add(CRAWL, pages(3, "b.example", parent=parent(first)))
    await state.settle([(first, done())])
    with direct(bloom_server) as redis:
        assert (size(redis, address, "pages"), size(redis, address, "parents")) == (3, 1)
        one, two, three = await take(state, 3)
        await state.settle([(one, done()), (two, skipped("robots")), (three, retry(0, "dns", ""))])
        # A holder that took so long that others have ended its page may still add.
        await state.add(CRAWL, [page("/more", "b.example", parent=parent(first))])
        await state.add(CRAWL, [page("/no", "b.example", parent=parent(first), skip="robots")])
        last = await take(state, 2)
        assert [lease.parent_url for lease in (one, two, three, *last)] == [first.url] * 5
        await state.settle([(lease, done()) for lease in last])
        assert left_over(redis, address) == NOTHING


async def test_a_dead_letter_lives_again_with_all_that_belongs_to_it(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address, dedup="bloom")
    first = await leased(state)
    await state.add(CRAWL, [page("/dies", parent=parent(first))])
    await state.settle([(first, done())])
    lease = await take_one(state)
    link = page("/no", skip="robots", parent=parent(lease))
    await state.add(CRAWL, [link])  # and then its worker died, again and again
    await state.settle([(lease, dead("fault", "killed"))])
    (letter,) = (await lines(state, phase=Phase.DEAD)).values()
    assert (letter.url, letter.error) == (lease.url, "killed")
    assert await state.revive(CRAWL, [(lease.digest, 0.0)]) == [True]
    revived = await take_one(state)
    assert (revived.parent_url, revived.attempt) == (first.url, 1)
    fresh = await make(address, "fresh", dedup="bloom")
    assert await fresh.add(CRAWL, [link]) == [Added.AGAIN]
    await state.settle([(revived, done())])
    with direct(bloom_server) as redis:
        assert left_over(redis, address) == NOTHING


@pytest.mark.parametrize("seed", range(4))
async def test_any_crawl_ends_with_all_pages_ended_once_and_nothing_left(
    bloom_server: RedisServer, make: Make, seed: int
) -> None:
    chance = random.Random(seed)
    address = bloom_server.address()
    states = [await make(address, f"worker-{number}", dedup="bloom") for number in range(3)]
    await states[0].add(CRAWL, pages(3))
    held: list[tuple[RedisState, Lease]] = []
    ended: set[bytes] = set()
    answered = {Added.NEW: 3, Added.KNOWN: 0, Added.AGAIN: 0}

    def link(lease: Lease) -> Page:
        skip = "robots" if chance.random() < 0.2 else ""
        return page(f"/{chance.randrange(300)}", f"{chance.choice('abc')}.example", parent=parent(lease), skip=skip)

    while held or not await states[0].complete(CRAWL):
        state = chance.choice(states)
        held += [(state, lease) for lease in await state.claim(chance.randrange(1, 20))]
        chance.shuffle(held)
        for holder, lease in [held.pop() for _ in range(chance.randrange(len(held) + 1))]:
            answers = await holder.add(CRAWL, [link(lease) for _ in range(chance.randrange(6))])
            for answer in answers:
                answered[answer] += 1
            verdict = chance.choice([done(1), done(1), done(1), skipped("robots"), defer(0), retry(0, "dns", "")])
            if chance.random() < 0.1:
                await chance.choice(states).release(f"worker-{states.index(holder)}")
            settled = await holder.settle([(lease, verdict)])
            if settled == [Settled.SETTLED] and verdict.ending.value in ("done", "skipped"):
                assert lease.digest not in ended
                ended.add(lease.digest)
    counts = await states[0].counts(CRAWL)
    assert counts.discovered == counts.done + counts.skipped == answered[Added.NEW]
    assert counts.done == counts.bytes
    assert counts.discovered > 200
    with direct(bloom_server) as redis:
        assert left_over(redis, address) == NOTHING
        assert keys(redis, address) >= {"1:filter"}
    assert await states[0].sweep(CRAWL) == 0


# ---------------------------------------------------------------- lost answers, lost filters, a server that restarts


async def test_a_lost_answer_makes_nothing_known_that_was_new(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    async with relaying(bloom_server.port) as relay:
        state = await make(relay.address(address), dedup="bloom")
        await state.settle(
            []
        )  # from here on the server knows the script: what is lost is the answer of one that was run
        first = await leased(state)
        links = [*pages(2, "b.example", parent=parent(first)), page("/no", skip="robots", parent=parent(first))]
        relay.losing = 2
        assert await state.add(CRAWL, links) == [Added.AGAIN] * 3
        endings = [(lease, done(5)) for lease in [first, *await take(state, 2)]]
        relay.losing = 1
        assert await state.settle(endings) == [Settled.LOST] * 3
        assert relay.losing == 0
        counts = await state.counts(CRAWL)
        assert (counts.discovered, counts.done, counts.skipped, counts.bytes) == (4, 3, 1, 15)
    with direct(bloom_server) as redis:
        assert left_over(redis, address) == NOTHING


async def test_where_the_filter_takes_no_more_the_records_stay(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address, dedup="bloom")
    await state.add(CRAWL, pages(3))
    with direct(bloom_server) as redis:
        redis.delete(f"{{{name_of(address)}}}:1:filter")
        await state.settle([(lease, done()) for lease in await take(state, 3)])
        assert f"{name_of(address)}:1:filter" not in keys(redis, address)
    assert len(await lines(state, phase=Phase.DONE)) == 3
    assert await state.add(CRAWL, pages(4)) == [Added.AGAIN] * 3 + [Added.NEW]


async def test_the_filter_survives_a_kill_of_the_server(tmp_path: Path, make: Make) -> None:
    options: dict[str, Any] = {"appendonly": "yes", "appendfsync": "always"}
    with running(tmp_path / "redis", loadmodule=bloom_module(), **options) as server:
        state = await make(server.address("x"), dedup="bloom")
        await state.add(CRAWL, pages(5))
        await state.settle([(lease, done()) for lease in await take(state, 3)])
        server.kill()
        server.start()
        assert await state.add(CRAWL, pages(6)) == [Added.KNOWN] * 3 + [Added.AGAIN] * 2 + [Added.NEW]


# ---------------------------------------------------------------- memory, the ledger, purge


async def test_ended_pages_cost_a_few_bytes_each(bloom_server: RedisServer, make: Make) -> None:
    costs = {}
    for dedup in ("exact", "bloom"):
        address = bloom_server.address()
        state = await make(address, dedup=dedup)
        with direct(bloom_server) as redis:
            tag = f"{{{name_of(address)}}}:"
            filter_size = redis.memory_usage(f"{tag}1:filter") or 0
            assert filter_size < 600_000
            await state.add(CRAWL, pages(20_000))
            while leases := await state.claim(1000):
                await state.settle([(lease, done(1)) for lease in leases])
            costs[dedup] = sum(redis.memory_usage(tag + key, samples=0) or 0 for key in keys(redis, address))
            costs[dedup] -= filter_size
    assert costs["exact"] > 20_000 * 100
    assert costs["bloom"] < 20_000


async def test_the_ledger_lists_a_page_once_while_others_leave(bloom_server: RedisServer, make: Make) -> None:
    state = await make(bloom_server.address(), dedup="bloom")
    await state.add(CRAWL, pages(10_000))
    kept = {lease.digest for lease in await take(state, 100)}
    listed = []
    async for line in state.ledger(CRAWL):
        listed.append(line.digest)
        if len(listed) % 1000 == 1 and len(listed) < 9000:
            await state.settle([(lease, done()) for lease in await take(state, 2000)])
    assert len(listed) == len(set(listed))
    assert kept <= set(listed)


async def test_a_purge_leaves_no_key(bloom_server: RedisServer, make: Make) -> None:
    address = bloom_server.address()
    state = await make(address, dedup="bloom")
    first = await leased(state)
    await state.add(CRAWL, [page("/x", parent=parent(first)), page("/no", skip="robots", parent=parent(first))])
    with direct(bloom_server) as redis:
        assert keys(redis, address) >= {"1:filter", "1:kept", "1:children"}
        await state.purge(CRAWL)
        assert {key for key in keys(redis, address) if key.startswith("1:")} == set()
    await state.create(record(dedup="bloom"))
    assert await state.add(CRAWL, [page("/")]) == [Added.NEW]


# ---------------------------------------------------------------- refusals


async def test_a_server_without_filters_says_what_is_missing_and_writes_nothing(redis_server: RedisServer) -> None:
    address = redis_server.address()
    state = await RedisState.open(address, worker="w", create=True)
    with direct(redis_server) as redis:
        if redis.eval("return redis.pcall('BF.EXISTS', KEYS[1], 'x') == 0", 1, "x"):
            pytest.skip("this server has filters without a module")
        before = redis.hgetall(f"{{{name_of(address)}}}:state")
        with pytest.raises(UsageError, match=r"BF\.RESERVE") as caught:
            await state.create(record(dedup="bloom"))
        assert "\n" not in str(caught.value)
        assert redis.hgetall(f"{{{name_of(address)}}}:state") == before
        assert keys(redis, address) == {"state"}
    assert (await state.create(record())).settings.dedup == "exact"
    await state.close()


@pytest.mark.parametrize(("made", "wanted"), [("exact", "bloom"), ("bloom", "exact")])
async def test_what_a_crawl_was_made_with_stays(bloom_server: RedisServer, make: Make, made: str, wanted: str) -> None:
    state = await make(bloom_server.address(), dedup=made)
    with pytest.raises(UsageError, match="--dedup") as caught:
        await state.amend(CRAWL, record(dedup=wanted, rate=9.0).settings)
    assert "\n" not in str(caught.value)
    (found,) = await state.crawls()
    assert (found.settings, found.amended_at) == (record(dedup=made).settings, 0.0)
    await state.amend(CRAWL, record(dedup=made, rate=9.0).settings)
    assert (await state.crawls())[0].settings.rate == 9.0


def test_exact_is_the_default() -> None:
    assert CrawlSettings().dedup == "exact"
