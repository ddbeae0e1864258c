"""What becomes of a page whose workers died: innocent for long, and at last a dead letter."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.model import CrawlRecord
from crawler.state.sqlite import SqliteState
from crawler.visit import CRASH_DELIVERIES, PARSE_DELIVERIES
from tests import command
from tests.local_site import DemoSite

SETTINGS = CrawlSettings(rate=0.0, allow_private=True)


async def crawl_after_deaths(site: DemoSite, folder: Path, deaths: int) -> dict[str, dict[str, Any]]:
    """Crawl one host whose start page so many workers took and did not give back; the rows by canonical URL."""
    file = folder / "state.sqlite"
    state = await SqliteState.open(str(file), worker="victim", create=True)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=SETTINGS, store=str(folder)))
    page = seed_page(site.seeds[0], SETTINGS)
    assert page is not None
    await state.add("c", [page])
    for _ in range(deaths):
        assert len(await state.claim(1)) == 1
        assert await state.release("victim") == 1
    await state.close()
    assert command.run("work", "--until-complete", "--state", str(file)).returncode == 0
    assert command.run("merge", "--state", str(file)).returncode == 0
    assert command.run("verify", "--state", str(file)).returncode == 0
    return {site.canonical(row["url"]): row for row in command.rows(folder)}


async def test_a_page_that_outlived_some_workers_keeps_its_links(demo_site: DemoSite, tmp_path: Path) -> None:
    rows = await crawl_after_deaths(demo_site, tmp_path, PARSE_DELIVERIES - 1)
    assert rows[demo_site.seeds[0]]["links_new"] > 0
    done = {url for url, row in rows.items() if row["outcome"] == "done"}
    assert done == demo_site.fetched().keys()
    assert len(done) > 100


@pytest.mark.case("D02")
async def test_a_page_that_outlived_too_many_is_a_dead_letter_stored_raw(demo_site: DemoSite, tmp_path: Path) -> None:
    (row,) = (await crawl_after_deaths(demo_site, tmp_path, PARSE_DELIVERIES)).values()
    assert (row["outcome"], row["reason"], row["links_found"]) == ("dead", "crash", None)
    assert row["error"].startswith(f"{PARSE_DELIVERIES} workers")
    assert row["warc_length"] > 0
    assert demo_site.fetched() == {demo_site.seeds[0]: 1}


async def test_a_page_that_kills_whoever_stores_it_is_fetched_no_more(demo_site: DemoSite, tmp_path: Path) -> None:
    (row,) = (await crawl_after_deaths(demo_site, tmp_path, CRASH_DELIVERIES)).values()
    assert (row["outcome"], row["reason"], row["warc_file"]) == ("dead", "crash", None)
    assert demo_site.fetched() == {}
