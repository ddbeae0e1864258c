"""A state on SQLite with a clock that stands still, a fleet and a janitor on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawler.janitor import running
from crawler.state.sqlite import SqliteState
from tests.janitor.looking import Clock, Fleet, Watched, opened


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked twice is asked at once."""
    monkeypatch.setattr(running, "ASK_AGAIN", 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def state(tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteState]:
    state = await opened(tmp_path, clock)
    yield state
    await state.close()


@pytest.fixture
def fleet(state: SqliteState, clock: Clock, tmp_path: Path) -> Fleet:
    return Fleet(state, clock, tmp_path / "out")


@pytest.fixture
def janitor(state: SqliteState, clock: Clock) -> Watched:
    return Watched(state, clock)
