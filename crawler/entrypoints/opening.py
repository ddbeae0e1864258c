"""How every entry point opens a state: so that pages which the state itself ends get their rows."""

from __future__ import annotations

from crawler.archive.deaths import DeathRows
from crawler.state.open import open_state
from crawler.state.port import CrawlState


async def open_with_rows(
    address: str, *, worker: str, store: str | None = None, create: bool = False, at_home: bool = False
) -> CrawlState:
    """`open_state`; the rows go to `store`, else to the crawl's own; `at_home`: or nowhere, if that is not the state's.

    Errors: as `open_state`.
    """
    rows = DeathRows(store or "", at_home=at_home)
    return await open_state(address, worker=worker, create=create, write_rows=rows)
