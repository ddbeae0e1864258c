"""The metrics of a look: how crawls stand, by stack and by crawl, and what the janitor watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from crawler.janitor.running import Standing
from crawler.telemetry import emf
from crawler.telemetry.names import Ledger, Watch

if TYPE_CHECKING:
    from crawler.janitor.look import Found


def metrics(stack: str, standings: Sequence[Standing], found: Found, now: float) -> Iterator[bytes]:
    """A line for each crawl that is not complete, or only just, and one for the stack. Without any crawl there is none
    unless something is to be told: CloudWatch bills a metric by the hours in which it is written."""
    if not standings and not (found.workers_lost or found.swept):
        return
    sums = Counter[str](dict.fromkeys(Ledger, 0))
    for standing in standings:
        values = _ledger(standing)
        sums.update(values)
        yield emf.line(stack, values, at=now, crawl=standing.record.id)
    watched: dict[str, int] = {
        Watch.CRAWLS_RUNNING: len(found.running),
        Watch.STALLED: int(bool(found.stalled)),
        Watch.WORKERS_LOST: found.workers_lost,
        Watch.SWEPT: found.swept,
        Watch.CRAWLS_COMPLETED: 0,
    }
    yield emf.line(stack, {**sums, **watched}, at=now)


def one_completed(stack: str, now: float) -> bytes:
    """The line for a crawl that was closed: behind its event."""
    return emf.line(stack, {Watch.CRAWLS_COMPLETED: 1}, at=now)


def _ledger(standing: Standing) -> dict[str, int]:
    """Pending are all that have not ended: those in a worker's hands, and those that only the records know."""
    counts = standing.counts
    ended = counts.done + counts.skipped + counts.dead
    return {
        Ledger.PENDING: 0 if standing.complete else max(counts.outstanding, counts.discovered - ended),
        Ledger.DONE: counts.done,
        Ledger.SKIPPED: counts.skipped,
        Ledger.DEAD: counts.dead,
        Ledger.PROGRESS: standing.progress,
    }
