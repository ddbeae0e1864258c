"""A state whose replies get lost: no wait for oneself, and no second request to the host."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.errors import StateUnavailable
from crawler.robots import Robots
from crawler.state.port import CrawlState
from tests.robots_keeper.workers import GATE, RULES, Clock, asked, worker
from tests.servers import replies, serve


class LossyState:
    """Does what it is asked, and loses some replies of `remember` to calls whose name begins with `prefix`."""

    def __init__(self, state: CrawlState, prefix: str, losses: int, *, retried: bool = False) -> None:
        self._state, self._prefix, self.losses, self._retried = state, prefix, losses, retried

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        answer = await self._state.remember(name, value, seconds, if_absent=if_absent)
        if self.losses and name.startswith(self._prefix):
            self.losses -= 1
            if not self._retried:
                raise StateUnavailable("the reply was lost")
            # As a client does that tries again by itself.
            return await self._state.remember(name, value, seconds, if_absent=if_absent)
        return answer


async def test_a_marker_taken_by_a_call_that_was_repeated_is_known_to_be_ours(clock: Clock) -> None:
    def lossy(state: CrawlState) -> Any:
        return LossyState(state, "robots-fetch:", 1, retried=True)

    async with worker(":memory:", clock, wrap=lossy) as (keeper, _), serve(replies(RULES)) as server:
        answer, used = await keeper.rules(server.url("/"), GATE, 0.0)
        assert isinstance(answer, Robots)
        assert used
    assert len(server.requests) == 1


async def test_a_marker_whose_reply_was_lost_is_taken_up_again(clock: Clock) -> None:
    def lossy(state: CrawlState) -> Any:
        return LossyState(state, "robots-fetch:", 1)

    async with worker(":memory:", clock, wrap=lossy) as (keeper, _), serve(replies(RULES)) as server:
        with pytest.raises(StateUnavailable):
            await asked(keeper, server)
        assert server.requests == []
        assert isinstance(await asked(keeper, server), Robots)
    assert len(server.requests) == 1


async def test_the_marker_of_an_earlier_process_of_the_same_name_is_not_ours(clock: Clock) -> None:
    async with worker(":memory:", clock, "same") as (keeper, state), serve(replies(RULES)) as server:
        await state.remember(f"robots-fetch:{server.address}:0", b"same 0123456789abcdef", 30.0)
        assert not isinstance(await asked(keeper, server), Robots)
    assert server.requests == []


async def test_a_state_that_is_away_when_the_file_has_come_costs_no_second_request(clock: Clock) -> None:
    def lossy(state: CrawlState) -> Any:
        return LossyState(state, "robots:", 2)

    async with worker(":memory:", clock, wrap=lossy) as (keeper, _), serve(replies(RULES)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Robots)
        assert not answer.allowed(server.url("/private"))
    assert len(server.requests) == 1
