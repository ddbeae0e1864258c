"""What only the Redis state owes: flat cost, bounded steps, one hash tag, a full memory, keys that were dropped."""

from __future__ import annotations

import asyncio
import math
import os
import time
from pathlib import Path

import msgspec
import pytest
from redis import Redis

from crawler.errors import StateUnavailable, UsageError
from crawler.model import ERROR_LENGTH, HISTORY, Added, Page, Phase, Settled, dead, defer, done, retry, skipped
from crawler.state.redis import RedisState
from tests.contract.words import CRAWL, page, pages, parent, take, take_one
from tests.redis.making import Make, direct, keys, name_of, record
from tests.redis_server import RedisServer, running

# ---------------------------------------------------------------- cost


def scattered(count: int, hosts: int, start: int = 0) -> list[Page]:
    return [
        msgspec.structs.replace(page(f"/{number}", f"h{number % hosts}.example"), digest=os.urandom(16))
        for number in range(start, start + count)
    ]


def commands(redis: Redis) -> int:
    """Commands that the server has run so far, those inside of scripts too."""
    return sum(each["calls"] for each in redis.info("commandstats").values())


@pytest.mark.parametrize("hosts", [1, 20, 2000])
async def test_the_cost_of_a_page_follows_neither_pages_nor_hosts(
    redis_server: RedisServer, make: Make, hosts: int
) -> None:
    state = await make(redis_server.address(), rate=1000.0, in_flight_per_host=1000)
    await state.add(CRAWL, scattered(2000, hosts))
    costs = []
    with direct(redis_server) as redis:
        for _ in range(2):
            before = commands(redis)
            leases = await take(state, 20)
            for lease in leases:
                link = msgspec.structs.replace(page("/x", lease.gate, parent=parent(lease)), digest=os.urandom(16))
                await state.add(CRAWL, [link])
            await state.settle([(lease, done(1)) for lease in leases])
            costs.append(commands(redis) - before)
            await state.add(CRAWL, scattered(20_000, hosts, 2000))
    assert costs[1] <= costs[0] * 1.15 + 20  # how many lanes had closed meanwhile is left to chance


async def test_hosts_that_wait_cost_a_claim_nothing(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address(), rate=0.001)
    await state.add(CRAWL, scattered(5000, 5000))
    while await state.claim(1000):
        pass
    with direct(redis_server) as redis:
        before = commands(redis)
        for _ in range(10):
            assert await state.claim(50) == []
        assert commands(redis) - before <= 10 * 20


