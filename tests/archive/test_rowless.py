"""Pages that ended and have no row, since their worker was killed and their link never found again."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawler.archive import rowless
from crawler.archive.merge import merge
from crawler.archive.rowless import merge_whole
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.model import CrawlRecord, Phase, dead, done
from crawler.state.sqlite import SqliteState
from tests.faults.crawls import CRAWL, released, seeded, state_in
from tests.faults.victim import points, strike
from tests.manners.crawls import HTML, site
from tests.servers import reply, serve

TRAP = "/trap" * 9
"""Skipped as soon as it is found."""


async def struck_after_adding(folder: Path) -> None:
    """Crawl a page whose link to TRAP is gone when it is fetched again; the first worker is killed right after it has
    added that link."""
    fetched = count()

    def answer(target: str, head: bytes) -> bytes:
        first = target == "/" and next(fetched) % 2 == 0
        return reply(b"<a href=%s>x</a>" % TRAP.encode() if first else b"another page", HTML)

    async with serve(site(answer)) as server:
        await seeded(folder / "dry", [server.url("/")])
        assert await strike(folder / "dry", "w") == 0
        at = points(folder / "dry").index("after state.add")
        next(fetched)
        await seeded(folder, [server.url("/")])
        assert await strike(folder, "killed", "kill", at) == -signal.SIGKILL
        await released(folder, "killed")
        assert await strike(folder, "heir") == 0


async def test_a_skipped_link_that_is_not_found_again_after_a_kill_has_its_row(tmp_path: Path) -> None:
    await struck_after_adding(tmp_path)
    async with state_in(tmp_path, "reader") as state:
        (record,) = await state.crawls()
        store = open_store(str(tmp_path))
        assert (await merge(store, record)).rows == 1  # as it was left by the workers
        merged = await merge_whole(state, store, record)
        assert (merged.rows, merged.faults) == (2, ())
        report = await verify(state, store, record)
        assert report.faults == []
        (seed,) = [page.url async for page in state.ledger(CRAWL) if page.phase is Phase.DONE]
    (row,) = [row for row in pq.read_table(merged.path).to_pylist() if row["outcome"] != "done"]
    assert (row["outcome"], row["reason"], row["depth"]) == ("skipped", "trap-repeat", 1)
    assert row["url"].endswith(TRAP)
    assert row["parent_url"] == seed


async def begun(folder: Path, state: SqliteState) -> CrawlRecord:
    """A crawl of three pages of which nothing is in the archive."""
    await seeded(folder, ["http://a.example/1", "http://a.example/2", "http://a.example/3"])
    (record,) = await state.crawls()
    return record


async def test_a_dead_page_without_a_row_gets_one_with_its_last_error(tmp_path: Path) -> None:
    async with state_in(tmp_path, "w") as state:
        record = await begun(tmp_path, state)
        for lease in await state.claim(10):
            await state.settle([(lease, dead("dns", "no such host"))])
        merged = await merge_whole(state, open_store(str(tmp_path)), record)
        rows: list[dict[str, Any]] = pq.read_table(merged.path).to_pylist()
        assert {(row["outcome"], row["reason"], row["error"], row["attempts"]) for row in rows} == {
            ("dead", "dns", "no such host", 1)
        }
        assert (await verify(state, open_store(str(tmp_path)), record)).faults == []


async def test_many_are_made_up_for_in_several_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rowless, "AT_ONCE", 1)
    async with state_in(tmp_path, "w") as state:
        record = await begun(tmp_path, state)
        await state.settle([(lease, dead("dns", "no such host")) for lease in await state.claim(10)])
        rows = [(await merge_whole(state, open_store(str(tmp_path)), record)).rows for _ in range(4)]
    assert rows == [1, 2, 3, 3]


async def test_while_pages_are_left_nothing_is_made_up_for(tmp_path: Path) -> None:
    async with state_in(tmp_path, "w") as state:
        record = await begun(tmp_path, state)
        (lease, *_) = await state.claim(10)
        await state.settle([(lease, dead("dns", "no such host"))])
        assert (await merge_whole(state, open_store(str(tmp_path)), record)).rows == 0


async def test_a_page_said_to_be_done_is_made_up_for_by_nobody(tmp_path: Path) -> None:
    async with state_in(tmp_path, "w") as state:
        record = await begun(tmp_path, state)
        await state.settle([(lease, done(1)) for lease in await state.claim(10)])
        assert (await merge_whole(state, open_store(str(tmp_path)), record)).rows == 0
        assert len((await verify(state, open_store(str(tmp_path)), record)).faults) > 0
