"""Nothing but the errors of the port escapes, whatever happens to the driver below."""

from __future__ import annotations

import pytest

from crawler.errors import StateUnavailable, UsageError
from tests.contract.backends import Backend
from tests.contract.calls import METHODS, calls
from tests.contract.words import new_crawl, pages, take_one

ASKS_THE_STATE = METHODS - {"turn", "upheld", "in_scope", "release", "drain_dead_letters", "close"}
"""Methods that can answer neither from memory nor by doing nothing."""


async def test_no_exception_of_a_driver_leaves_the_port(backend: Backend) -> None:
    state = await backend.open()
    crawl = await new_crawl(state, backend)
    await state.add(crawl, pages(3))
    lease = await take_one(state)
    await backend.break_driver()
    told: dict[str, str] = {}
    for name, call in calls(state, lease).items():
        try:
            await call()
        except (StateUnavailable, UsageError) as error:
            told[name] = str(error)
    assert told.keys() >= ASKS_THE_STATE
    assert [text for text in told.values() if not text or "\n" in text] == []


async def test_every_call_on_a_closed_state_says_so(backend: Backend) -> None:
    state = await backend.open()
    crawl = await new_crawl(state, backend)
    await state.add(crawl, pages(3))
    lease = await take_one(state)
    await state.close()
    for name, call in calls(state, lease).items():
        if name in ASKS_THE_STATE:
            with pytest.raises(StateUnavailable):
                await call()
    await state.close()
