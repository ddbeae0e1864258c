"""Rules of robots.txt: one spelling for every path, and matching in linear time (RFC 9309 2.2.2, 2.2.3). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")

# Escapes of what means the same escaped or not are decoded: unreserved characters, and reserved ones that delimit
# nothing in an http URL. The others keep their escape, which makes them data: %2F is no slash, %3F begins no query.
_DECODED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~" + "!$'(),:;@[]")
_KEPT = "!$&'()*+,/:;=?@[]%"
"""What stands for itself beside the unreserved characters; everything else is escaped, octet by octet."""

_AS_IT_IS = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,/:;=?@\[\]]*")
_STARS = re.compile(r"\*{2,}")


class Rule(msgspec.Struct, frozen=True, gc=False):
    """One Allow or Disallow line.

    line: its number in the file, from 1. octets: the length that decides between rules. parts: what must follow one
    another, the first at the path's beginning, anything between two of them. anchored: the last one at its end.
    """

    allow: bool
    line: int
    octets: int
    parts: tuple[str, ...]
    anchored: bool = False

    def matches(self, target: str) -> bool:
        """Whether the rule speaks of a path and query in the spelling of `spellings`.

        Taking every part where it comes first leaves the most for the rest, so nothing has to be tried twice.
        """
        parts = self.parts
        if not target.startswith(parts[0]):
            return False
        at = len(parts[0])
        if len(parts) == 1:
            return not self.anchored or at == len(target)
        for part in parts[1:-1]:
            at = target.find(part, at)
            if at < 0:
                return False
            at += len(part)
        if self.anchored:
            return len(target) - len(parts[-1]) >= at and target.endswith(parts[-1])
        return target.find(parts[-1], at) >= 0


class Rules:
    """The rules of one group: the longest match decides, Allow where two are equally long (2.2.2)."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        # Of equal rules the first one is kept.
        distinct = {(rule.allow, rule.parts, rule.anchored): rule for rule in reversed(list(rules))}
        self._rules = sorted(distinct.values(), key=lambda rule: (-rule.octets, not rule.allow, rule.line))
        plain = [rule.parts[0] for rule in self._rules if len(rule.parts) == 1 and not rule.anchored]
        self._prefixes = tuple(plain)
        self._others = [rule for rule in self._rules if len(rule.parts) > 1 or rule.anchored]

    def __len__(self) -> int:
        return len(self._rules)

    def decisive(self, target: str) -> Rule | None:
        """The rule that decides about a path and query as it goes on the wire; None when none matches."""
        one, *others = spellings(target)
        if not others:
            return self._first(one)
        found = [rule for each in (one, *others) if (rule := self._first(each)) is not None]
        return min(found, key=lambda rule: (-rule.octets, not rule.allow, rule.line), default=None)

    def _first(self, target: str) -> Rule | None:
        # Most rules are plain beginnings, and one call rules all of them out.
        rules = self._rules if target.startswith(self._prefixes) else self._others
        for rule in rules:
            if rule.matches(target):
                return rule
        return None


def rules_of(value: str, *, allow: bool, line: int) -> list[Rule]:
    """The rules that one line makes: none without a value, two for an index page. `*` is any run of characters, a `$`
    at the end the end of the path; both are literal when escaped (2.2.3)."""
    if not value:
        return []
    anchored = value.endswith("$")
    pattern = _spell(value.removesuffix("$"))
    octets = len(pattern) + anchored
    path, mark, query = _STARS.sub("*", pattern).partition("?")
    parts = tuple(f"{path}{mark}{query.replace('%2F', '/')}".split("*"))
    rules = [Rule(allow, line, octets, parts, anchored)]
    if allow and not anchored and pattern.endswith("/index.html"):
        # The index page is what the folder shows, as search engines have it.
        folder = (*parts[:-1], parts[-1].removesuffix("index.html"))
        rules.append(Rule(allow, line, octets - len("index.html") + 1, folder, True))
    return rules


def spellings(target: str) -> tuple[str, ...]:
    """The spellings of a wire URL's path and query that rules are compared with.

    In a query a slash is data, so there the escaped one is the same (the RFC's table in 2.2.2 has an example); a rule
    may mean it either way.
    """
    one = _spell(target).replace("*", "%2A")
    path, _, query = one.partition("?")
    return (one, f"{path}?{query.replace('%2F', '/')}") if "%2F" in query else (one,)


def _spell(text: str) -> str:
    """The one spelling; `text` may contain bytes that were no UTF-8, as surrogates. Its `*` are left alone."""
    if _AS_IT_IS.fullmatch(text) is not None:
        return text
    return quote(_ESCAPE.sub(_unescape, text), safe=_KEPT, errors="surrogateescape")


def _unescape(match: re.Match[str]) -> str:
    character = chr(int(match[1], 16))
    return character if character in _DECODED else match[0].upper()
