"""Fixtures of the functions' tests: queues as a stack with functions has them, and a crawl on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from crawler.config import CrawlSettings, crawl_settings
from crawler.discover import seed_page
from crawler.entrypoints.fetcher_function import Fetcher
from crawler.model import CrawlRecord
from crawler.state.aws.state import AwsState
from tests.aws.places import Place
from tests.aws.proxy import Proxy
from tests.emulator import Emulator

VISIBILITY = 365
"""Seconds: six times a timeout of sixty, and a batching window."""

Seed = Callable[..., Awaitable[AwsState]]


@pytest.fixture
def place(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Empty queues, tables and a bucket; the environment is that of a function of them."""
    place = Place(emulator, lease=VISIBILITY)
    emulator.client("s3").create_bucket(Bucket="shelf")
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CRAWLER_STATE", f"aws:{place.address}")
    monkeypatch.setenv("CRAWLER_METRICS", "emf")
    yield place
    place.remove()


@pytest.fixture
async def seed(place: Place) -> AsyncIterator[Seed]:
    """Begins crawl `c` of some URLs, without a rate unless told otherwise; answers a state to look at it."""
    opened: list[AwsState] = []

    async def seed(*seeds: str, **settings: object) -> AwsState:
        state = await AwsState.open(place.address, worker="seeder")
        opened.append(state)
        wanted: CrawlSettings = crawl_settings({"rate": 0.0, "allow_private": True, **settings})
        await state.create(CrawlRecord(id="c", started_at=1.0, settings=wanted))
        await state.add("c", [page for url in seeds if (page := seed_page(url, wanted)) is not None])
        return state

    yield seed
    for state in opened:
        await state.close()


@pytest.fixture
async def fetcher(place: Place) -> AsyncIterator[Fetcher]:
    """A function's process, without the process."""
    fetcher = Fetcher()
    yield fetcher
    await fetcher.close()


@pytest.fixture
def proxy(proxy: Proxy, place: Place, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A proxy that the function goes through."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    return proxy
