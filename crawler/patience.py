"""Waiting for a state or a store that does not answer: the call is repeated, and a line a minute says so."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from crawler.errors import StateUnavailable, StoreUnavailable

log = logging.getLogger(__name__)

SAY_EVERY = 60.0
"""Seconds between two lines about the same outage, whoever in this process notices it."""

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between two tries, doubling from the one to the other."""

T = TypeVar("T")

_said: dict[type[Exception], float] = {}


def say(error: StateUnavailable | StoreUnavailable) -> None:
    """Tell the user what is waited for, unless that was said within the last minute."""
    kind, now = type(error), time.monotonic()
    if now - _said.get(kind, -SAY_EVERY) >= SAY_EVERY:
        _said[kind] = now
        log.warning("waiting for the %s: %s", "archive" if isinstance(error, StoreUnavailable) else "state", error)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call until the state or the store answers.

    Waits for ever: the leases behind it expire by themselves, and the loop's drain has its own deadline.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            return await call()
        except (StateUnavailable, StoreUnavailable) as error:
            say(error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)
