"""Facts with an end, and signs of life."""

from __future__ import annotations

import asyncio

import pytest

from crawler.errors import UsageError
from crawler.model import Beat
from crawler.state.port import CrawlState
from tests.contract.backends import Backend


async def test_a_fact_lives_for_its_time(backend: Backend) -> None:
    state = await backend.open()
    assert await state.remember("robots:a", b"rules", 3)
    assert await state.recall(["robots:b", "robots:a"]) == [None, b"rules"]
    await backend.advance(4)
    assert await state.recall(["robots:a"]) == [None]
    assert await state.recall([]) == []


async def test_a_fact_is_replaced(backend: Backend) -> None:
    state = await backend.open()
    assert await state.remember("name", b"old", 60)
    assert await state.remember("name", b"", 60)
    assert await state.recall(["name", "name"]) == [b"", b""]


async def test_a_large_fact_of_any_bytes(backend: Backend) -> None:
    state = await backend.open()
    value = bytes(range(256)) * 1170
    assert await state.remember("robots:https://a.example", value, 60)
    assert await state.recall(["robots:https://a.example"]) == [value]


async def test_of_many_callers_exactly_one_keeps_an_absent_fact(backend: Backend) -> None:
    states = [await backend.open(f"worker-{number}") for number in range(4)]
    for name in ("one", "two", "three"):
        kept = await asyncio.gather(
            *(states[number % 4].remember(name, b"%d" % number, 60, if_absent=True) for number in range(16))
        )
        assert kept.count(True) == 1
        assert await states[0].recall([name]) == [b"%d" % kept.index(True)]


@pytest.mark.case("F12")
async def test_a_fact_that_has_ended_is_absent(backend: Backend) -> None:
    state = await backend.open()
    assert await state.remember("name", b"1", 3, if_absent=True)
    assert not await state.remember("name", b"2", 3, if_absent=True)
    await backend.advance(4)
    assert await state.remember("name", b"3", 60, if_absent=True)
    assert await state.recall(["name"]) == [b"3"]


async def test_workers_are_alive_for_a_minute_after_their_latest_beat(backend: Backend) -> None:
    state = await backend.open()
    now = backend.now()
    await state.beat(Beat(worker="gone", at=now - 120, rate=9.0, held=1))
    await state.beat(Beat(worker="here", at=now - 10, rate=1.0, held=3))
    latest = Beat(worker="here", at=now, rate=2.5, held=4)
    await state.beat(latest)
    await state.beat(latest)
    assert await state.workers() == [latest]


async def test_a_worker_that_fell_silent_is_told_from_one_that_said_goodbye(backend: Backend) -> None:
    state = await backend.open()
    now = backend.now()
    silent = Beat(worker="silent", at=now - 1_000, rate=9.0, held=1)
    await state.beat(silent)
    await state.beat(Beat(worker="long gone", at=now - 4_000))
    await state.beat(Beat(worker="left", at=now - 10))
    await state.beat(Beat(worker="left", at=0.0))
    await state.beat(Beat(worker="here", at=now))
    assert {beat.worker for beat in await state.workers()} == {"here"}
    assert {beat.worker: beat.at for beat in await state.workers(3_600)} == {
        "silent": pytest.approx(silent.at),
        "here": pytest.approx(now),
    }


async def test_scope_of_an_unknown_crawl_is_a_usage_error(backend: Backend) -> None:
    state = await backend.open()
    with pytest.raises(UsageError):
        await state.in_scope("nothing", ["a.example"])


async def test_a_state_is_what_the_port_says(backend: Backend) -> None:
    state = await backend.open()
    assert isinstance(state, CrawlState)
    assert isinstance(state.home, str)
