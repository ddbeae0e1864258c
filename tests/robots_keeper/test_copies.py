"""How long a copy counts, and what is kept of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crawler import robots_keeper
from crawler.robots import Robots
from crawler.robots_fact import Unreachable
from tests.robots_keeper.workers import CRAWL, GATE, RULES, Clock, asked, sequence, worker
from tests.servers import replies, reply, serve


async def test_a_copy_is_asked_for_again_after_a_day(clock: Clock) -> None:
    steps = [reply(RULES), reply(b"User-agent: *\nDisallow: /new\n")]
    async with worker(":memory:", clock) as (keeper, _), serve(sequence(*steps)) as server:
        await asked(keeper, server)
        clock.ahead += 23 * 3600
        answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
        assert not used
        clock.ahead += 2 * 3600
        answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
        assert used
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/new"))
        assert answer.allowed(server.url("/private"))


@pytest.mark.case("B02")
async def test_the_last_good_copy_stands_in_for_a_month(clock: Clock) -> None:
    steps = [reply(RULES), reply(b"", status="503 Busy")]
    async with worker(":memory:", clock) as (keeper, state), serve(sequence(*steps)) as server:
        await asked(keeper, server)
        for _ in range(3):
            clock.ahead += 5 * 24 * 3600
            answer = await asked(keeper, server)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
            assert await state.turn(CRAWL, GATE) <= clock()
        clock.ahead += 20 * 24 * 3600
        assert isinstance(await asked(keeper, server), Unreachable)
    assert len(server.requests) == 5


async def test_a_huge_file_that_does_not_compress_fits_into_a_fact(tmp_path: Path, clock: Clock) -> None:
    noise = b"".join(b"# %s\n" % os.urandom(40).hex().encode() for _ in range(8000))
    path = tmp_path / "state.sqlite"
    async with serve(replies(RULES + noise)) as server:
        async with worker(path, clock, "one") as (keeper, state):
            await asked(keeper, server)
            fact = (await state.recall([f"robots:{server.address}"]))[0]
            assert fact is not None
            assert len(fact) <= 300_000
        async with worker(path, clock, "two") as (keeper, _):
            answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
            assert isinstance(answer, Robots)
            assert not answer.allowed(server.url("/private"))
            assert not used
    assert len(server.requests) == 1


async def test_a_fact_of_another_version_counts_as_none(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(RULES)) as server:
        await state.remember(f"robots:{server.address}", b"\xc1 something else", 1000.0)
        assert isinstance(await asked(keeper, server), Robots)


@pytest.mark.case("H03")
async def test_memory_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "MOST_ORIGINS", 2)
    async with worker(":memory:", clock) as (keeper, _), serve(replies(RULES)) as server:
        urls = [server.url("/private").replace("127.0.0.1", f"{name}.localhost") for name in "abc"]
        for url in urls:
            await keeper.rules(url, GATE, 0.0)
        assert [keeper.disallowed(url) for url in urls] == [False, True, True]
        assert not (await keeper.rules(urls[0], GATE, 0.0))[1]
    assert len(server.requests) == 3


async def test_a_file_with_very_many_rules_is_not_asked_about_links(clock: Clock) -> None:
    many = b"User-agent: *\nDisallow: /private\n" + b"".join(b"Disallow: /*%d\n" % n for n in range(2000))
    async with worker(":memory:", clock) as (keeper, _), serve(replies(many)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
        assert not keeper.disallowed(server.url("/private"))
