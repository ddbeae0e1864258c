"""The clock, and a keeper that looks often for what another worker fetches."""

from __future__ import annotations

import pytest

from crawler import robots_keeper
from tests.robots_keeper.workers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_keeper, "POLL", 0.01)
