"""`crawler crawl`: one machine, nothing to set up. Seeds a local state and supervises its fetcher processes.

The fetchers are `crawler work` processes, the same as on any other state; this process fetches nothing. A fetcher that
dies is replaced, and what it held is released at once. If this process dies, its fetchers notice and stop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from crawler.archive.rowless import merge_whole
from crawler.archive.stores import open_store
from crawler.entrypoints.cookies import CookieFile, seed_cookies
from crawler.entrypoints.identity import on_stop_signals, worker_name
from crawler.entrypoints.opening import open_with_rows
from crawler.entrypoints.places import store_address
from crawler.entrypoints.progress import Progress
from crawler.entrypoints.revisiting import resumed
from crawler.entrypoints.seeds import add_seeds, crawl_to_seed, sitemaps_if_given
from crawler.entrypoints.status import status_of
from crawler.errors import CrawlerError, UsageError
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

LOOK = 0.5
"""Seconds between two looks at the counts."""

HURRY = 2.0
"""Seconds that fetchers get after the second signal, before they are killed."""

DEATHS = 10
"""Deaths of fetchers in a row, without a page finished in between, after which the crawl is given up: more than it
takes until a page that kills them is a dead letter."""


class CrawlOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for, translated from the command line."""

    seeds: Sequence[str]
    state: str
    store: str | None
    crawl: str | None
    processes: int
    settings: dict[str, Any]
    cookies: CookieFile | None = None
    sitemaps: Sequence[str] = ()


class Outcome(msgspec.Struct, frozen=True):
    """How a crawl command ended; how many pages were `unchanged` since an earlier crawl."""

    record: CrawlRecord
    stopped: bool
    store: str
    parquet: str = ""
    unchanged: int = 0


async def crawl(order: CrawlOrder, progress: Progress) -> Outcome:
    """Start or resume a local crawl and stay until it is complete or stopped. Errors: CrawlerError."""
    store_of_named = order.store if order.crawl else None  # one that is not named gets it in its record
    state = await open_with_rows(
        order.state, worker=worker_name(), store=store_of_named, crawl=order.crawl, create=True
    )
    try:
        there = resumed(await state.crawls(), order.crawl, order.settings)
        if there is None and not order.seeds and not order.sitemaps:
            raise UsageError("give at least one URL to start from, for example https://example.com/")
        address = store_address(order.store, there, state)
        store = open_store(address)
        await store.check()
        record = await crawl_to_seed(state, order.crawl, order.settings, order.store or "")
        if order.cookies is not None:
            progress.say(await seed_cookies(state, record, order.cookies))
        async with sitemaps_if_given(state, record, order.sitemaps) as sitemaps:
            await add_seeds(state, record, order.seeds, progress.say)
            if sitemaps is not None:
                await sitemaps.add(progress.say)
        progress.begin(record, address)
        if record.paused and await state.resume(record.id):
            progress.say("the crawl was paused: it goes on")
        stopped = False
        if (await state.counts(record.id)).outstanding or not await state.complete(record.id):
            stopped = await Supervisor(state, order, record, progress).run()
        progress.end(await status_of(state, record))
        if stopped:
            return Outcome(record, True, address)
        merged = await merge_whole(state, store, record)
        return Outcome(record, False, address, merged.path, merged.unchanged)
    finally:
        await state.close()


class Supervisor:
    """Keeps the fetcher processes of one crawl alive until they say it is complete, or the user says stop."""

    def __init__(self, state: CrawlState, order: CrawlOrder, record: CrawlRecord, progress: Progress) -> None:
        self._state, self._order, self._record, self._progress = state, order, record, progress
        self._workers: dict[str, asyncio.subprocess.Process] = {}
        self._stops = 0
        self._stop = asyncio.Event()
        self._deaths = 0
        self._done_at_death = -1

    async def run(self) -> bool:
        """True when stopped by the user, False when complete."""
        watching = asyncio.create_task(self._watch())
        with on_stop_signals(self.stop):
            try:
                await asyncio.gather(*(self._keep(slot) for slot in range(self._order.processes)))
            finally:
                watching.cancel()
                await self._end_workers()
        return self._stops > 0

    def stop(self) -> None:
        """First signal: the fetchers drain. Second: they give everything back and leave within seconds."""
        self._stops += 1
        self._stop.set()
        self._progress.say("stopping: finishing what is in flight" if self._stops == 1 else "leaving at once")
        for process in self._workers.values():
            if process.returncode is None:
                process.terminate()
        if self._stops == 2:
            asyncio.get_running_loop().call_later(HURRY, self._kill)

    def _kill(self) -> None:
        for process in self._workers.values():
            if process.returncode is None:
                process.kill()

    async def _keep(self, slot: int) -> None:
        """One fetcher, replaced when it dies."""
        while not self._stop.is_set():
            name = f"{worker_name()}-{slot}"
            process = await self._spawn(name)
            errors = await self._relay(process)
            code = await process.wait()
            # It can hold nothing any more: its pages are free now, not when its leases expire.
            await self._state.release(name)
            if code == 0:
                return
            if code > 0 and code != 130:
                raise CrawlerError(errors or f"a fetcher process failed with exit code {code}")
            if not self._stop.is_set():
                await self._died(code)

    async def _spawn(self, name: str) -> asyncio.subprocess.Process:
        order = self._order
        command = [sys.executable, "-m", "crawler", "work", "--state", order.state, "--crawl", self._record.id]
        command += ["--name", name, "--until-complete", "--supervised"]
        if order.store:
            command += ["--store", order.store]
        if logging.getLogger().isEnabledFor(logging.DEBUG):
            command.append("-vv")
        # Signals of the terminal go to this process alone, which passes them on.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._workers[name] = process
        if self._stop.is_set():
            process.terminate()
        return process

    async def _relay(self, process: asyncio.subprocess.Process) -> str:
        """Pass a fetcher's lines on; answers its last one."""
        last = ""
        if process.stderr is not None:
            async for line in process.stderr:
                last = line.decode(errors="replace").rstrip().removeprefix("crawler: ")
                self._progress.say(last)
        return last

    async def _died(self, code: int) -> None:
        done = (await self._state.counts(self._record.id)).done
        self._deaths = self._deaths + 1 if done == self._done_at_death else 1
        self._done_at_death = done
        if self._deaths >= DEATHS * self._order.processes:
            raise CrawlerError(f"fetcher processes keep dying (signal {-code}): run again with -vv to see why")
        self._progress.say(f"a fetcher process died (signal {-code}); another takes its place")

    async def _watch(self) -> None:
        """Show the counts, again and again."""
        while True:
            self._progress.show(await status_of(self._state, self._record))
            await asyncio.sleep(LOOK)

    async def _end_workers(self) -> None:
        """After an error of one: the others drain, then this process may leave."""
        for process in self._workers.values():
            if process.returncode is None:
                process.terminate()
        for name, process in self._workers.items():
            if process.returncode is None:
                await process.wait()
                await self._state.release(name)
