"""A cluster takes a state: its keys are one slot, and the client goes where that slot is, also when it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot

from crawler.model import Settled, done
from tests.contract.words import CRAWL, pages
from tests.redis.making import Make, direct
from tests.redis_server import RedisServer, running

SLOTS = 16384
Cluster = tuple[RedisServer, RedisServer]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Two masters that share the slots by halves."""
    with (
        running(tmp_path / "one", cluster_enabled="yes", appendonly="yes") as one,
        running(tmp_path / "two", cluster_enabled="yes", appendonly="yes") as two,
        direct(one) as first,
        direct(two) as second,
    ):
        ask(first, "CLUSTER ADDSLOTSRANGE", 0, SLOTS // 2 - 1)
        ask(second, "CLUSTER ADDSLOTSRANGE", SLOTS // 2, SLOTS - 1)
        ask(second, "CLUSTER SET-CONFIG-EPOCH", 2)
        ask(first, "CLUSTER MEET", "127.0.0.1", two.port)
        yield one, two


def ask(node: Redis, *command: object) -> Any:
    return node.execute_command(*command)  # type: ignore[no-untyped-call]


async def ready(*nodes: Redis) -> None:
    """Wait until every node knows both."""
    for node in nodes:
        while ask(node, "CLUSTER INFO")["cluster_state"] != "ok":  # noqa: ASYNC110 - in another process
            await asyncio.sleep(0.02)


def name_in(first: int, last: int) -> str:
    """A state's name whose slot is one of these."""
    return next(
        name for name in (f"state-{number}" for number in range(1000)) if first <= key_slot(name.encode()) <= last
    )


async def test_a_state_is_found_on_the_node_that_has_its_slot(cluster: Cluster, make: Make) -> None:
    one, two = cluster
    with direct(one) as first, direct(two) as second:
        await ready(first, second)
        for first_slot in (0, SLOTS // 2):
            name = name_in(first_slot, first_slot + SLOTS // 2 - 1)
            state = await make(one.address(name), f"worker-{name}")
            await state.add(CRAWL, pages(5))
            leases = await state.claim(5)
            assert await state.settle([(lease, done()) for lease in leases]) == [Settled.SETTLED] * 5
            assert await state.complete(CRAWL)
        assert (first.dbsize() > 0, second.dbsize() > 0) == (True, True)


async def test_a_worker_follows_a_slot_that_moved(cluster: Cluster, make: Make) -> None:
    one, two = cluster
    with direct(one) as first, direct(two) as second:
        await ready(first, second)
        name = name_in(0, SLOTS // 2 - 1)
        slot = key_slot(name.encode())
        state = await make(one.address(name))
        there = ask(second, "CLUSTER MYID")
        here = ask(first, "CLUSTER MYID")
        ask(second, "CLUSTER SETSLOT", slot, "IMPORTING", here)
        ask(first, "CLUSTER SETSLOT", slot, "MIGRATING", there)
        for key in ask(first, "CLUSTER GETKEYSINSLOT", slot, 100):
            ask(first, "MIGRATE", "127.0.0.1", two.port, key, 0, 5000)
        for node in (second, first):
            ask(node, "CLUSTER SETSLOT", slot, "NODE", there)
        await state.add(CRAWL, pages(3))
        assert len(await state.claim(9)) == 3
        assert (await state.counts(CRAWL)).leased == 3