async def test_a_page_limit_is_exact_whoever_claims_at_once(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    states = [await make(address, f"worker-{number}", max_pages=25) for number in range(4)]
    await states[0].add(CRAWL, scattered(200, 7))
    ended = 0
    while ended < 25:
        claims = await asyncio.gather(*(state.claim(5) for state in states * 3))
        leases = [lease for leases in claims for lease in leases]
        assert {lease.limit for lease in leases} == {""}
        assert len(leases) == 25 - ended
        some = leases[: math.ceil(len(leases) / 2)]  # the others fail and are tried again
        await asyncio.gather(
            states[0].settle([(lease, done()) for lease in some]),
            states[1].settle([(lease, defer(0)) for lease in leases[len(some) :]]),
        )
        ended += len(some)
    assert {lease.limit for lease in await states[2].claim(300)} == {"max-pages"}
    assert (await states[3].counts(CRAWL)).done == 25


# ---------------------------------------------------------------- keys


async def test_all_keys_of_a_state_are_in_one_slot(tmp_path: Path, make: Make) -> None:
    with running(tmp_path / "redis", appendonly="yes") as server:
        address = server.address("mine")
        state = await make(address)
        await state.add(CRAWL, [*pages(3), page("/no", skip="trap"), page("/x", parent=parent(page("/sitemap")))])
        one, two, _ = await take(state, 3)
        await state.settle([(one, dead("dns", "")), (two, defer(time.time() + 100))])
        await state.remember("name", b"", 60)
        await state.turn(CRAWL, "a.example")
        with direct(server) as redis:
            assert {key.partition(b":")[0] for key in redis.scan_iter()} == {b"{mine}"}


async def test_a_purged_crawl_leaves_no_key_and_the_others_all_theirs(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    state = await make(address)
    await state.create(record("other"))
    await state.hold("a.example", until=time.time() + 1000)
    await state.remember("name", b"fact", 60)
    await state.add("other", pages(3, "b.example"))
    await state.add(CRAWL, [*scattered(5000, 2500), page("/x", parent=parent(page("/sitemap")))])
    one, two, held = await take(state, 3, CRAWL)
    await state.settle([(one, dead("dns", "")), (two, retry(time.time() + 100, "dns", ""))])
    with direct(redis_server) as redis:
        assert any(key.startswith("1:") for key in keys(redis, address))
        await state.purge(CRAWL)
        await state.purge(CRAWL)
        assert {key.partition(":")[0] for key in keys(redis, address)} == {
            "state", "crawls", "active", "gates", "fact", "2",
        }  # fmt: skip
    assert await state.settle([(held, done())]) == [Settled.LOST]
    assert await state.extend([held]) == [Settled.LOST]
    assert await state.recall(["name"]) == [b"fact"]
    assert [crawl.id for crawl in await state.crawls()] == ["other"]
    assert {lease.crawl for lease in await state.claim(9)} == {"other"}
    with pytest.raises(UsageError):
        await state.add(CRAWL, pages(1))


async def test_a_purge_that_was_cut_off_is_finished_by_the_next(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    state = await make(address)
    await state.add(CRAWL, scattered(3000, 3000))
    await state._server.run("purge", (CRAWL,))  # the first step, and then its process died
    assert await state.crawls() == []
    with direct(redis_server) as redis:
        assert "1:pages" in keys(redis, address)
        await state.purge("another")
        assert keys(redis, address) == {"state", "gates"}


async def test_what_a_worker_remembers_of_a_purged_crawl_is_not_believed(redis_server: RedisServer, make: Make) -> None:
    address = redis_server.address()
    state, other = await make(address), await make(address, "other")
    seed, *links = pages(5)
    await state.add(CRAWL, [seed])
    links = pages(5, "b.example", parent=parent(seed), depth=1)
    assert await state.add(CRAWL, links) == [Added.NEW] * 5
    assert await state.add(CRAWL, links) == [Added.AGAIN] * 5
    await other.purge(CRAWL)
    with pytest.raises(UsageError):
        await state.add(CRAWL, links)
    await other.create(record())
    assert await state.add(CRAWL, links) == [Added.NEW] * 5


async def test_links_that_are_known_are_not_sent_again(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    seed = page("/")
    menu = pages(60, parent=parent(seed), depth=1)
    await state.add(CRAWL, [seed, *menu])
    other = [msgspec.structs.replace(link, parent=parent(menu[0])) for link in menu]
    with direct(redis_server) as redis:
        before = redis.info("stats")["total_net_input_bytes"]
        assert await state.add(CRAWL, other) == [Added.KNOWN] * 60
        assert await state.add(CRAWL, menu) == [Added.AGAIN] * 60
        assert redis.info("stats")["total_net_input_bytes"] - before < 1000


async def test_more_pages_than_one_script_takes(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    many = scattered(2500, 3)
    assert await state.add(CRAWL, [*many, *many[:5]]) == [Added.NEW] * 2500 + [Added.AGAIN] * 5
    assert await state.add(CRAWL, []) == []


# ---------------------------------------------------------------- memory


@pytest.mark.case("F17")
async def test_a_full_memory_refuses_writes_and_loses_nothing(tmp_path: Path, make: Make) -> None:
    with running(tmp_path / "redis", appendonly="yes") as server, direct(server) as redis:
        state = await make(server.address())
        await state.add(CRAWL, pages(30))
        leases = await state.claim(10)
        redis.config_set("maxmemory", "1mb")
        for call in (
            lambda: state.add(CRAWL, pages(30, "b.example")),
            lambda: state.settle([(lease, done(1)) for lease in leases]),
            lambda: state.claim(5),
            lambda: state.turn(CRAWL, "a.example"),
        ):
            with pytest.raises(StateUnavailable, match="memory is full"):
                await call()
        counts = await state.counts(CRAWL)
        assert (counts.discovered, counts.pending, counts.leased) == (30, 20, 10)
        assert len([line async for line in state.ledger(CRAWL)]) == 30
        redis.config_set("maxmemory", "0")
        assert await state.settle([(lease, done(1)) for lease in leases]) == [Settled.SETTLED] * 10
        assert await state.add(CRAWL, pages(30, "b.example")) == [Added.NEW] * 30
        assert len(await state.claim(99)) == 50
        assert await state.sweep(CRAWL) == 0
        await state.close()


# ---------------------------------------------------------------- dead letters


async def test_failures_are_kept_with_the_page_the_latest_only(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    await state.add(CRAWL, [page("/", depth=2)])
    for number in range(HISTORY + 2):
        await state.settle([(await take_one(state), retry(0, "dns", f"{number} caf\udce9 " + "x" * 500))])
    await state.settle([(await take_one(state), dead("connect", "refused"))])
    (line,) = [line async for line in state.ledger(CRAWL, Phase.DEAD)]
    assert (line.reason, line.error, line.attempts) == ("connect", "refused", HISTORY + 3)
    assert (line.gate, line.depth, line.parent) == ("a.example", 2, None)
    assert line.discovered_at == pytest.approx(time.time(), abs=60)
    assert [failure.reason for failure in line.failures] == ["dns"] * (HISTORY - 1) + ["connect"]
    assert line.failures[0].error.startswith("3 caf? xxx")
    assert max(len(failure.error) for failure in line.failures) == ERROR_LENGTH
    assert [failure.at for failure in line.failures] == sorted(failure.at for failure in line.failures)


async def test_a_ledger_of_one_phase(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    await state.add(CRAWL, pages(6))
    one, two, three, four, _ = await take(state, 5)
    later = retry(time.time() + 100, "dns", "")
    await state.settle([(one, done()), (two, skipped("robots")), (three, dead("dns", "no such host")), (four, later)])
    found = {phase: [line.url async for line in state.ledger(CRAWL, phase)] for phase in Phase}
    assert [len(found[phase]) for phase in Phase] == [2, 1, 1, 1, 1]
    assert found[Phase.DONE] == [one.url]


async def test_a_dead_page_lives_again_with_all_its_attempts(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    await state.add(CRAWL, pages(3))
    one, two, three = await take(state, 3)
    await state.settle([(one, retry(0, "dns", ""))])
    one = await take_one(state)
    await state.settle([(one, dead("dns", "")), (two, dead("dns", "")), (three, done())])
    assert await state.complete(CRAWL)
    asked = [(one.digest, 0.0), (two.digest, time.time() + 100), (three.digest, 0.0), (bytes(16), 0.0)]
    assert await state.revive(CRAWL, asked) == [True, True, False, False]
    assert await state.revive(CRAWL, asked) == [False] * 4
    counts = await state.counts(CRAWL)
    assert (counts.pending, counts.dead, counts.done) == (2, 0, 1)
    assert (await state.crawls())[0].completed_at is None
    again = await take(state, 3)
    assert [(lease.url, lease.attempt, lease.receives) for lease in again] == [(one.url, 1, 1)]
    assert await state.settle([(one, done())]) == [Settled.LOST]
    assert len([line async for line in state.ledger(CRAWL) if line.failures]) == 2
    with pytest.raises(UsageError):
        await state.revive("nothing", asked)


# ---------------------------------------------------------------- sweep


@pytest.mark.parametrize("lost", ["queue:a.example", "open", "waiting", "leases", "delayed"])
async def test_a_sweep_finds_what_a_dropped_key_hides(redis_server: RedisServer, make: Make, lost: str) -> None:
    address = redis_server.address()
    state = await make(address, lease=600.0)
    await state.add(CRAWL, pages(8) + pages(4, "b.example"))
    leases = await take(state, 4)
    await state.settle([(lease, defer(time.time() + 600)) for lease in leases[:2]])
    await state.hold("b.example", until=time.time() + 600)
    await state.claim(2)
    assert await state.sweep(CRAWL) == 0
    with direct(redis_server) as redis:
        redis.delete(f"{{{name_of(address)}}}:1:{lost}")
    found = await state.sweep(CRAWL)
    assert await state.sweep(CRAWL) == 0
    counts = await state.counts(CRAWL)
    phases = [line.phase async for line in state.ledger(CRAWL)]
    assert (counts.pending, counts.leased) == (phases.count(Phase.PENDING), phases.count(Phase.LEASED))
    assert (await reachable(state), found > 0) == (12, True)


async def reachable(state: RedisState) -> int:
    """How many pages a fleet can still end. A limit that is used up keeps it from waiting for gates and delays."""
    await state.amend(CRAWL, msgspec.structs.replace((await state.crawls())[0].settings, max_time=0.001))
    await state.release("w")
    return len({lease.digest for lease in await take(state, 20, CRAWL)})


@pytest.mark.parametrize("lost", ["queue:a.example", "pages"])
async def test_a_claim_goes_on_where_keys_were_dropped(redis_server: RedisServer, make: Make, lost: str) -> None:
    address = redis_server.address()
    state = await make(address, lease=5.0)
    await state.add(CRAWL, pages(6))
    one, *_ = await take(state, 3)
    await state.settle([(one, defer(time.time() + 0.001))])
    with direct(redis_server) as redis:
        redis.delete(f"{{{name_of(address)}}}:1:{lost}")
    assert await state.release("w") == (2 if lost.startswith("queue") else 0)
    await state.add(CRAWL, pages(1, "b.example"))
    found = {lease.gate for lease in await take(state, 9)}
    assert "b.example" in found
