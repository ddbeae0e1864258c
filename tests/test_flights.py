"""What a process tells of its requests in flight, to a state that others read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from crawler import flights
from crawler.flights import Flights
from crawler.state.sqlite.state import SqliteState

GATE = "slow.example"


class Reported(SqliteState):
    """Hands on what it is told of requests in flight: which one, and for how many seconds from now on."""

    reports: asyncio.Queue[tuple[str, float]]

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        assert gate == GATE
        report = flight, max(0.0, until - time.time())
        await super().occupy(gate, flight, until)
        self.reports.put_nowait(report)


@pytest.fixture
async def state() -> AsyncIterator[Reported]:
    opened = await Reported.open(":memory:", worker="w", create=True)
    assert isinstance(opened, Reported)
    opened.reports = asyncio.Queue()
    yield opened
    await opened.close()


async def test_a_long_request_is_told_again_and_again_and_its_end(
    state: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights, "HELD", 0.4)
    told = Flights(state)
    async with told.request(GATE, time.time(), 0.02):
        reports = [await state.reports.get() for _ in range(5)]
    await told.close()
    while not state.reports.empty():
        reports.append(state.reports.get_nowait())
    *during, end = reports
    assert len({flight for flight, _ in reports}) == 1
    assert all(0 < seconds <= 0.4 for _, seconds in during)
    assert end[1] == 0


async def test_whoever_is_killed_keeps_its_places_for_ten_seconds_at_most(state: Reported) -> None:
    told = Flights(state)
    async with told.request(GATE, time.time(), 0.02):
        _, seconds = await state.reports.get()
    await told.close()
    assert 0 < seconds <= 10
