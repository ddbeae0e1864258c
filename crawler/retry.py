"""When to try again after a failure. Pure functions."""

from __future__ import annotations

import re
from datetime import UTC, datetime

LONGEST = 3600.0
"""Seconds; neither a backoff nor what a server asks for is longer."""

JITTER = 0.25
"""Share of a backoff that the jitter adds at most, so that what failed together does not come back together."""

# First wait and growth. Four attempts at a host that is gone end within a minute and a half; a server that says it is
# overloaded, or is too slow to answer, gets time to recover: four attempts outlast a minute.
_QUICK = (2.0, 3.0)
_PATIENT = (15.0, 2.0)
_BACKOFF = {
    "dns": _QUICK,
    "connect": _QUICK,
    "tls": _QUICK,
    "reset": _QUICK,
    "protocol": _QUICK,
    "timeout": _PATIENT,
    "429": (30.0, 2.0),
}


def backoff(kind: str, attempt: int, *, jitter: float) -> float:
    """Seconds to wait after the failure of attempt `attempt` (1 is the first).

    `kind` is a failure kind or an HTTP status. `jitter` is a random number in [0, 1) of the caller's.
    """
    first, growth = _BACKOFF.get(kind, _PATIENT)
    # Far beyond any limit long before the power could overflow.
    return min(first * growth ** min(attempt - 1, 30) * (1.0 + JITTER * jitter), LONGEST)


def retry_after(value: str | None, date: str | None, now: float) -> float | None:
    """Seconds that a Retry-After field asks for (RFC 9110 10.2.3), at most LONGEST; None when it says nothing valid.

    A time is measured against `date`, the reply's own Date field, so that a wrong clock on either side does not
    matter; without one against `now`. A time that has passed asks for 0 seconds.
    """
    if value is None:
        return None
    value = value.strip()
    if re.fullmatch(r"[0-9]+", value):
        # More digits cannot change a clamped number, and int() refuses thousands of them.
        return min(float(value.lstrip("0")[:20] or 0), LONGEST)
    at = http_date(value)
    if at is None:
        return None
    sent = http_date(date.strip()) if date else None
    return min(max(at - (now if sent is None else sent), 0.0), LONGEST)


_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = [
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
]
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(value: str) -> float | None:
    """Read one of the three date forms of RFC 9110 5.6.7 as Unix seconds; None for anything else."""
    match = next(filter(None, (pattern.fullmatch(value) for pattern in _DATES)), None)
    if match is None or match["month"] not in _MONTHS:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year += 1900 if year >= 69 else 2000  # POSIX; RFC 9110 asks for the nearest century that is not far ahead
    day, hour, minute, second = (int(match[name]) for name in ("day", "hour", "minute", "second"))
    try:
        # A leap second is one early.
        at = datetime(year, _MONTHS.index(match["month"]) + 1, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp()
