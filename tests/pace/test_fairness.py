"""A big host keeps nobody waiting, by counts: its own requests are the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.pace.fairness import Contest, Kind, run

pytestmark = pytest.mark.e2e

TURNS = 11
"""Requests that a small host needs: its pages and robots.txt."""


@pytest.mark.case("F07", "F15")
def test_hosts_take_turns_however_many_pages_one_has(tmp_path: Path) -> None:
    found = run(BACKENDS["sqlite"], Contest(Kind.PLAIN, big=3000, rate=4), tmp_path)
    assert found.answered == 250
    # All start at the same time and at the same rate: when the last small page is answered, the big host has had as
    # many turns as a small one, and a few for starting earlier and for turns lost while a robots.txt is fetched.
    assert TURNS - 3 <= found.meanwhile <= TURNS + 5


@pytest.mark.case("F15")
def test_a_host_that_never_answers_keeps_nobody_waiting(tmp_path: Path) -> None:
    found = run(BACKENDS["sqlite"], Contest(Kind.SILENT, big=3000, rate=4), tmp_path)
    assert found.answered == 250
    # Its first request, that for robots.txt, is given up after fifteen seconds; by then the others are long finished.
    assert (found.meanwhile, found.waited) == (1, 1)
