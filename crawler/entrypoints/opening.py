"""How every entry point opens a state: so that pages which the state itself ends get their rows."""

from __future__ import annotations

from crawler.archive.deaths import DeathRows
from crawler.state.open import open_state
from crawler.state.port import CrawlState


async def open_with_rows(
    address: str,
    *,
    worker: str,
    store: str | None = None,
    crawl: str | None = None,
    create: bool = False,
    at_home: bool = False,
) -> CrawlState:
    """`open_state`; rows go to their crawl's own store, but those of `crawl` (None: of any) to a `store` that is given.
    `at_home`: none but to the state's own bucket.

    Errors: as `open_state`.
    """
    rows = DeathRows(store or "", crawl, at_home=at_home)
    return await open_state(address, worker=worker, create=create, write_rows=rows)
