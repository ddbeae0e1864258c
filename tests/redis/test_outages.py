"""A Redis that goes away and comes back: nothing is lost, nothing counts twice, no exception of the client escapes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from crawler.errors import CrawlerError, StateUnavailable
from crawler.model import Added, Beat, Phase, Settled, dead, done, retry
from crawler.state.port import CrawlState
from crawler.state.redis import RedisState, client
from tests.contract.words import CRAWL, pages, parent, take
from tests.redis.making import Make, direct, record
from tests.redis.relay import Relay
from tests.redis_server import RedisServer, running

T = TypeVar("T")


async def until(ask: Callable[[], Awaitable[T]], enough: Callable[[T], bool]) -> None:
    """Ask until the answer is enough."""
    while not enough(await ask()):  # noqa: ASYNC110 - what is waited for happens in another process
        await asyncio.sleep(0.01)


# ---------------------------------------------------------------- restarts


async def test_a_call_waits_for_a_server_that_is_killed_and_restarted(durable_server: RedisServer, make: Make) -> None:
    state = await make(durable_server.address())
    await state.add(CRAWL, pages(20))
    leases = await state.claim(5)
    durable_server.kill()
    settling = asyncio.create_task(state.settle([(lease, done(7)) for lease in leases]))
    await asyncio.to_thread(durable_server.start)
    assert await settling == [Settled.SETTLED] * 5
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.pending, counts.leased, counts.bytes) == (20, 5, 15, 0, 35)
    assert await state.sweep(CRAWL) == 0


async def test_a_server_that_stays_away_is_unavailable_and_the_call_may_be_repeated(
    durable_server: RedisServer, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    state = await make(durable_server.address())
    await state.add(CRAWL, pages(3))
    monkeypatch.setattr(client, "PATIENCE", 0.1)
    durable_server.kill()
    for call in every_call(state):
        with pytest.raises(StateUnavailable) as caught:
            await call()
        assert "\n" not in str(caught.value)
        assert str(durable_server.port) in str(caught.value)
    monkeypatch.undo()
    await asyncio.to_thread(durable_server.start)
    assert len(await state.claim(9)) == 3


async def test_a_server_that_hangs_is_unavailable_and_what_it_did_then_is_taken_back(
    durable_server: RedisServer, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    state = await make(durable_server.address(), lease=600.0)
    assert await state.claim(3) == []  # from now on the server knows the script
    await state.add(CRAWL, pages(3))
    monkeypatch.setattr(client, "PATIENCE", 0.2)
    durable_server.process.send_signal(signal.SIGSTOP)
    with pytest.raises(StateUnavailable):
        await state.claim(2)
    durable_server.process.send_signal(signal.SIGCONT)
    monkeypatch.undo()
    await until(lambda: state.counts(CRAWL), lambda counts: counts.leased > 0)  # by a claim that nobody waits for
    assert [(lease.attempt, lease.receives) for lease in await take(state, 3)] == [(1, 1)] * 3


async def test_scripts_that_the_server_forgot_are_sent_again(redis_server: RedisServer, make: Make) -> None:
    state = await make(redis_server.address())
    with direct(redis_server) as redis:
        for call in every_call(state):
            redis.script_flush()
            await call()


async def test_a_replica_takes_writes_as_soon_as_it_is_the_master(
    redis_server: RedisServer, tmp_path: Path, make: Make
) -> None:
    with running(tmp_path / "other") as other, direct(other) as redis:
        state = await make(other.address())
        redis.replicaof("127.0.0.1", str(other.port + 1 if other.port < 65535 else 1))
        adding = asyncio.create_task(state.add(CRAWL, pages(2)))
        await until(lambda: asyncio.to_thread(redis.info, "stats"), lambda stats: stats["total_error_replies"] > 0)
        assert not adding.done()
        redis.replicaof("NO", "ONE")
        assert await adding == [Added.NEW] * 2


# ---------------------------------------------------------------- lost answers


def every_call(state: RedisState) -> list[Callable[[], Awaitable[object]]]:
    """Each method of the port once, with harmless arguments."""

    async def lines() -> None:
        async for _ in state.ledger(CRAWL):
            pass

    return [
        lambda: state.create(record()),
        state.crawls,
        lambda: state.amend(CRAWL, record().settings),
        lambda: state.add(CRAWL, pages(1)),
        lambda: state.extend([]),
        lambda: state.settle([]),
        lambda: state.turn(CRAWL, "a.example"),
        lambda: state.hold("a.example", until=1.0),
        lambda: state.in_scope(CRAWL, ["a.example"]),
        lambda: state.recall(["name"]),
        lambda: state.remember("name", b"", 1),
        lambda: state.beat(Beat(worker="w", at=0.0)),
        state.workers,
        lambda: state.release("nobody"),
        lambda: state.counts(CRAWL),
        lambda: state.complete(CRAWL),
        lines,
        lambda: state.revive(CRAWL, [(bytes(16), 0.0)]),
        lambda: state.sweep(CRAWL),
        lambda: state.purge("unknown"),
        lambda: state.claim(1),
    ]


async def test_every_method_survives_lost_answers(redis_server: RedisServer, relay: Relay, make: Make) -> None:
    state = await make(relay.address(redis_server.address()))
    for call in every_call(state):
        relay.losing = 2
        await call()
        assert relay.losing == 0


async def test_a_claim_whose_answer_was_lost_hands_out_every_page_once(
    redis_server: RedisServer, relay: Relay, make: Make
) -> None:
    state = await make(relay.address(redis_server.address()), lease=600.0)
    await state.add(CRAWL, [page for host in "abc" for page in pages(4, f"{host}.example")])
    relay.losing = 2
    first = await state.claim(5)
    assert relay.lost == 2
    assert (await state.counts(CRAWL)).leased == 5
    leases = first + await state.claim(20)
    assert [(lease.attempt, lease.receives) for lease in leases] == [(1, 1)] * 12
    assert len({lease.digest for lease in leases}) == 12
    assert await state.settle([(lease, done()) for lease in leases]) == [Settled.SETTLED] * 12


async def test_a_claim_that_never_got_an_answer_is_taken_back_by_the_next(
    redis_server: RedisServer, relay: Relay, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    address = redis_server.address()
    state, other = await make(relay.address(address), lease=600.0), await make(address, "other")
    await state.add(CRAWL, pages(6))
    kept = await other.claim(2)
    monkeypatch.setattr(client, "PATIENCE", 0.3)
    relay.losing = 1000
    with pytest.raises(StateUnavailable):
        await state.claim(4)
    relay.losing = 0
    monkeypatch.undo()
    assert [(lease.attempt, lease.receives) for lease in await state.claim(9)] == [(1, 1)] * 4
    assert await other.settle([(lease, done()) for lease in kept]) == [Settled.SETTLED] * 2


async def test_a_claim_that_never_got_an_answer_is_taken_back_by_one_of_another_crawl(
    redis_server: RedisServer, relay: Relay, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    state = await make(relay.address(redis_server.address()), lease=600.0)
    await state.create(record("other"))
    await state.add(CRAWL, pages(3))
    monkeypatch.setattr(client, "PATIENCE", 0.3)
    relay.losing = 1000
    with pytest.raises(StateUnavailable):
        await state.claim(3, CRAWL)
    relay.losing = 0
    monkeypatch.undo()
    assert await state.claim(3, "other") == []
    assert [(lease.attempt, lease.receives) for lease in await state.claim(3)] == [(1, 1)] * 3


async def test_a_state_closes_soon_although_a_cancelled_claim_gets_no_answer(
    durable_server: RedisServer, make: Make
) -> None:
    state = await make(durable_server.address())
    durable_server.process.send_signal(signal.SIGSTOP)
    claim = asyncio.create_task(state.claim(3))
    await asyncio.sleep(0)
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    async with asyncio.timeout(client.PATIENCE / 2):
        await state.close()
    durable_server.process.send_signal(signal.SIGCONT)


async def test_the_sums_are_right_however_many_answers_were_lost(
    redis_server: RedisServer, relay: Relay, make: Make
) -> None:
    state = await make(relay.address(redis_server.address()))
    # From here on the server knows the scripts: what is lost is the answer of one that was run.
    await state.add(CRAWL, [])
    await state.settle([])
    await state.revive(CRAWL, [])
    seed, *rest = pages(6)
    relay.losing = 1
    assert await state.add(CRAWL, [seed]) == [Added.AGAIN]
    relay.losing = 1
    assert await state.add(CRAWL, pages(6, parent=parent(seed))) == [Added.KNOWN] + [Added.AGAIN] * 5
    leases = await state.claim(6)
    endings = [
        (leases[0], done(5)),
        (leases[1], dead("dns", "")),
        (leases[2], retry(0, "dns", "")),
        (leases[3], done()),
    ]
    relay.losing = 1
    assert await state.settle(endings) == [Settled.LOST] * 4
    relay.losing = 1
    assert await state.revive(CRAWL, [(leases[1].digest, 0.0)]) == [False]
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.dead, counts.pending, counts.leased) == (6, 2, 0, 2, 2)
    assert (counts.bytes, len(rest)) == (5, 5)
    found = {lease.attempt for lease in await state.claim(9)}
    assert found == {1, 2}


async def test_whoever_is_elected_learns_it_although_the_answer_was_lost(
    redis_server: RedisServer, relay: Relay, make: Make
) -> None:
    state = await make(relay.address(redis_server.address()))
    relay.losing = 1
    assert await state.remember("fetches", b"me", 60, if_absent=True)
    assert not await state.remember("fetches", b"me", 60, if_absent=True)
    assert await state.recall(["fetches"]) == [b"me"]


# ---------------------------------------------------------------- processes


WORKER = """
    import asyncio, sys
    from crawler.errors import StateUnavailable
    from crawler.model import done
    from crawler.state.redis import RedisState
    from tests.contract.words import pages, parent

    async def main(address, name):
        state = await RedisState.open(address, worker=name)
        while not await state.complete("crawl-1"):
            leases = await state.claim(7)
            print("claimed", flush=True)
            for lease in leases:
                if lease.depth < 3:
                    children = pages(100, f"h{lease.depth}.example", parent=parent(lease), depth=lease.depth + 1)
                    await state.add("crawl-1", children)
            await state.settle([(lease, done(1)) for lease in leases])
        await state.close()

    asyncio.run(main(*sys.argv[1:]))
