"""The practice run, short: a few hundred pages, a handful of kills, on every backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.chaos.run import Practice, practise

pytestmark = pytest.mark.e2e

SHORT = Practice(pages=300, kills=5, rate=60, lease=5)


@pytest.mark.parametrize("name", ["sqlite", "redis", pytest.param("aws", marks=pytest.mark.emulator)])
def test_no_page_is_lost_or_doubled_however_workers_are_killed(name: str, tmp_path: Path) -> None:
    figures = practise(BACKENDS[name], SHORT, tmp_path)
    assert figures.failures(SHORT.kills) == []
