"""Where the command begins, as `crawler` and as `python -m crawler`: before anything that takes time is imported."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> None:
    """Run the command line. A signal that comes while it is being imported ends the process as any later one does."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from crawler.entrypoints.cli import main as command

    command()


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the form of a handler
    """Nothing was begun: stopped, and resumable."""
    os._exit(130)


if __name__ == "__main__":
    main()
