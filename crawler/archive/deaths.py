"""Rows of pages that no worker ends: the queue itself gave their messages up, so the state ends them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from crawler.archive.archive import Archive
from crawler.archive.rows import ended
from crawler.archive.stores import Store, open_store, reaches
from crawler.errors import StoreUnavailable, UsageError
from crawler.model import CrawlRecord, Lease, Verdict
from crawler.url_key import keys_of


class DeathRows:
    """What one process writes: a `WriteRows` of the port. A segment a call, of a name that nobody else has.

    `store` goes before a crawl's own: the named crawl's, or every crawl's. `at_home`: this process may write to the
    state's own bucket only, as a function of a stack; what it would put into a folder would be gone.
    """

    def __init__(self, store: str = "", crawl: str | None = None, *, at_home: bool = False) -> None:
        self._store, self._crawl, self._at_home = store, crawl, at_home
        self._stores: dict[str, Store] = {}
        self._failed: dict[tuple[str, float], Archive] = {}

    async def __call__(self, crawl: CrawlRecord, home: str, endings: Sequence[tuple[Lease, Verdict]]) -> None:
        """Write the rows; they are durable when this returns. StoreError: they are not, in one line why.

        If the process dies here, a segment that is open is taken over like a worker's; a row without its end is
        harmless, as its page comes again.
        """
        store, name = self._store_of(crawl, home), (crawl.id, crawl.started_at)
        # What failed is repeated by the archive that tried: half of it may be there.
        archive = self._failed.pop(name, None) or Archive(store, crawl, f"dead-{uuid.uuid4().hex[:12]}", 0)
        try:
            for lease, verdict in endings:
                archive.row(ended(lease, verdict, keys_of(crawl.settings)))
            await archive.close()
        except BaseException:
            self._failed[name] = archive
            raise

    def _store_of(self, crawl: CrawlRecord, home: str) -> Store:
        given = self._store if self._crawl in (None, crawl.id) else ""
        address = given or crawl.store or home
        if not address:
            raise StoreUnavailable(f"crawl {crawl.id} names no store, and its rows need one: give --crawl and --store")
        if self._at_home and not reaches(home, address):
            raise StoreUnavailable(
                f"crawl {crawl.id} has its archive in {address}, out of reach from here: "
                f"run crawler dead list --crawl {crawl.id} where it is in reach"
            )
        if address not in self._stores:
            try:
                self._stores[address] = open_store(address)
            except UsageError as error:  # whoever began the crawl said so, not whoever asks here
                raise StoreUnavailable(f"crawl {crawl.id}: {error}") from None
        return self._stores[address]
