"""What a fetcher tells of itself, as lines of JSON: that it begins, what it did each minute, and that it ends.

The lines of the minutes carry the fleet's metrics. A worker writes them by `reported`; a function makes one a call,
with `Report.minute`.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec

from crawler import __version__
from crawler.cost.prices import dollars
from crawler.cost.usage import PROCESS, Unit, Usage
from crawler.state.open import stack_of
from crawler.telemetry import emf
from crawler.telemetry.names import Fleet
from crawler.telemetry.stdout import Lines

if TYPE_CHECKING:
    from crawler.loop import Exit, Worker

MINUTE = 60.0

PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
MEBIBYTE = 1 << 20


class Report:
    """What one fetcher has done, told in parts: each part is what was counted since the one before.

    `address` is that of its state. A stack's name is the metrics' dimension, else the kind of state.
    What the process had used of AWS `before` is not told; what it uses to close its state after the last part neither.
    """

    def __init__(self, worker: Worker, address: str, name: str, before: Usage | None = None) -> None:
        self._worker, self._name = worker, name
        self._backend, self._stack = _place(address)
        self._begun = self._since = time.time()
        self._used = before or Usage()

    def started(self) -> bytes:
        """The line that says that a fetcher begins to work."""
        return self._line("started", version=__version__, backend=self._backend)

    def minute(self, at: float, **more: Any) -> bytes:
        """The line of metrics for the minute that began at `at` (Unix seconds), with `more` fields."""
        used = PROCESS.used()
        spent, self._used = used - self._used, used
        requests = dict(spent.requests)
        told: dict[str, emf.Value] = {Fleet.WORKERS: 1, **self._worker.counters.take()}
        rest: dict[str, int | float] = {
            Fleet.HOSTS_HELD: self._worker.hosts_held(self._since),
            Fleet.IN_FLIGHT: self._worker.in_flight,
            Fleet.AWS_REQUESTS: sum(requests.values()),
            Fleet.THROTTLES: spent.units.get(Unit.THROTTLED, 0),
            Fleet.DOLLARS: float(f"{sum(dollars(spent).values()):.6g}"),
            Fleet.MEMORY: _resident(),
        }
        told.update({metric: value for metric, value in rest.items() if value})
        self._since = time.time()
        fields = {"event": "minute", "worker": self._name, "version": __version__, **more}
        if requests:
            fields["requests"] = requests
        return emf.line(self._stack, told, at=at, **fields)

    def stopped(self, why: str) -> bytes:
        """The line that says that a fetcher ends, and why; `minute` comes before it, so that no page is left out."""
        seconds = round(time.time() - self._begun, 1)
        return self._line("stopped", why=why, pages=self._worker.counters.pages, seconds=seconds)

    def _line(self, event: str, **more: Any) -> bytes:
        return msgspec.json.encode({"event": event, "Stack": self._stack, "worker": self._name, **more})


async def reported(worker: Worker, report: Report, lines: Lines, minute: float = MINUTE) -> Exit:
    """Run a worker to its end, and tell of it on standard output, each `minute` (seconds) and at both ends."""
    lines.put(report.started())
    telling = asyncio.create_task(_tell(report, lines, minute))
    why = "failed"
    try:
        outcome = await worker.run()
        why = outcome.value
        return outcome
    except Exception as error:
        why = type(error).__name__
        raise
    finally:
        telling.cancel()
        lines.put(report.minute(_began(time.time(), minute), dropped=lines.dropped))
        lines.put(report.stopped(why))
        await asyncio.to_thread(lines.close)


async def _tell(report: Report, lines: Lines, minute: float) -> None:
    """A line at the end of each minute of the clock, for that minute; so in each there is one of each process, and
    their number is that of the fetchers."""
    while True:
        began = _began(time.time(), minute)
        # A little later than the minute ends: timers may be early.
        await asyncio.sleep(began + minute + 0.1 - time.time())
        lines.put(report.minute(began, dropped=lines.dropped))


def _place(address: str) -> tuple[str, str]:
    """Which backend a state's address means, and the name under which its fleet's metrics are."""
    scheme, separator, _ = address.partition(":")
    backend = scheme if separator and scheme in ("aws", "redis", "rediss") else "sqlite"
    return backend, stack_of(address) or backend


def _began(now: float, minute: float) -> float:
    return now - now % minute


def _resident() -> int:
    """MiB of memory in use; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_SIZE // MEBIBYTE
    except (OSError, ValueError, IndexError):
        return 0
