"""The log of a function: lines as a worker's are, few of a kind and without what URLs may hold in secret.

Lambda's runtime has its own handler and format by the time that a function is loaded; both stay.
"""

from __future__ import annotations

import logging

from crawler.telemetry.log_lines import Sparing, discreet


class _Discreet(logging.Formatter):
    """Another formatter's lines, made discreet."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return discreet(self._inner.format(record))


def guard() -> None:
    """See to it that whatever Lambda's runtime logs from now on is told so."""
    for handler in logging.getLogger().handlers:
        if type(handler).__module__.startswith("awslambdaric"):
            handler.setFormatter(_Discreet(handler.formatter or logging.Formatter()))
            handler.addFilter(Sparing())
