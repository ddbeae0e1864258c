"""What a robots.txt says to one crawler (RFC 9309). Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from crawler.robots_file import MAX_FILE as MAX_FILE
from crawler.robots_file import RobotsFile
from crawler.robots_rules import Rule, Rules

MAX_DELAY = 3600.0
"""Seconds; a longer Crawl-delay counts as this."""

HEAVY = 1000
"""Rules from which on a file is heavy: each of them may have to be tried."""

_ORIGIN = re.compile(r"[a-z]+://[^/?]*")


class Robots:
    """The rules of one robots.txt for one crawler.

    crawl_delay: seconds between two requests, or None. delay_capped: the file asked for more than MAX_DELAY.
    sitemaps: as written, and the same for every crawler; they may be relative. heavy: asking takes milliseconds.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        crawl_delay: float | None = None,
        delay_capped: bool = False,
        sitemaps: tuple[str, ...] = (),
    ) -> None:
        self.crawl_delay, self.delay_capped, self.sitemaps = crawl_delay, delay_capped, sitemaps
        self._rules = Rules(rules)
        self.heavy = len(self._rules) >= HEAVY

    @classmethod
    def parse(cls, body: bytes, token: str) -> Robots:
        """Read a file for the crawler with this product token. Never raises; what is no record is ignored."""
        return cls.of(RobotsFile(body, token))

    @classmethod
    def of(cls, file: RobotsFile) -> Robots:
        """What a file says to the crawler that it was read for."""
        group = file.group
        rules, delays = (group.rules, group.delays) if group else ([], [])
        if not (rules or delays or file.sitemaps):
            return ALLOW_ALL
        # Of several delays the longest: too slow harms nobody.
        asked = max((seconds for _, seconds in delays), default=None)
        delay = None if asked is None else math.ceil(round(min(asked, MAX_DELAY) * 1000, 6)) / 1000
        capped = asked is not None and asked > MAX_DELAY
        return cls(rules, delay, capped, tuple(dict.fromkeys(line.text for line in file.sitemaps)))

    def allowed(self, url: str) -> bool:
        """Whether a wire URL may be requested. The path /robots.txt itself always may (2.2.2)."""
        rule = self.decisive(url)
        return rule is None or rule.allow

    def decisive(self, url: str) -> Rule | None:
        """The rule that decides about a wire URL; None when none does, and it may be requested."""
        if not len(self._rules):
            return None
        origin = _ORIGIN.match(url)
        target = url[origin.end() :] if origin else url
        target = target if target.startswith("/") else f"/{target}"
        return None if target == "/robots.txt" else self._rules.decisive(target)


ALLOW_ALL = Robots()
