"""`crawler work`: one fetcher process. Translates signals and addresses, runs the loop."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from crawler.archive.stores import open_store
from crawler.entrypoints.identity import on_stop_signals, tune_memory, worker_name
from crawler.entrypoints.opening import open_with_rows
from crawler.entrypoints.places import pick_crawl, store_address
from crawler.errors import UsageError
from crawler.extractor import check_function
from crawler.loop import Exit, Worker
from crawler.telemetry.heartbeat import beating
from crawler.telemetry.report import Report, reported
from crawler.telemetry.stdout import Lines


async def work(
    address: str,
    store: str | None,
    *,
    crawl: str | None,
    name: str | None,
    concurrency: int | None,
    until_complete: bool,
    metrics: bool,
    heartbeat: Path | None,
    supervised: bool,
) -> Exit:
    """Open state and store, work until stopped or complete, close. `supervised`: stop when standard input ends, so
    that no worker outlives the process that started it."""
    name = checked_name(name) if name else worker_name()
    tune_memory()
    state = await open_with_rows(address, worker=name, store=store, crawl=crawl)
    try:
        record = await pick_crawl(state, crawl) if crawl else None
        if record is not None and record.settings.extract:
            await check_function(record.settings.extract)
        if store or record or state.home:
            await open_store(store_address(store, record, state)).check()
        worker = Worker(
            state,
            store or "",
            name=name,
            crawl=crawl,
            concurrency=concurrency or (record.settings.concurrency if record else 64),
            until_complete=until_complete,
        )
        if supervised:
            _on_end_of_input(worker.stop)
        async with beating(heartbeat):
            with on_stop_signals(worker.stop):
                return await (reported(worker, Report(worker, address, name), Lines()) if metrics else worker.run())
    finally:
        await state.close()


def checked_name(name: str) -> str:
    """A worker's name begins its files' names. Raises UsageError."""
    if re.fullmatch(r"[\w-][\w.-]{0,99}", name) is None:
        raise UsageError(f"--name {name!r}: use up to 100 letters, digits, '.', '_' and '-', not beginning with '.'")
    return name


def _on_end_of_input(stop: Callable[[], None]) -> None:
    """The supervisor's end of the pipe closes when it dies, however it dies."""
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if not os.read(sys.stdin.fileno(), 1024):
            loop.remove_reader(sys.stdin.fileno())
            stop()

    try:
        loop.add_reader(sys.stdin.fileno(), ended)
    except (ValueError, OSError, PermissionError):
        raise UsageError("--supervised needs a pipe as standard input") from None
