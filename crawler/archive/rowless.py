"""Pages that ended and have no row: found by comparing the merged file with the ledger, and given one from it.

A link that is skipped ends in the record the moment it is found, its row when its parent's are flushed. If the worker
dies in between, the parent comes back, its links are found again and the rows written; unless it is another page by
then, without that link, or has killed so many workers that it is not parsed any more. What no worker can make up for
is made up for here, when everything has ended: of such a page the ledger knows all that a row says.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path

from crawler import urls
from crawler.archive.archive import Archive
from crawler.archive.folder import parquet_name
from crawler.archive.merge import MergeResult, merge
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store
from crawler.model import CrawlRecord, Ending, PageState, Phase
from crawler.state.port import CrawlState
from crawler.url_key import Keys, keys_of

AT_ONCE = 100_000
"""Pages that get their rows in one go, and are held in memory meanwhile."""


async def merge_whole(state: CrawlState, store: Store, crawl: CrawlRecord) -> MergeResult:
    """`merge`; where all pages have ended and some have no row, those get theirs first. Only then the ledger is read.

    Errors: those of `merge`, UsageError when the crawl is gone, StateUnavailable. If the process dies here: repeat.
    """
    merged = await merge(store, crawl)
    counts = await state.counts(crawl.id)
    lacking = counts.exact and not counts.outstanding and merged.rows < counts.discovered
    if lacking and await _supply(state, store, crawl):
        merged = await merge(store, crawl)
    return merged


async def _supply(state: CrawlState, store: Store, crawl: CrawlRecord) -> int:
    """Write the rows of pages that are skipped or dead and not in the merged file; says of how many."""
    keys = keys_of(crawl.settings)
    async with store.existing(parquet_name(crawl)) as merged:
        if merged is None:
            return 0
        known = await asyncio.to_thread(_not_fetched, merged, keys)
        lacking: dict[bytes, PageState] = {}
        async for page in state.ledger(crawl.id):
            if page.phase in (Phase.SKIPPED, Phase.DEAD) and page.digest not in known and len(lacking) < AT_ONCE:
                lacking[page.digest] = page
        parents = await asyncio.to_thread(_parents, merged, keys, lacking)
    if lacking:
        # Nobody else has a segment of this name. A row too many does no harm: the merge keeps one a URL.
        archive = Archive(store, crawl, f"rowless-{uuid.uuid4().hex[:12]}", 0)
        for page in lacking.values():
            archive.row(_row(crawl, page, keys.key(page.url), parents.get(page.parent or b"")))
        await archive.close()
    return len(lacking)


def _not_fetched(merged: Path, keys: Keys) -> set[bytes]:
    """Digests of the pages whose row says that they are skipped or dead. Blocks."""
    from crawler.archive.schema import read_rows

    rows = read_rows(merged, ("url_key", "outcome"))
    return {keys.digest(row["url_key"]) for row in rows if row["outcome"] != Ending.DONE}


def _parents(merged: Path, keys: Keys, lacking: dict[bytes, PageState]) -> Mapping[bytes, str]:
    """URLs of the parents of pages without a row, by digest. Those that have one after all, of an answer that came
    before they ended otherwise, are taken out. Blocks."""
    from crawler.archive.schema import read_rows

    wanted = {page.parent for page in lacking.values()}
    found = {}
    for row in read_rows(merged, ("url", "url_key")):
        digest = keys.digest(row["url_key"])
        lacking.pop(digest, None)
        if digest in wanted:
            found[digest] = row["url"]
    return found


def _row(crawl: CrawlRecord, page: PageState, key: str, parent: str | None) -> PageRow:
    return PageRow(
        crawl_id=crawl.id,
        url=page.url,
        url_key=key,
        host=urls.hostname(page.url),
        depth=page.depth,
        parent_url=parent,
        discovered_at=page.discovered_at,
        outcome=page.phase,
        reason=page.reason or None,
        fetched_at=page.failures[-1].at if page.failures else page.discovered_at,
        attempts=page.attempts,
        error=page.error or None,
    )
