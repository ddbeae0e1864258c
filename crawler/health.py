"""How a host's answers change the pace at which it is asked. Pure.

    gap      the seconds between turns that the host needs: half its response time, so that about two requests are in
             flight at a host that is asked as fast as it answers; doubled by every error, recovering step by step.
    breaker  after BREAKER connections in a row that failed the host is parked, longer each time, and what comes then is
             a probe; after GIVE_UP it is down for a while, and its pages are dead letters that can be retried.

Nothing here slows a crawl without a rate; the breaker guards it too.
"""

from __future__ import annotations

from msgspec.structs import replace

from crawler.model import Health, Why

FACTOR = 0.5
"""Of the response time: the gap that a host needs."""

SHARP = 1.25
"""A gap is raised when the host needs this much more than it has; smaller changes are noise."""

RECOVERY = 0.7
"""What an answer in time leaves of a gap that is longer than needed."""

SETBACK = 2.0
"""What an error multiplies the interval by."""

LONGEST_GAP = 60.0
"""Seconds."""

PROMPT, LATE = 0.75, 1.25
"""Shares of an interval: a host that answers within the first is prompt, one that takes the other is not any more."""

BREAKER = 5
"""Failed connections in a row, over the whole fleet, from which on a host is parked."""

GIVE_UP = BREAKER + 4
"""Failed connections in a row after which a host is down."""

REFUSALS = 8
"""Answers 429 or 503 in a row after which a host is down; the pauses between them have taken an hour by then."""

PARKED, LONGEST_PARKED = 30.0, 900.0
"""Seconds for which a host is parked first, doubled with each failure, and at most."""

DOWN = 3600.0
"""Seconds for which a host is down; after that the next page is a probe again."""

ERROR_LENGTH = 200


def answered(health: Health, response: float, interval: float, *, seen: int) -> Health:
    """After an answer. `response`: the host's recent response time (seconds), from the last of `seen` answers;
    `interval`: seconds that the crawl keeps between turns, 0 for no limit."""
    if not interval:
        return Health()
    needed = response * FACTOR if response * FACTOR > interval else 0.0
    gap, why = health.gap, health.why
    if needed > gap * SHARP:
        gap, why = min(needed, LONGEST_GAP), Why.RESPONSE_TIME
    elif gap * RECOVERY > max(needed, interval):
        gap *= RECOVERY
    elif gap > needed * SHARP:
        gap, why = needed, Why.RESPONSE_TIME
    step = max(gap, interval)
    prompt = response <= LATE * step if health.prompt else response <= PROMPT * step and seen >= 3
    return Health(gap=gap, why=why, prompt=prompt)


def troubled(health: Health, interval: float) -> Health:
    """After an error of the server, or a request without an answer. `interval`: seconds between turns in force."""
    if not interval:
        return health
    gap = min(max(interval, health.gap) * SETBACK, LONGEST_GAP)
    return replace(health, gap=max(gap, health.gap), why=Why.BACKOFF)


def refused(health: Health, host: str, error: str, now: float) -> Health:
    """After an answer 429 or 503: one more in a row."""
    refusals = health.refusals + 1
    if refusals >= REFUSALS:
        return given_up(replace(health, refusals=refusals), host, f"{refusals} times in a row: {error}", now)
    return replace(health, failures=0, refusals=refusals, host=host, error=error[:ERROR_LENGTH])


def failed(health: Health, host: str, error: str, now: float) -> Health:
    """After a connection that failed: one more in a row."""
    failures = health.failures + 1
    if failures >= GIVE_UP:
        return given_up(
            replace(health, failures=failures), host, f"{failures} failures in a row, the last: {error}", now
        )
    return replace(health, failures=failures, host=host, error=error[:ERROR_LENGTH])


def given_up(health: Health, host: str, error: str, now: float) -> Health:
    """Nothing more is to be had from this host for now."""
    return replace(health, down_until=now + DOWN, host=host, error=error[:ERROR_LENGTH])


def parked(health: Health) -> float:
    """Seconds for which the host is to be left alone; 0 while the breaker is closed."""
    if health.failures < BREAKER:
        return 0.0
    return float(min(PARKED * 2.0 ** min(health.failures - BREAKER, 30), LONGEST_PARKED))
