"""The waiting room: pages in hand whose turn is near and cannot be taken yet.

To send one back for a few seconds would cost three requests. If the process dies here they come back when their
leases expire.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.state.aws.intake import Job
from crawler.state.aws.placing import LEASE

PATIENCE = 30.0
"""Seconds that a page may wait here, of a lease of LEASE; less of a shorter one."""

RESERVE = 0.3
"""Of a lease: what a page has left of it when its turn comes, at least."""

LARGEST = 500
"""Pages."""

TICK = 0.05
"""Seconds after which a gate is looked at again at the earliest."""


class Room:
    """The waiting room of one process. `lease` is the queues' own, in seconds."""

    def __init__(self, lease: int, clock: Callable[[], float]) -> None:
        self._lease, self._clock = lease, clock
        self._patience = PATIENCE * min(1.0, lease / LEASE)
        self._waiting: dict[str, tuple[Job, float]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def admit(self, job: Job, turn: float, look_at: float) -> bool:
        """Keep a page whose turn comes at `turn`, to be looked at again at `look_at`; False: it must wait elsewhere."""
        now = self._clock()
        fits = len(self._waiting) < LARGEST and turn <= now + self._patience
        if not fits or turn > job.received.expires_at - RESERVE * self._lease:
            return False
        self._waiting[job.page.pk] = job, max(look_at, now + TICK)
        return True

    def keep(self, job: Job) -> None:
        """Keep a page for the next claim."""
        self._waiting[job.page.pk] = job, 0.0

    def take(self, pk: str) -> Job | None:
        """Let a page out."""
        return self._waiting.pop(pk, (None, 0.0))[0]

    def due(self) -> list[Job]:
        """Let those out that are to be looked at. Whose lease has expired meanwhile is somebody else's."""
        now = self._clock()
        pks = [pk for pk, (_, look_at) in self._waiting.items() if look_at <= now]
        return [job for pk in pks if (job := self._waiting.pop(pk)[0]).received.expires_at > now]

    def pause(self) -> float:
        """Seconds until one is to be looked at; infinite when the room is empty."""
        soonest = min((look_at for _, look_at in self._waiting.values()), default=float("inf"))
        return max(0.0, soonest - self._clock())

    def clear(self) -> list[Job]:
        """Let all out."""
        waiting, self._waiting = self._waiting, {}
        return [job for job, _ in waiting.values()]
