"""A state that is closed lets go of all that it has open, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from crawler.errors import StateUnavailable, UsageError
from crawler.state.aws.state import AwsState


async def refused() -> None:
    raise UsageError("no AWS credentials")


async def silent() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("giving_back", "error"), [(refused, UsageError), (silent, TimeoutError)])
async def test_what_cannot_be_given_back_keeps_no_connection(
    state: AwsState,
    giving_back: Callable[[], Awaitable[None]],
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(state._claiming, "close", giving_back)
        with pytest.raises(error):
            await asyncio.wait_for(state.close(), 0.1)
    with pytest.raises(StateUnavailable, match="the crawl state was closed"):
        await state.recall(["x"])
