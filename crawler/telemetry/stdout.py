"""Lines to standard output that hold nobody up: a reader that is slow, or gone, costs lines and never a page."""

from __future__ import annotations

import os
import select
import sys
import threading
from queue import Full, Queue

WAITING = 100
"""Lines that may wait for a slow reader; more are dropped."""

CLOSING = 1.0
"""Seconds that what still waits gets at the end."""


class Lines:
    """Standard output, written by a thread of its own: a full pipe blocks that and not the event loop.

    The thread is a daemon, so that a blocked one does not keep the process from ending. Lines of less than 4 kB come
    whole even where others write to the same pipe (PIPE_BUF).
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._queue: Queue[bytes | None] = Queue(WAITING)
        self._thread: threading.Thread | None = None
        try:
            # Without a standard output there is none, and its number may be that of any file.
            self._file = os.dup(sys.stdout.fileno())
        except (AttributeError, ValueError, OSError):
            return
        self._thread = threading.Thread(target=self._run, name="standard output", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Write a line, given without its end; or drop it, and count that."""
        if self._thread is None or not self._thread.is_alive():
            self.dropped += 1
            return
        try:
            self._queue.put_nowait(line + b"\n")
        except Full:
            self.dropped += 1

    def close(self) -> None:
        """Wait until all is written, a second at most. Blocks: call it in a thread."""
        if self._thread is not None and self._thread.is_alive():
            try:
                self._queue.put(None, timeout=CLOSING)
            except Full:
                return
            self._thread.join(CLOSING)

    def _run(self) -> None:
        try:
            while (line := self._queue.get()) is not None:
                _write(self._file, line)
        except OSError:
            pass  # the reader has gone: there is nobody to tell
        finally:
            os.close(self._file)


def _write(file: int, line: bytes) -> None:
    while line:
        try:
            line = line[os.write(file, line) :]
        except BlockingIOError:  # whoever shares the pipe with us has made it non-blocking
            select.select([], [file], [])
