"""robots.txt rules (RFC 9309). Pure.

Protego does the matching (2.2.2, 2.2.3). The file is read and the group chosen here, because Protego takes a part of a
name for the name, lets unknown records end a group and does not know the byte order mark.
"""

from __future__ import annotations

import math
import re
from urllib.parse import quote

from protego import Protego

MAX_FILE = 500 * 1024
"""Bytes of a file that are read (RFC 9309 2.5); the line that this cuts is dropped."""

MAX_DELAY = 3600.0
"""Seconds; a longer Crawl-delay counts as this."""

HEAVY = 1000
"""Rules from which on a file is heavy: each of them may have to be tried."""

# Records as people write them: misspelt, and with the colon forgotten.
_RECORD = re.compile(
    r"""(?: (?P<agent> user[-\ ]?agent )
          | (?P<disallow> dis{1,2}al{1,2}ow | diasllow | disallaw )
          | (?P<allow> allow )
          | (?P<delay> crawl[-\ ]delay )
          | (?P<sitemap> site-?maps? )
        ) (?: \s*:\s* | \s+ | \Z ) (?P<value> .* )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_HTML = re.compile(r"\s*<(?:!doctype|!--|html|head|body|\?xml)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


class Robots:
    """What one robots.txt says to one crawler.

    crawl_delay: seconds between two requests, or None. delay_capped: the file asked for more than MAX_DELAY.
    sitemaps: as written, and the same for every crawler; they may be relative. heavy: asking takes milliseconds.
    """

    def __init__(
        self,
        rules: str = "",
        crawl_delay: float | None = None,
        delay_capped: bool = False,
        sitemaps: tuple[str, ...] = (),
    ) -> None:
        self.crawl_delay, self.delay_capped, self.sitemaps = crawl_delay, delay_capped, sitemaps
        self._rules = Protego.parse(f"User-agent: *\n{rules}") if rules else None
        self.heavy = rules.count("\n") >= HEAVY

    @classmethod
    def parse(cls, body: bytes, token: str) -> Robots:
        """Read a file for the crawler with this product token. Never raises; what is no record is ignored."""
        text = _text(body)
        if _HTML.match(text):
            return ALLOW_ALL
        file = _File(token.lower())
        for line in _LINE_END.split(text):
            record = _RECORD.fullmatch(line.partition("#")[0].strip())
            if record is not None:
                file.read(record)
        group = file.own if file.own.named else file.others
        if not (group.rules or group.delays or file.sitemaps):
            return ALLOW_ALL
        # Of several delays the longest: too slow harms nobody.
        asked = max(group.delays, default=None)
        delay = None if asked is None else math.ceil(round(min(asked, MAX_DELAY) * 1000, 6)) / 1000
        capped = asked is not None and asked > MAX_DELAY
        return cls("\n".join(group.rules), delay, capped, tuple(dict.fromkeys(file.sitemaps)))

    def allowed(self, url: str) -> bool:
        """Whether a wire URL may be requested. The path /robots.txt itself always may (2.2.2)."""
        if self._rules is None:
            return True
        start = url.find("/", url.find("//") + 2)
        target = url[start:] if start >= 0 else "/"
        # Rules see path and query only; a fixed host spares the parser whatever is odd about this one.
        return target == "/robots.txt" or self._rules.can_fetch(f"http://h{target}", "*")


class _Group:
    """Everything said to one user agent, wherever it stands in the file (2.2.1)."""

    def __init__(self) -> None:
        self.named = False
        self.rules: list[str] = []
        self.delays: list[float] = []


class _File:
    """Sorts the records of a file into the crawler's own group and the one for all others."""

    def __init__(self, token: str) -> None:
        self.own, self.others = _Group(), _Group()
        self.sitemaps: list[str] = []
        self._token = token
        self._current: list[_Group] = []
        self._in_rules = False

    def read(self, record: re.Match[str]) -> None:
        value = record["value"]
        if record["agent"]:
            # A group ends at a user-agent line that follows a rule, and nowhere else (2.1).
            if self._in_rules:
                self._current, self._in_rules = [], False
            self._name(value.lower())
        elif record["sitemap"]:
            self.sitemaps += [value] if value else []
        elif record["delay"]:
            if _NUMBER.fullmatch(value) and math.isfinite(float(value)):
                for group in self._current:
                    group.delays.append(float(value))
        else:
            self._in_rules = True
            # In ASCII without blanks, a value cannot be taken for two lines or a comment. An empty one is no rule.
            rule = f"{'disallow' if record['disallow'] else 'allow'}: {quote(value, safe=_VISIBLE)}"
            for group in self._current:
                group.rules += [rule] if value else []

    def _name(self, value: str) -> None:
        """A user-agent line: names are compared whole, without version and comment (2.2.1)."""
        name = re.split(r"[/\s(;]", value, maxsplit=1)[0]
        if self._token in (value, name):
            group = self.own
        elif name == "*":
            group = self.others
        else:
            return
        group.named = True
        self._current.append(group)


def _text(body: bytes) -> str:
    """Decode as UTF-8 or by the byte order mark, with replacement; cut at the last line end within MAX_FILE."""
    if len(body) > MAX_FILE:
        body = body[:MAX_FILE]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return body.decode(encoding, "replace")


ALLOW_ALL = Robots()
DISALLOW_ALL = Robots("disallow: /")
