"""A recurring crawl as a Lambda function: begins a crawl of the URLs that an object lists. A schedule calls it.

CRAWLER_STATE names the state, CRAWLER_SEEDS_KEY an object in its bucket with a URL a line; empty lines and those that
begin with `#` are passed over. Beside it may lie `<key>.settings.json`: an object of crawl settings, by their names.

A crawl is named after the time for which it was scheduled. So a call that is repeated or made twice goes on with the
same crawl, and adds only what was not added. Whether the crawl before has ended does not matter: each page has a turn
of its own at its host's gate, so two crawls share the host's pace.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from crawler.archive.stores import Store, open_store
from crawler.config import CrawlSettings, crawl_settings
from crawler.discover import seed_page
from crawler.entrypoints.functions import call
from crawler.entrypoints.seeds import add_seeds, new_name
from crawler.errors import CrawlerError, UsageError
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

log = logging.getLogger(__name__)

SETTINGS = ".settings.json"


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The crawl's name, and how many URLs were new, known already, and none. Raises when no crawl could begin."""
    try:
        return call(partial(begin, key=os.environ.get("CRAWLER_SEEDS_KEY", ""), at=_time(event)))
    except CrawlerError as error:
        log.error("no crawl began: %s", error)
        raise


def _time(event: Mapping[str, Any]) -> float:
    """The time for which the event was scheduled: the same however often it is delivered."""
    try:
        return datetime.fromisoformat(event["time"]).timestamp()
    except (KeyError, TypeError, ValueError):
        raise UsageError("the event has no time: this function is for EventBridge's scheduled events") from None


async def begin(state: CrawlState, _address: str, key: str, at: float) -> dict[str, Any]:
    """Begin the crawl of a time, or go on to. If the process dies here: the same call again."""
    store = open_store(state.home)
    settings = await _settings(store, key + SETTINGS)
    async with store.existing(key) as seeds:
        if seeds is None:
            raise UsageError(f"there is no {key} in {state.home}: it is to list the URLs, one a line")
        if not any(seed_page(line, settings) for line in _lines(seeds)):
            raise UsageError(f"{key} in {state.home} lists no URL that can be crawled")
        record = await state.create(CrawlRecord(id=new_name(at), started_at=at, settings=settings))
        seeded = await add_seeds(state, record, _lines(seeds), log.warning)
    return {"crawl": record.id, **msgspec.structs.asdict(seeded)}


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (text := line.strip()) and not text.startswith("#"):
                yield text


async def _settings(store: Store, name: str) -> CrawlSettings:
    """Settings from a file; the defaults without one."""
    async with store.existing(name) as path:
        if path is None:
            return crawl_settings({})
        try:
            given = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
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
