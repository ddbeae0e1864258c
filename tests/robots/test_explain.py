"""Why a URL is allowed or not: group, rule and line."""

from __future__ import annotations

import pytest

from crawler.robots_explain import Cited, Explanation, explain
from tests.robots.reading import SITE

TEXT = """\
Sitemap: https://site.example/s.xml

User-agent: BarBot
User-agent: FooBot/2  # ours
Crawl-delay: 2
Disallow: /private   # hands off
Allow: /private/open$

User-agent: *
Disallow: /

user-agent: foobot
Crawl-delay: 5000
disallow: /*?sid=
"""


def about(path: str, token: str = "FooBot", text: str | bytes = TEXT) -> Explanation:
    return explain(text.encode() if isinstance(text, str) else text, SITE + path, token)


@pytest.mark.parametrize(
    ("path", "token", "allowed", "rule", "group"),
    [
        ("/private/x", "FooBot", False, 6, [4, 12]),
        ("/private/open", "FooBot", True, 7, [4, 12]),
        ("/a?sid=1", "FooBot", False, 14, [4, 12]),
        ("/a", "FooBot", True, None, [4, 12]),
        ("/a", "BarBot", True, None, [3]),
        ("/private", "barbot", False, 6, [3]),
        ("/a", "QuxBot", False, 10, [9]),
        ("/robots.txt", "QuxBot", True, None, [9]),
    ],
)
def test_lines_that_decide(path: str, token: str, allowed: bool, rule: int | None, group: list[int]) -> None:
    found = about(path, token)
    assert found.allowed is allowed
    assert (found.rule.line if found.rule else None) == rule
    assert [agent.line for agent in found.group] == group


def test_lines_are_quoted_as_they_are_written() -> None:
    found = about("/private/x")
    assert found.rule == Cited(6, "Disallow: /private   # hands off")
    assert found.group[0] == Cited(4, "User-agent: FooBot/2  # ours")
    assert found.sitemaps == (Cited(1, "https://site.example/s.xml"),)
    assert (found.crawl_delay, found.crawl_delay_line) == (3600.0, Cited(13, "Crawl-delay: 5000"))
    assert about("/x", text=b"user-agent: foobot\rdisallow: /\xe9").group == (Cited(1, "user-agent: foobot"),)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_alike_whatever_ends_them(end: str) -> None:
    found = about("/private", text=TEXT.replace("\n", end))
    assert found.rule is not None
    assert found.rule.line == 6


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no group for FooBot, and none for *"),
        ("user-agent: other\ndisallow: /", "no group for FooBot, and none for *"),
        ("user-agent: foobot", "the group has no rules"),
        ("user-agent: *\ndisallow:", "the group has no rules"),
        ("user-agent: *\ndisallow: /y", "no rule matches"),
        ("user-agent: *\ndisallow: /", "the longest rule that matches forbids it"),
        ("user-agent: *\nallow: /", "the longest rule that matches allows it"),
        ("<html>\nuser-agent: *\ndisallow: /", "the file is a web page, not rules"),
    ],
)
def test_the_reason_is_one_sentence(text: str, reason: str) -> None:
    assert about("/x", text=text).reason == reason
