"""Why a robots.txt allows or forbids a URL: which group, which rule, which line. Pure."""

from __future__ import annotations

import msgspec

from crawler.robots import Robots
from crawler.robots_file import RobotsFile


class Cited(msgspec.Struct, frozen=True):
    """A line of the file, from 1, as it is written."""

    line: int
    text: str


class Explanation(msgspec.Struct, frozen=True):
    """What a file says about one URL to the crawler with this product token.

    group: the user-agent lines of the group that counts, none when the file has no such group. rule: the one that
    decides, None when none matches. reason: one sentence. crawl_delay: seconds in force (None: none asked for).
    """

    allowed: bool
    reason: str
    group: tuple[Cited, ...] = ()
    rule: Cited | None = None
    crawl_delay: float | None = None
    crawl_delay_line: Cited | None = None
    sitemaps: tuple[Cited, ...] = ()


def explain(body: bytes, url: str, token: str) -> Explanation:
    """Say what a file means for a wire URL. The same code decides as in a crawl."""
    file = RobotsFile(body, token)
    robots = Robots.of(file)
    rule, group = robots.decisive(url), file.group
    delay = max(group.delays, key=lambda each: each[1], default=None) if group else None
    return Explanation(
        allowed=robots.allowed(url),
        reason=_reason(file, robots, url, token),
        group=tuple(_cited(file, agent.number) for agent in group.agents) if group else (),
        rule=_cited(file, rule.line) if rule else None,
        crawl_delay=robots.crawl_delay,
        crawl_delay_line=_cited(file, delay[0]) if delay else None,
        sitemaps=tuple(Cited(line.number, line.text) for line in file.sitemaps),
    )


def _reason(file: RobotsFile, robots: Robots, url: str, token: str) -> str:
    rule = robots.decisive(url)
    if rule is not None:
        return "the longest rule that matches" + (" allows it" if rule.allow else " forbids it")
    if file.is_page:
        return "the file is a web page, not rules"
    if file.group is None:
        return f"no group for {token}, and none for *"
    if not file.group.rules:
        return "the group has no rules"
    return "no rule matches"


def _cited(file: RobotsFile, number: int) -> Cited:
    text = file.lines[number - 1].strip().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return Cited(number, text)
