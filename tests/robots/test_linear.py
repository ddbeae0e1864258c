"""Rules made to be slow take a time that grows like the path and like the rule, not like their product's powers.

The processor's time is compared with itself at four times the size: linear is 4, quadratic would be 16.
"""

from __future__ import annotations

import time

import pytest

from tests.robots.reading import SITE, parse

GENEROUS = 9.0


def seconds(pattern: str, path: str) -> float:
    """Processor time of asking about a path, the best of several tries."""
    rules = parse(f"user-agent: *\ndisallow: {pattern}")
    url = SITE + path
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        for _ in range(20):
            rules.allowed(url)
        best = min(best, time.process_time() - start)
    return best


def pattern(kind: str, stars: int) -> str:
    return {
        "/*a*a*a": "/" + "*a" * stars + "*b",
        "/a*a*a$": "/" + "a*" * stars + "b$",
        "/*aa*aa": "/" + "*aa" * stars + "ab$",
        "/*a?*a?": "/*?" + "*a&" * stars + "*b",
        "/****": "/" + "*" * stars + "b",
        "/*/*/*/": "/" + "*/" * stars + "b",
    }[kind]


@pytest.mark.case("B05")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("stars", [30, 300])
@pytest.mark.parametrize("kind", ["/*a*a*a", "/a*a*a$", "/*aa*aa", "/*a?*a?", "/****", "/*/*/*/"])
def test_time_grows_like_the_path(kind: str, stars: int) -> None:
    rule = pattern(kind, stars)
    unit = "a/" if kind == "/*/*/*/" else "a"
    small, large = (seconds(rule, "/" + unit * (size // len(unit))) for size in (8_000, 32_000))
    assert large / small < GENEROUS


@pytest.mark.timeout(60)
def test_time_grows_like_the_number_of_stars() -> None:
    path = "/" + "a" * 8_000
    small, large = (seconds("/" + "*a" * stars + "*b", path) for stars in (1_000, 4_000))
    assert large / small < GENEROUS


@pytest.mark.timeout(60)
def test_reading_a_line_of_stars_takes_no_time() -> None:
    for rule in ("/" + "*" * 400_000, "/" + "*a" * 200_000, "/" + "%" * 400_000, " " * 400_000 + "/x"):
        assert parse(f"user-agent: *\ndisallow: {rule}\n").allowed(SITE + "/robots.txt")
