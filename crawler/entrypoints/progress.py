"""What a person sees while a crawl runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from crawler.entrypoints.show import approximation, line
from crawler.entrypoints.status import Status
from crawler.model import CrawlRecord

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY = 10.0
"""Seconds between two plain lines where the output is no terminal."""


class Progress:
    """Progress of one crawl on standard error. `quiet` shows only what went wrong."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live: Live | None = None
        self._last: tuple[float, int] | None = None
        self._printed = 0.0

    def begin(self, record: CrawlRecord, store: str) -> None:
        """Announce the crawl."""
        if self._quiet:
            return
        settings = record.settings
        pace = f"{settings.rate:g} requests/s per {settings.pace_by}" if settings.rate else "no rate limit"
        robots = "robots.txt ignored" if settings.ignore_robots else "robots.txt obeyed"
        self._plain(f"crawl {record.id}: {pace}, {robots}, scope {settings.scope}; output in {store}")
        if approximate := approximation(settings):
            self._plain(approximate)
        if sys.stderr.isatty():
            # Its import takes a third of a command's start: only for who sees it.
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True, highlight=False), refresh_per_second=4, transient=True)
            self._live.start()

    def show(self, status: Status) -> None:
        """The current numbers."""
        now = time.monotonic()
        before, done = self._last or (now, status.done)
        rate = (status.done - done) / (now - before) if now > before else 0.0
        if now - before >= 2 or self._last is None:
            self._last = (now, status.done)
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line(status, status.pages_per_second or rate)))
        elif not self._quiet and now - self._printed >= PLAIN_EVERY:
            self._printed = now
            self._plain(line(status, status.pages_per_second or rate))

    def say(self, text: str) -> None:
        """A line above the live one."""
        self._plain(f"crawler: {text}")

    def end(self, status: Status) -> None:
        """Last numbers; the live line goes."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not self._quiet:
            self._plain(line(status, 0.0).replace(" | 0.0/s", ""))

    def _plain(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(text, markup=False, emoji=False, soft_wrap=True)
            return
        try:
            sys.stderr.write(f"{text}\n")
        except BrokenPipeError:
            raise SystemExit(1) from None  # whoever read has gone: the live line ends in the same way
