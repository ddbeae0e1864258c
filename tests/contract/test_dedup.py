"""What every state owes to a crawl that wants an approximate visited set: to have one, or to say so."""

from __future__ import annotations

import pytest

from crawler.config import CrawlSettings
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from tests.contract.backends import Backend
from tests.contract.words import CRAWL, new_crawl


async def test_a_filter_that_the_state_has_not_is_refused_and_nothing_written(backend: Backend) -> None:
    state = await backend.open()
    wanted = CrawlRecord(id=CRAWL, started_at=backend.now(), settings=CrawlSettings(dedup="bloom"))
    refusal = ""
    try:
        await state.create(wanted)
    except UsageError as error:
        refusal = str(error)
    if refusal:
        assert "--dedup bloom" in refusal
        assert "\n" not in refusal
    assert [record.settings.dedup for record in await state.crawls()] == ([] if refusal else ["bloom"])


async def test_the_visited_set_of_a_crawl_never_changes_its_form(backend: Backend) -> None:
    state = await backend.open()
    await new_crawl(state, backend)
    with pytest.raises(UsageError, match="--dedup"):
        await state.amend(CRAWL, CrawlSettings(dedup="bloom", rate=9.0))
    (record,) = await state.crawls()
    assert (record.settings.dedup, record.settings.rate, record.amended_at) == ("exact", 0.0, 0.0)
