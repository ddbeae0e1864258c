"""However a page ends, it has a row that says so, and the ledger agrees."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawler.archive.merge import merge
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.loop import Worker
from crawler.model import HOST_DOWN, CrawlRecord, Health
from crawler.state.sqlite import SqliteState
from crawler.urls import gate_name
from tests.broken_site import broken_site

LONG = "/long?" + "x" * 9_000
TRAP = "/trap" * 9
LINKS = ("/a", "/b", "/bad", "/gone", "/private/x", TRAP, LONG, "http://gone.localhost:9/")

PAGES = {
    "/": "".join(f'<a href="{link}">x</a>' for link in LINKS),
    "/a": "<a href=/deep>x</a>",
    "/b": "<title>b</title>",
    "/deep": "<title>deep</title>",
    "/robots.txt": "User-agent: *\nDisallow: /private/",
}


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        ({}, {"robots", "trap-repeat", "url-too-long", "http-500"}),
        ({"max_depth": 1}, {"max-depth", "robots"}),
        ({"max_pages": 2}, {"max-pages"}),
        ({"max_pages_per_host": 2}, {"max-pages-per-host"}),
        ({"max_time": 0.001}, {"max-time"}),
        ({"scope": "any"}, {"connect"}),
        ({"scope": "any", "max_depth": 3}, {HOST_DOWN}),
    ],
    ids=["found", "deep", "limit", "host limit", "time", "failed", "host down"],
)
async def test_every_page_that_ended_has_a_row(tmp_path: Path, given: dict[str, Any], reasons: set[str]) -> None:
    settings = CrawlSettings(rate=0.0, allow_private=True, max_attempts=1, **given)
    state = await SqliteState.open(str(tmp_path / "state.sqlite"), worker="w", create=True)
    with broken_site(PAGES, "/bad") as site:
        seed = seed_page(site.url(), settings)
        assert seed is not None
        record = CrawlRecord(id="c", started_at=time.time(), settings=settings, store=str(tmp_path))
        await state.create(record)
        await state.add("c", [seed])
        if HOST_DOWN in reasons:
            down = Health(error="refused", down_until=time.time() + 3600)
            await state.diagnose(gate_name("gone.localhost", settings.pace_by), down)
        await Worker(state, "", name="w", until_complete=True).run()
    store = open_store(str(tmp_path))
    merged = await merge(store, record)
    report = await verify(state, store, record)
    ledger = {page.url: (page.phase.value, page.reason) async for page in state.ledger("c")}
    await state.close()
    assert report.faults == []
    found: dict[str, tuple[str, str]] = {}
    for row in pq.read_table(merged.path).to_pylist():
        found[row["url"]] = row["outcome"], row["reason"] or ""
    assert found == ledger
    outcomes = defaultdict(set)
    for outcome, reason in found.values():
        outcomes[outcome].add(reason)
    assert reasons <= outcomes["skipped"] | outcomes["dead"]
