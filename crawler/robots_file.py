"""A robots.txt file as it is written: its lines, and what they say to one crawler (RFC 9309 2.1, 2.2). Pure."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from crawler.robots_rules import Rule, rules_of

MAX_FILE = 500 * 1024
"""Bytes of a file that are read (RFC 9309 2.5); the line that this cuts is dropped."""

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
_MARK = re.compile(rb"\A(?:\xef\xbb\xbf|\xef\xbb?(?=[\t-~]))")
_HTML = re.compile(r"\s*<(?:!doctype|!--|html|head|body|\?xml)", re.IGNORECASE)
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


class Line(NamedTuple):
    """A line's number, from 1, and its value."""

    number: int
    text: str


class Group:
    """Everything said to one user agent, wherever it stands in the file (2.2.1). `name`: the product token, or `*`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.agents: list[Line] = []
        self.rules: list[Rule] = []
        self.delays: list[tuple[int, float]] = []
        """Line and seconds of each Crawl-delay that is a number."""


class RobotsFile:
    """A file, read for the crawler with this product token. Never raises; what is no record is ignored.

    group: the crawler's own, or else the one for all others, or None when the file has neither. sitemaps: as written,
    for every crawler. is_page: it is an HTML page, in which nothing is a record.
    """

    def __init__(self, body: bytes, token: str) -> None:
        text = _text(body)
        self.lines = _LINE_END.split(text)
        self.is_page = _HTML.match(text) is not None
        self.sitemaps: list[Line] = []
        self._own, self._others = Group(token), Group("*")
        self._current: list[Group] = []
        self._in_rules = False
        if not self.is_page:
            for number, line in enumerate(self.lines, start=1):
                record = _RECORD.fullmatch(line.partition("#")[0].strip())
                if record is not None:
                    self._read(record, number)

    @property
    def group(self) -> Group | None:
        return next((group for group in (self._own, self._others) if group.agents), None)

    def _read(self, record: re.Match[str], number: int) -> None:
        value = record["value"]
        if record["agent"]:
            # A group ends at a user-agent line that follows a rule, and nowhere else (2.1).
            if self._in_rules:
                self._current, self._in_rules = [], False
            self._name(Line(number, value))
        elif record["sitemap"]:
            if value:
                url = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                self.sitemaps.append(Line(number, url))
        elif record["delay"]:
            if _NUMBER.fullmatch(value) and math.isfinite(float(value)):
                for group in self._current:
                    group.delays.append((number, float(value)))
        else:
            self._in_rules = True
            rules = rules_of(value, allow=record["allow"] is not None, line=number) if self._current else []
            for group in self._current:
                group.rules += rules

    def _name(self, line: Line) -> None:
        """A user-agent line: names are compared whole, without version and comment (2.2.1)."""
        value, token = line.text.lower(), self._own.name.lower()
        name = re.split(r"[/\s(;]", value, maxsplit=1)[0]
        if token in (value, name):
            group = self._own
        elif name == "*":
            group = self._others
        else:
            return
        group.agents.append(line)
        if group not in self._current:
            self._current.append(group)


def _text(body: bytes) -> str:
    """Decode as UTF-8 or by the byte order mark, cut at the last line end within MAX_FILE.

    The mark may be damaged. Bytes that are no UTF-8 become surrogates, so that a path in another encoding keeps its
    octets.
    """
    if len(body) > MAX_FILE:
        body = body[:MAX_FILE]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r"), 0)]
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16", "replace")
    return _MARK.sub(b"", body).decode("utf-8", "surrogateescape")
