"""Where things are when the user does not say: the state, its crawl, the archive's store."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from crawler import urls
from crawler.errors import StateMissing, UsageError
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState

STATE_FILE = "state.sqlite"


def default_state() -> str:
    """The state of the only crawl folder here: ./state.sqlite, or the one ./crawl-*/state.sqlite."""
    found = [path for path in (Path(STATE_FILE), *sorted(Path().glob(f"crawl-*/{STATE_FILE}"))) if path.is_file()]
    if len(found) == 1:
        return str(found[0])
    if not found:
        raise StateMissing("there is no crawl in this folder: give --state FILE, or start one with `crawler crawl URL`")
    names = ", ".join(str(path) for path in found[:4])
    raise UsageError(f"there are several crawls in this folder ({names}): say which with --state FILE")


def store_address(given: str | None, record: CrawlRecord | None, state: CrawlState) -> str:
    """The store a command means: the one given, else the one the crawl was started with, else the state's own.

    Raises UsageError when there is none.
    """
    address = given or (record.store if record else "") or state.home
    if not address:
        raise UsageError("say where the archive goes: --store DIR or --store s3://bucket/prefix")
    return address


async def pick_crawl(state: CrawlState, crawl: str | None) -> CrawlRecord:
    """The crawl a command means: the one named, else the only one, else the latest. Raises UsageError."""
    records = await state.crawls()
    if crawl is not None:
        for record in records:
            if record.id == crawl:
                return record
        known = ", ".join(record.id for record in records[-4:]) or "none"
        raise UsageError(f"there is no crawl {crawl!r} on this state (it has: {known})")
    if not records:
        raise UsageError("there is no crawl on this state yet: start one with `crawler crawl` or `crawler seed`")
    return records[-1]


def crawl_folder(given: str | None, seeds: Sequence[str]) -> Path:
    """The folder of a local crawl, made if absent: the one given, else ./crawl-<host of the first seed>.

    Raises UsageError when it cannot be written; then nothing was changed.
    """
    if given is None:
        host = next((urls.hostname(wire) for seed in seeds if (wire := urls.resolve(seed, seed))), None)
        if host is None:
            raise UsageError("give at least one URL to start from, for example https://example.com/, or --out DIR")
        given = f"crawl-{host}"
    folder = Path(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}; choose another with --out") from None
    return folder
