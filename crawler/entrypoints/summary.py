"""The summary at the end of a local crawl."""

from __future__ import annotations

import msgspec

from crawler.archive.folder import crawl_folder
from crawler.entrypoints.commands import json_line, opened
from crawler.entrypoints.crawl import Outcome
from crawler.entrypoints.show import reasons, size
from crawler.entrypoints.status import status_of


async def summary(address: str, outcome: Outcome, *, as_json: bool) -> str:
    """What was crawled, what was not, and where it lies."""
    async with opened(address) as state:
        status = await status_of(state, outcome.record)
    if as_json:
        more = {"store": outcome.store, "parquet": outcome.parquet, "unchanged": outcome.unchanged}
        return json_line(msgspec.structs.asdict(status) | more)
    folder = f"{outcome.store.rstrip('/')}/{crawl_folder(outcome.record)}"
    lines = [
        f"crawl {status.crawl} {'stopped; the same command resumes it' if outcome.stopped else 'complete'}",
        f"  {status.done:,} pages done, {status.skipped:,} skipped{reasons(status.skips)}, "
        f"{status.dead:,} dead{reasons(status.deaths)}"
        + (f", {status.pending:,} still to do" if outcome.stopped else "")
        + f"; {status.hosts:,} hosts, {size(status.bytes)} archived",
        f"  WARC     {folder}/warc/",
        f"  rows     {folder}/pages/",
    ]
    if outcome.record.settings.from_crawl and not outcome.stopped:
        lines.insert(
            2, f"  {outcome.unchanged:,} of the pages done unchanged since {outcome.record.settings.from_crawl}"
        )
    if outcome.parquet:
        lines.append(f"  Parquet  {outcome.parquet}")
    lines.append(f"  state    {address}")
    if status.dead:
        lines.append(f"  why dead: crawler dead list --state {address}")
    return "\n".join(lines)
