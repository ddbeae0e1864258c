"""What a fetcher process has done since it was last asked: plain numbers, counted where things are known.

All of it together costs a page about a microsecond. Counting happens on the event loop alone, so nothing is locked.
"""

from __future__ import annotations

import math

from crawler.fetched import Response
from crawler.model import Ending, Verdict
from crawler.telemetry.emf import MOST_VALUES, Distribution, Value
from crawler.telemetry.names import Fleet

STEPS = 20
"""Values of a latency per power of ten, from 1 ms on: each is off by 6 % at most, and the last stands for 89 s."""

LATENCIES = tuple(float(f"{10 ** (step / STEPS):.3g}") for step in range(MOST_VALUES))
"""Milliseconds."""

ROBOTS = "robots"
"""Reason of pages skipped because robots.txt disallows them."""


class Counters:
    """Counts of one process. `pages` sums up all that were taken and goes on for ever."""

    def __init__(self) -> None:
        self.pages = 0
        self._clear()

    def _clear(self) -> None:
        self._finished = self._skipped = self._dead = self._retried = self._deferred = self._blocked = 0
        self._discovered = self._bytes = 0
        self._answers = [0] * 10
        self._latencies = [0] * MOST_VALUES

    def answered(self, response: Response) -> None:
        """An answer to a page's request came, whatever becomes of the page."""
        self._answers[response.status // 100] += 1
        self._bytes += len(response.body)
        milliseconds = response.elapsed * 1000
        step = round(math.log10(milliseconds) * STEPS) if milliseconds > 1 else 0
        self._latencies[min(step, MOST_VALUES - 1)] += 1

    def settled(self, verdict: Verdict) -> None:
        """A lease of ours ended so."""
        ending = verdict.ending
        if ending is Ending.RETRY:
            self._retried += 1
        elif ending is Ending.DEFER:
            self._deferred += 1
        elif ending is Ending.SKIPPED:
            self._skip(verdict.reason)
        else:
            self._finished += 1
            if ending is Ending.DEAD:
                self._dead += 1

    def discovered(self, skip: str) -> None:
        """A link was new. `skip`: the reason for which it was skipped at once, or ""."""
        self._discovered += 1
        if skip:
            self._skip(skip)

    def _skip(self, reason: str) -> None:
        self._finished += 1
        self._skipped += 1
        if reason == ROBOTS:
            self._blocked += 1

    def take(self) -> dict[str, Value]:
        """What was counted since the last call. Pages are always in it, else what is zero is left out."""
        answers = self._answers
        counted: dict[str, Value] = {
            Fleet.ANSWERED_2XX: answers[2],
            Fleet.ANSWERED_3XX: answers[3],
            Fleet.ANSWERED_4XX: answers[4],
            Fleet.ANSWERED_5XX: answers[5],
            Fleet.SKIPPED: self._skipped,
            Fleet.DEAD: self._dead,
            Fleet.RETRIED: self._retried,
            Fleet.DEFERRED: self._deferred,
            Fleet.ROBOTS_BLOCKED: self._blocked,
            Fleet.BYTES: self._bytes,
            Fleet.DISCOVERED: self._discovered,
        }
        taken: dict[str, Value] = {Fleet.PAGES: self._finished}
        taken.update({name: count for name, count in counted.items() if count})
        latencies = {LATENCIES[step]: count for step, count in enumerate(self._latencies) if count}
        if latencies:
            taken[Fleet.LATENCY] = Distribution.of(latencies)
        self.pages += self._finished
        self._clear()
        return taken
