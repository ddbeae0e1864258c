"""Fixtures of the AWS backend's tests: an address in the emulator, and states opened on it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import pytest

from crawler.config import CrawlSettings, crawl_settings
from crawler.model import CrawlRecord, Lease, Verdict
from crawler.state.aws import client, dead_letters, feeding, lanes, placing
from crawler.state.aws.state import AwsState
from crawler.state.port import WriteRows
from tests.aws.places import Place
from tests.aws.proxy import Proxy
from tests.emulator import Emulator

Open = Callable[..., Awaitable[AwsState]]


@pytest.fixture
def place(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Empty queues and tables; the environment leads the client there."""
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    place = Place(emulator)
    yield place
    place.remove()


async def unwritten(_crawl: CrawlRecord, _home: str, _endings: Sequence[tuple[Lease, Verdict]]) -> None:
    """No rows, where the ledger alone is looked at."""


@pytest.fixture
async def opening(place: Place) -> AsyncIterator[Open]:
    """Opens states on the place, with a crawl named `c` of rate 0 unless told otherwise; closes them all."""
    opened: list[AwsState] = []

    async def open_(
        worker: str = "w",
        clock: Callable[[], float] = time.time,
        write_rows: WriteRows | None = unwritten,
        **settings: object,
    ) -> AwsState:
        state = await AwsState.open(place.address, worker=worker, clock=clock, write_rows=write_rows)
        opened.append(state)
        wanted: CrawlSettings = crawl_settings({"rate": 0.0, **settings})
        await state.create(CrawlRecord(id="c", started_at=clock(), settings=wanted))
        return state

    yield open_
    for state in opened:
        await state.close()


@pytest.fixture
async def state(opening: Open) -> AwsState:
    return await opening()


@pytest.fixture
def proxy(proxy: Proxy, place: Place, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """A proxy that states opened in this test go through."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    return proxy


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries once, batches are repeated a few times, and an empty queue is believed at once."""
    retries = {"mode": "standard", "total_max_attempts": 1}
    monkeypatch.setattr(client, "TIMES", {**client.TIMES, "read_timeout": 2, "retries": retries})
    monkeypatch.setattr(client, "ROUNDS", 3)
    monkeypatch.setattr(lanes, "POLL", 0)
    monkeypatch.setattr(lanes, "LONG_POLL", 0)
    monkeypatch.setattr(dead_letters, "WAIT", 0)


@pytest.fixture
def retrying(impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries twice."""
    retries = {"mode": "standard", "total_max_attempts": 2}
    monkeypatch.setattr(client, "TIMES", {**client.TIMES, "retries": retries})


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times so short that a tenth of a second of turns is far: a page in ten is on the queue, ten are a chunk."""
    monkeypatch.setattr(placing, "SOON", 0.0)
    monkeypatch.setattr(placing, "FAR", 0.1)
    monkeypatch.setattr(placing, "WINDOW", 0.1)
    monkeypatch.setattr(placing, "LOW", 0.0)
    monkeypatch.setattr(feeding, "WINDOW", 0.1)
    monkeypatch.setattr(feeding, "GRACE", 0.5)
    monkeypatch.setattr(feeding, "AGAIN", 0.0)
    monkeypatch.setattr(feeding, "NOTED", 0.0)
    monkeypatch.setattr(placing, "NOTED", 0.0)
