"""The worker's side of a host gate: how late a turn may be used.

A turn used late crowds the next one, which comes in time. As long as no turn is used an interval or more after its
start, no second holds more than one request beyond the rate; a turn that is later than that is void.
"""

from __future__ import annotations

SHARE = 0.9
"""Of the interval: how late a turn may be."""

LEAST, MOST = 0.02, 0.5
"""Seconds. Below the least a timer cannot be trusted, so rates above 45 a second may see a little more than one request
beyond; above the most, two requests that should be seconds apart would look like a pair."""


def patience(interval: float) -> float:
    """Seconds after its start within which a turn may be used, at a gate with this interval (seconds)."""
    return min(max(SHARE * interval, LEAST), MOST)


def void(start_at: float, interval: float, now: float) -> bool:
    """Whether a turn has passed. Without an interval no turn is needed, and none passes."""
    return interval > 0 and now > start_at + patience(interval)
