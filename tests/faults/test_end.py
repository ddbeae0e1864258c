"""A crawl is complete exactly when nothing is pending, leased or delayed; workers leave then, and not earlier."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from crawler.loop import Exit, Worker
from tests.faults.crawls import CRAWL, counts, finished_rows, seeded, state_in
from tests.faults.victim import InProcess
from tests.servers import Peer, reply, serve

HTML = "Content-Type: text/html; charset=utf-8"
NO_RULES = reply(status="404 Not Found")


class Counting:
    """A state, and how often each of its methods was called."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.calls = inner, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._inner, name)


@asynccontextmanager
async def worker(folder: Path, name: str) -> AsyncIterator[tuple[asyncio.Task[Exit], Counter[str]]]:
    """A worker that stays until the crawl is complete, and the calls of its state."""
    async with state_in(folder, name) as state:
        counting: Any = Counting(state)
        work = Worker(counting, str(folder), name=name, concurrency=8, until_complete=True)
        work._parser = InProcess()  # type: ignore[assignment]
        work._contexts._parser = work._parser
        running = asyncio.create_task(work.run())
        try:
            yield running, counting.calls
        finally:
            work.stop()
            work.stop()
            await running


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what a server or a state was asked sets no event
            await asyncio.sleep(0.01)


@pytest.mark.case("F13")
async def test_an_idle_worker_waits_for_the_other_s_only_page_and_its_hundred_links(tmp_path: Path) -> None:
    links = "".join(f"<a href=/{number}>{number}</a>" for number in range(100)).encode()
    answer, last = asyncio.Event(), asyncio.Event()

    async def site(peer: Peer) -> None:
        while head := await peer.request():
            target = head.split(b" ", 2)[1]
            if target == b"/":
                await answer.wait()
            elif target == b"/99":
                await last.wait()
            await peer.send(NO_RULES if target == b"/robots.txt" else reply(links if target == b"/" else b"leaf", HTML))

    async with serve(site) as server:
        await seeded(tmp_path, [server.url()])
        async with worker(tmp_path, "w1") as (first, calls), worker(tmp_path, "w2") as (second, more):
            await until(lambda: "/" in server.targets)
            for event, expected in ((answer, 1), (last, 101)):
                await until(lambda expected=expected: len(set(server.targets)) == expected + 1)
                seen = calls["counts"] + more["counts"]
                # An idle worker has asked several times whether it is over by now.
                await until(lambda seen=seen: calls["counts"] + more["counts"] >= seen + 4)
                assert not first.done()
                assert not second.done()
                event.set()
            assert await first is await second is Exit.COMPLETE
        assert Counter(server.targets) == {"/robots.txt": 1, "/": 1} | {f"/{n}": 1 for n in range(100)}
    assert len(await finished_rows(tmp_path)) == 101


@pytest.mark.case("F13")
async def test_a_page_in_backoff_keeps_the_crawl_open(tmp_path: Path) -> None:
    async def site(peer: Peer) -> None:
        while head := await peer.request():
            if b"/robots.txt" in head:
                await peer.send(NO_RULES)
            elif peer.server.targets.count("/") <= 2:
                await peer.send(reply(b"", "Retry-After: 1", status="503 Service Unavailable"))
            else:
                await peer.send(reply(b"at last", HTML))

    async with serve(site) as server:
        await seeded(tmp_path, [server.url()])
        async with worker(tmp_path, "w1") as (first, _), worker(tmp_path, "w2") as (second, _):
            assert await first is await second is Exit.COMPLETE
        assert server.targets == ["/robots.txt", "/", "/", "/"]
    (row,) = await finished_rows(tmp_path)
    assert (row["status"], row["attempts"]) == (200, 3)


@pytest.mark.case("F13")
async def test_held_hosts_keep_the_crawl_open(tmp_path: Path) -> None:
    async with serve(_leaf) as server:
        seeds = [server.url(), server.url("/1").replace("127.0.0.1", "localhost")]
        await seeded(tmp_path, seeds)
        async with state_in(tmp_path, "other") as state:
            opens = time.time() + 2.5
            for gate in ("127.0.0.1", "localhost"):
                await state.hold(gate, until=opens)
            async with worker(tmp_path, "w") as (running, calls):
                await until(lambda: calls["complete"] + calls["counts"] >= 3)
                assert server.targets == []
                assert await running is Exit.COMPLETE
                assert time.time() >= opens
    assert len(await finished_rows(tmp_path)) == 2


async def test_a_worker_that_starts_on_a_complete_crawl_leaves_at_once(tmp_path: Path) -> None:
    async with serve(_leaf) as server:
        await seeded(tmp_path, [server.url()])
        for name, claims in (("w1", None), ("w2", 1)):
            async with worker(tmp_path, name) as (running, calls):
                assert await running is Exit.COMPLETE
                assert claims in (None, calls["claim"])
        assert server.targets == ["/robots.txt", "/"]
    assert (await counts(tmp_path)).done == 1


async def test_a_page_added_to_a_complete_crawl_is_waited_for_again(tmp_path: Path) -> None:
    async with serve(_leaf) as server:
        await seeded(tmp_path, [server.url()])
        for done in (1, 2):
            async with worker(tmp_path, f"w{done}") as (running, _):
                assert await running is Exit.COMPLETE
            assert (await counts(tmp_path)).done == done
            await seeded(tmp_path, [server.url("/more")])
        async with state_in(tmp_path, "reader") as state:
            assert await state.complete(CRAWL)


async def _leaf(peer: Peer) -> None:
    while head := await peer.request():
        await peer.send(NO_RULES if b"/robots.txt" in head else reply(b"leaf", HTML))
