"""A recurring crawl as a Lambda function: begins a crawl of the URLs that an object lists. A schedule calls it.

CRAWLER_STATE names the state, CRAWLER_SEEDS_KEY an object in its bucket with a URL a line; empty lines and those that
begin with `#` are passed over. Beside it may lie `<key>.settings.json`: an object of crawl settings, by their names.

A crawl is named after the time for which it was scheduled. So a call that is repeated or made twice goes on with the
same crawl, and adds only what was not added; one whose time is too short for the list fails, and the call by which
Lambda repeats it begins at the line where that one ended. Whether the crawl before has ended does not matter: each page
has a turn of its own at its host's gate, so two crawls share the host's pace.
"""

from __future__ import annotations

import logging
import math
import os
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from crawler.archive.stores import Store, open_store
from crawler.config import CrawlSettings, crawl_settings
from crawler.discover import seed_page
from crawler.entrypoints.functions import call
from crawler.entrypoints.seeds import add_seeds, bare, new_name
from crawler.errors import CrawlerError, UsageError
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

SETTINGS = ".settings.json"


RESERVE = 20.0
"""Seconds of a call in which no further line is read: what was read is added, and where to go on is noted."""

REMEMBERED = 24 * 3600.0
"""Seconds for which that is known. Lambda repeats a call within minutes."""


class Unfinished(CrawlerError):
    """The list is longer than a call has time. Some of it was added, and the next call goes on behind that."""


class Context(Protocol):
    """What Lambda tells of a call."""

    def get_remaining_time_in_millis(self) -> int: ...


def handler(event: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The crawl's name, and how many URLs were new, known already, and none. Raises when no crawl could begin, or not
    with all of the list."""
    until = time.time() + context.get_remaining_time_in_millis() / 1000 - RESERVE
    try:
        return call(partial(begin, key=os.environ.get("CRAWLER_SEEDS_KEY", ""), at=_time(event), until=until))
    except Unfinished as error:
        log.error("%s", error)
        raise
    except CrawlerError as error:
        log.error("no crawl began: %s", error)
        raise


def _time(event: Mapping[str, Any]) -> float:
    """The time for which the event was scheduled: the same however often it is delivered."""
    try:
        return datetime.fromisoformat(event["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        raise UsageError("the event has no time: this function is for EventBridge's scheduled events") from None


async def begin(
    state: CrawlState,
    _address: str,
    key: str,
    at: float,
    until: float = math.inf,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Begin the crawl of a time, or go on to, until then (Unix seconds). If the process dies here: the same call again.

    Errors: CrawlerError; Unfinished when the call should be repeated.
    """
    store = open_store(state.home)
    settings = await _settings(store, key + SETTINGS)
    async with store.existing(key) as seeds:
        if seeds is None:
            raise UsageError(f"there is no {key} in {state.home}: it is to list the URLs, one a line")
        if not any(seed_page(line, settings) for line in _lines(seeds)):
            raise UsageError(f"{key} in {state.home} lists no URL that can be crawled")
        record = await state.create(CrawlRecord(id=new_name(at), started_at=at, settings=settings))
        progress = f"seeds of {record.id}"
        (noted,) = await state.recall([progress])
        lines = _Part(_lines(seeds), int(noted or 0), lambda: clock() >= until)
        seeded = await add_seeds(state, record, lines, log.warning)
    if lines.cut:
        await state.remember(progress, b"%d" % lines.read, REMEMBERED)
        raise Unfinished(f"crawl {record.id} has the first {lines.read:,} URLs of {key}: a call has no time for more")
    return {"crawl": record.id, **msgspec.structs.asdict(seeded)}


class _Part:
    """Lines from one on, until the time is over; then how many were `read` so far, and that it is `cut` there."""

    def __init__(self, lines: Iterator[str], first: int, over: Callable[[], bool]) -> None:
        self._lines, self._first, self._over = lines, first, over
        self.read, self.cut = 0, False

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if self.read >= self._first:
                if self._over():
                    self.cut = True
                    return
                yield line
            self.read += 1


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (text := bare(line)) and not text.startswith("#"):
                yield text


async def _settings(store: Store, name: str) -> CrawlSettings:
    """Settings from a file; the defaults without one."""
    async with store.existing(name) as path:
        if path is None:
            return crawl_settings({})
        try:
            given = msgspec.json.decode(path.read_bytes().removeprefix(BOM_UTF8), type=dict[str, Any])
            if unknown := sorted(given.keys() - set(CrawlSettings.__struct_fields__)):
                raise UsageError(f"there is no setting {unknown[0]!r}")
            settings = crawl_settings(given)
        except (msgspec.DecodeError, UsageError) as error:
            raise UsageError(f"{name}: {error}") from None
        except (AttributeError, TypeError):  # who types options cannot get them wrong like that
            raise UsageError(f"{name}: a setting is of the wrong type") from None
    if settings.from_crawl:
        raise UsageError(f"{name}: from_crawl: a scheduled crawl revisits no other; begin such a one by hand")
    return settings
