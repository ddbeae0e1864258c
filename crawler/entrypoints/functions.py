"""What functions have in common: a process serves many calls, on one event loop and with one open state."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from crawler.entrypoints.function_folder import own_folder
from crawler.entrypoints.function_log import guard
from crawler.entrypoints.identity import worker_name
from crawler.entrypoints.opening import open_with_rows
from crawler.errors import UsageError
from crawler.state.port import CrawlState

T = TypeVar("T")

guard()
own_folder()
_runner = asyncio.Runner()
_opened: dict[str, CrawlState] = {}


def call(task: Callable[[CrawlState, str], Awaitable[T]]) -> T:
    """Run a task with the state at CRAWLER_STATE, and that address. The state stays open for the next call: its
    connections outlive a pause of the process, and those that did not are made anew by the client."""
    return _runner.run(_with_state(task))


async def _with_state(task: Callable[[CrawlState, str], Awaitable[T]]) -> T:
    address = os.environ.get("CRAWLER_STATE", "")
    if not address:
        raise UsageError("CRAWLER_STATE is not set: it names the state, aws://STACK")
    if address not in _opened:
        _opened[address] = await open_with_rows(address, worker=worker_name(), at_home=True)
    return await task(_opened[address], address)
