"""One clock for a fleet: the server's. Workers' own clocks may be off, so times are translated on their way."""

from __future__ import annotations

import time
from collections.abc import Callable

_VALID_SECONDS = 60.0


class Clock:
    """How far the server's clock is ahead of this process's.

    An answer with the server's time in it left the server before it came, so `server - local` at its arrival is a
    lower bound of the truth, off by the answer's way. The largest bound of a minute counts: a translated time is
    never early, and late by the way of the fastest answer.
    """

    def __init__(self, given: Callable[[], float] | None = None) -> None:
        """`given` replaces both clocks: calls go by it, and nothing is translated."""
        self._given = given
        self._offset = 0.0
        self._since = float("-inf")

    def now(self) -> float | None:
        """The time a call is to go by; None for the server's."""
        return None if self._given is None else self._given()

    def learn(self, server: float) -> None:
        """An answer has come that was given at `server`."""
        if self._given is not None:
            return
        bound, now = server - time.time(), time.monotonic()
        if bound > self._offset or now > self._since + _VALID_SECONDS:
            self._offset, self._since = bound, now

    def to_server(self, local: float) -> float:
        """A time of ours in the server's; 0 ("none", "at once") stays 0."""
        return local + self._offset if local else 0.0

    def to_local(self, server: float) -> float:
        """A time of the server's in ours."""
        return server - self._offset
