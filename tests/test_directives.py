"""Robots meta tags, X-Robots-Tag fields and rel=nofollow."""

from __future__ import annotations

import pytest

from crawler.directives import directives, has_nofollow

INDEX, FOLLOW = False, False
NOINDEX, NOFOLLOW = True, True


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (INDEX, FOLLOW)),
        ([""], (INDEX, FOLLOW)),
        (["all"], (INDEX, FOLLOW)),
        (["noindex"], (NOINDEX, FOLLOW)),
        (["NOINDEX , NoFollow"], (NOINDEX, NOFOLLOW)),
        (["none"], (NOINDEX, NOFOLLOW)),
        (["NONE"], (NOINDEX, NOFOLLOW)),
        # negative rules add up, whatever stands beside them
        (["nofollow", "noindex"], (NOINDEX, NOFOLLOW)),
        (["noindex", "index, follow"], (NOINDEX, FOLLOW)),
        (["noarchive, noindex;"], (INDEX, FOLLOW)),
        (["noindexer"], (INDEX, FOLLOW)),
        # agents
        (["examplebot: noindex"], (NOINDEX, FOLLOW)),
        (["ExampleBot: noindex, nofollow"], (NOINDEX, NOFOLLOW)),
        (["examplebot/1.0:noindex"], (NOINDEX, FOLLOW)),
        (["*: noindex"], (NOINDEX, FOLLOW)),
        (["otherbot: noindex, nofollow"], (INDEX, FOLLOW)),
        (["examplebot2: noindex"], (INDEX, FOLLOW)),
        (["otherbot: noindex", "nofollow"], (INDEX, NOFOLLOW)),
        (["nofollow", "examplebot: noindex"], (NOINDEX, NOFOLLOW)),
        (["nofollow, otherbot: noindex"], (INDEX, NOFOLLOW)),
        (["otherbot: noindex, examplebot: nofollow"], (INDEX, NOFOLLOW)),
        # colons that name no agent
        (["unavailable_after: Wednesday, 25 Jun 2025 15:00:00 PST, noindex"], (NOINDEX, FOLLOW)),
        (["unavailable_after: 25 Jun 2025 15:00:00 PST, nofollow"], (INDEX, NOFOLLOW)),
        (["unavailable_after: Wednesday, 25-Jun-25 15:00:00 UTC, none"], (NOINDEX, NOFOLLOW)),
        (["unavailable_after: 2025-06-25T15:00:00+00:00, noindex"], (NOINDEX, FOLLOW)),
        (["max-snippet:20, max-image-preview: large, noindex"], (NOINDEX, FOLLOW)),
        (["max-video-preview:-1, nofollow"], (INDEX, NOFOLLOW)),
        (["someday: perhaps, noindex"], (NOINDEX, FOLLOW)),
        (["otherbot: unavailable_after: Wed, 25 Jun 2025 15:00:00 PST, noindex"], (INDEX, FOLLOW)),
        (["otherbot: max-snippet: 5, noindex"], (INDEX, FOLLOW)),
    ],
)
def test_rules_for_everybody_and_for_us_add_up(values: list[str], expected: tuple[bool, bool]) -> None:
    assert directives(values, "ExampleBot") == expected


@pytest.mark.parametrize(
    ("rel", "expected"),
    [("nofollow", True), ("x NOFOLLOW", True), ("noopener\nnofollow", True), ("nofollower", False), ("", False)],
)
def test_nofollow_is_one_word_of_rel(rel: str, expected: bool) -> None:
    assert has_nofollow(rel) is expected


def test_no_rel_is_no_nofollow() -> None:
    assert not has_nofollow(None)
