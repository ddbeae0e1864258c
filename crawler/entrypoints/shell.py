"""What every command of the command line does around its work: find its state, run, log as -v and -q say."""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from crawler.telemetry.log_lines import Discreet, Sparing, discreet

T = TypeVar("T")

STOPPED = 130
"""Exit code of what was stopped and can be resumed."""


def need_state(given: dict[str, Any]) -> str:
    """The state a command works on: the one given, else that of the only crawl in this folder."""
    from crawler.entrypoints.places import default_state

    return given["state"] or default_state()


def run(work: Coroutine[Any, Any, T], given: dict[str, Any]) -> T:
    """Run a command's coroutine with logging set up as -v and -q say."""
    sparing = Sparing()
    try:
        _log(sparing, given)
        return asyncio.run(work)
    finally:
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
            work.close()  # an interrupt kept it from beginning, and Python would complain of that
        for line in sparing.rest():
            sys.stderr.write(f"crawler: {discreet(line)}\n")


def _log(sparing: Sparing, given: dict[str, Any]) -> None:
    level = (
        logging.ERROR if given["quiet"] else [logging.WARNING, logging.INFO, logging.DEBUG][min(given["verbose"], 2)]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Discreet("crawler: %(message)s"))
    if level > logging.DEBUG:
        handler.addFilter(sparing)
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for noisy in ("botocore", "aiobotocore", "asyncio"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
