"""Log lines of a process that runs for weeks: few of a kind, and without what URLs may hold in secret."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

import msgspec

A_MINUTE = 5
"""Lines of a kind that pass within a minute of the first of them."""

MINUTE = 60.0

_URL = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,30}://)(?:[^\s/?#'\"]*@)?([^\s?#'\"]*)(\?[^\s#'\"]*)?")


class _Kind(msgspec.Struct, gc=False):
    """Lines from one place in the source: when the minute of the last of them began, how many passed in it, how many
    were kept back since a line last said so; how the first of those begins."""

    since: float
    passed: int = 0
    kept_back: int = 0
    example: str = ""


class Sparing(logging.Filter):
    """Keeps back what comes from one place in the source more than a few times a minute; the next line that passes says
    how many did not. Of several tracebacks of a kind only the first of a minute is shown.

    So a fault that occurs at every page costs some kilobytes of log a minute and not of each page.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._kinds: dict[tuple[str, int], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        kind = self._kinds.setdefault((record.pathname, record.lineno), _Kind(now))
        if now - kind.since >= MINUTE:
            kind.since, kind.passed = now, 0
        if kind.passed >= A_MINUTE:
            kind.kept_back += 1
            kind.example = kind.example or record.getMessage()[:100]
            return False
        kind.passed += 1
        if kind.passed > 1:
            record.exc_info = record.exc_text = None
        if kind.kept_back:
            record.msg, record.args = f"{record.getMessage()} ({kind.kept_back} more since the last such line)", ()
            kind.kept_back, kind.example = 0, ""
        return True

    def rest(self) -> list[str]:
        """What was kept back and not told, a line a kind, for the end of the process."""
        return [f"{kind.kept_back} more lines like: {kind.example}" for kind in self._kinds.values() if kind.kept_back]


class Discreet(logging.Formatter):
    """Leaves out the user, the password and the query of every URL, wherever in a line or a traceback it stands."""

    def format(self, record: logging.LogRecord) -> str:
        return discreet(super().format(record))


def discreet(text: str) -> str:
    """A text without what its URLs should not show."""
    return _URL.sub(lambda url: f"{url[1]}{url[2]}{'?…' if url[3] else ''}", text)