"""


def worker(address: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKER), address, name], stdout=subprocess.PIPE, text=True
    )


async def test_killed_workers_and_a_killed_server_lose_and_double_nothing(
    durable_server: RedisServer, make: Make
) -> None:
    address = durable_server.address()
    state = await make(address, "supervisor", lease=600.0)
    await state.add(CRAWL, pages(100))
    held = await state.claim(1)  # until the server is back: nobody is done earlier
    fleet = [worker(address, f"worker-{number}") for number in range(3)]
    for number, victim in enumerate(fleet[:2]):
        assert victim.stdout is not None
        await asyncio.to_thread(victim.stdout.readline)
        victim.kill()
        await asyncio.to_thread(victim.communicate)
        await state.release(f"worker-{number}")
    durable_server.kill()
    await asyncio.to_thread(durable_server.start)
    assert await state.settle([(lease, done(1)) for lease in held]) == [Settled.SETTLED]
    fleet += [worker(address, f"worker-{number}") for number in (3, 4)]
    for each in fleet[2:]:
        await asyncio.to_thread(each.communicate)
    assert [each.returncode for each in fleet] == [-signal.SIGKILL] * 2 + [0] * 3
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.bytes, counts.outstanding) == (400, 400, 400, 0)
    assert {line.phase async for line in state.ledger(CRAWL)} == {Phase.DONE}
    assert await state.sweep(CRAWL) == 0


# ---------------------------------------------------------------- what is no Redis


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xfe\x00", b"*1\r\n$99999\r\nabc"])
async def test_whatever_answers_no_foreign_exception_escapes(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    monkeypatch.setattr(client, "PATIENCE", 0.3)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    for scheme in ("redis", "rediss"):
        with pytest.raises(CrawlerError):
            await RedisState.open(f"{scheme}://127.0.0.1:{port}", worker="w")
    server.close()
    await server.wait_closed()


async def test_a_cancelled_call_leaves_the_connection_usable(redis_server: RedisServer, make: Make) -> None:
    state: CrawlState = await make(redis_server.address())
    for _ in range(20):
        call = asyncio.create_task(state.counts(CRAWL))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [record.id for record in await state.crawls()] == [CRAWL]
        assert await state.recall([os.urandom(4).hex()]) == [None]
