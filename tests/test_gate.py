"""How late a turn may be used, and what a host sees of it."""

from __future__ import annotations

import random

import pytest

from crawler.gate import patience, void


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 45.0])
def test_turns_used_as_late_as_may_be_exceed_no_second_by_more_than_one_request(rate: float) -> None:
    interval = 1 / rate
    chance = random.Random(7)
    for _ in range(20):
        used = sorted(turn * interval + chance.choice([0.0, patience(interval)]) for turn in range(400))
        for first, start in enumerate(used):
            within = sum(1 for at in used[first:] if at < start + 1)
            assert within <= max(1, int(rate)) + 1 + (rate % 1 > 0)


def test_a_turn_is_void_after_its_patience_and_not_before() -> None:
    assert not void(100.0, 1.0, 100.5)
    assert void(100.0, 1.0, 100.6)
    assert not void(100.0, 0.1, 100.08)
    assert void(100.0, 0.1, 100.1)


def test_without_an_interval_no_turn_is_void() -> None:
    assert not void(0.0, 0.0, 1e9)
