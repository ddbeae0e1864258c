"""A short crawl of a hostile site; the long one is `make hostile`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.held_up import BLOCKED, held_up
from tests.hostile.site import hostile_site
from tests.hostile.trial import crawl


@pytest.mark.e2e
def test_good_pages_among_hostile_ones_are_all_there(tmp_path: Path) -> None:
    with hostile_site(1, good=75, hostile=225) as site:
        trial = crawl(site, tmp_path / "out", "--max-attempts", "2")
    assert sum(trial.outcomes.values()) >= 300


def test_nothing_that_comes_in_blocks_the_event_loop(tmp_path: Path) -> None:
    with hostile_site(2, good=50, hostile=250) as site:
        assert 0 < held_up(site.seed, tmp_path, done=200) < BLOCKED
