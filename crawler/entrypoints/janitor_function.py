"""The janitor as a Lambda function: one look a call. A schedule calls it every few minutes.

CRAWLER_STATE names the state; CRAWLER_CLUSTER and CRAWLER_SERVICE the ECS service to stop when there is nothing to
fetch, where there is one.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any, Protocol

import msgspec

from crawler.entrypoints.functions import call
from crawler.errors import CrawlerError
from crawler.janitor import aws
from crawler.janitor.look import Found, Janitor
from crawler.state.port import CrawlState


class Context(Protocol):
    """What Lambda tells of a call."""

    def get_remaining_time_in_millis(self) -> int: ...


def handler(_event: object, context: Context) -> dict[str, Any]:
    """What the look found and did. Raises when something failed: everything else was done, and the next call repeats
    it."""
    until = time.time() + context.get_remaining_time_in_millis() / 1000
    found = call(partial(_look, until=until))
    if found.faults:
        raise CrawlerError("; ".join(found.faults))
    return msgspec.structs.asdict(found)


async def _look(state: CrawlState, address: str, until: float) -> Found:
    cluster, service = os.environ.get("CRAWLER_CLUSTER"), os.environ.get("CRAWLER_SERVICE")
    stop = partial(aws.stop, cluster, service) if cluster and service else None
    janitor = Janitor(state, address, announce=aws.announce, stop_workers=stop, emit=_emit)
    return await janitor.look(until)


def _emit(line: bytes) -> None:
    sys.stdout.write(f"{line.decode()}\n")
    sys.stdout.flush()
