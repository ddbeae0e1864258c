"""Dropping a crawl's output: all of it, and nothing of a crawl whose name begins alike."""

from __future__ import annotations

import msgspec
import pytest

from crawler.archive.archive import Archive
from crawler.archive.folder import PAGES, crawl_folder, parquet_name, validators_name
from crawler.archive.merge import merge
from crawler.archive.stores import Store
from tests.archive.making import crawl, response, row


@pytest.mark.parametrize("other", ["c1.2", "c10"])
async def test_a_crawl_is_dropped_and_one_with_a_name_like_it_stays(store: Store, other: str) -> None:
    records = [crawl(), msgspec.structs.replace(crawl(), id=other)]
    for record in records:
        archive = await Archive.open(store, record, "w")
        archive.row(row(1, archive.record(response(1))))
        await archive.close()
        await merge(store, record)
        async with store.replace(validators_name(record)) as path:
            path.write_bytes(b"x")
    for _ in range(2):
        await store.drop(crawl_folder(records[0]))
    for record, there in zip(records, (False, True), strict=True):
        assert bool(await store.files(crawl_folder(record), PAGES)) is there
        for name in (parquet_name(record), validators_name(record)):
            async with store.existing(name) as found:
                assert (found is not None) is there
