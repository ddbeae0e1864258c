"""A crawl's cookies, shared by workers with handles of their own on one state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from crawler import sessions
from crawler.config import CrawlSettings
from crawler.cookies import MOST_BYTES, MOST_COOKIES, Cookie, Jar
from crawler.errors import StateUnavailable
from crawler.model import CrawlRecord
from crawler.sessions import FRESH, LIFE, MARKER, Sessions
from crawler.state.port import CrawlState
from tests.contract.backends import ROWS, Backend
from tests.test_cookies import answer

PAGE = "https://www.example.com/"
API = "https://api.example.com/x"
RECORD = CrawlRecord(id="crawl-1", started_at=1_800_000_000.25, settings=CrawlSettings(sessions=True))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "POLL", 0.002)


@pytest.fixture(params=["sqlite-file", "redis"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    (row,) = (row for row in ROWS if row.name == request.param)
    made = await row.make(tmp_path)
    yield made
    await made.close()


class Watched:
    """The facts of a state: counts the calls, keeps what was written, and fails when told to."""

    def __init__(self, state: CrawlState) -> None:
        self._state = state
        self.reads = self.writes = 0
        self.facts: dict[str, tuple[bytes, float]] = {}
        self.down = False
        self._looked = asyncio.Semaphore(0)

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        self.reads += 1
        self._looked.release()
        return await self._state.recall(names)

    async def looks(self, number: int) -> None:
        """Wait until it was asked so many times more."""
        self._looked = asyncio.Semaphore(0)
        for _ in range(number):
            await self._looked.acquire()

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        if self.down:
            raise StateUnavailable("the state does not answer")
        self.writes += 1
        if not if_absent:
            self.facts[name] = value, seconds
        return await self._state.remember(name, value, seconds, if_absent=if_absent)


async def worker(backend: Backend, record: CrawlRecord = RECORD) -> Sessions:
    """One more worker process."""
    return Sessions(await backend.open(), record, backend.now)


async def watched(backend: Backend, record: CrawlRecord = RECORD) -> tuple[Sessions, Watched]:
    state: Any = Watched(await backend.open())
    return Sessions(state, record, backend.now), state


async def visit(worker: Sessions, *fields: str, url: str = PAGE) -> str | None:
    """One page: what was sent with its request, while its answer sets `fields`."""
    jar = await worker.jar(url)
    sent = jar.header(url)
    jar.read(url, answer(*fields, url=url))
    await worker.keep(url, jar)
    return sent


async def sent(worker: Sessions, url: str = PAGE) -> str | None:
    return (await worker.jar(url)).header(url)


async def test_what_one_worker_was_given_another_sends(backend: Backend) -> None:
    one, two = await worker(backend), await worker(backend)
    assert await visit(one, "sid=1; Path=/; Secure; HttpOnly") is None
    assert await sent(two) == "sid=1"
    assert await visit(two, "sid=; Path=/; Max-Age=0") == "sid=1"
    await backend.advance(FRESH)
    assert await sent(one) is None


async def test_without_the_setting_nothing_is_kept_or_asked(backend: Backend) -> None:
    record = CrawlRecord(id="crawl-1", started_at=1.0, settings=CrawlSettings())
    one, state = await watched(backend, record)
    jar = await one.jar(PAGE)
    jar.read(PAGE, answer("sid=1"))
    assert jar.header(PAGE) == "sid=1", "the chain's own"
    await one.keep(PAGE, jar)
    assert await sent(one) is None
    assert (state.reads, state.writes) == (0, 0)


async def test_a_site_is_a_registrable_domain_and_each_host_gets_what_is_its_own(backend: Backend) -> None:
    one, two = await worker(backend), await worker(backend)
    await visit(one, "host=1; Path=/", "all=2; Path=/; Domain=example.com")
    assert await sent(two, API) == "all=2"
    assert await sent(two, PAGE) == "host=1; all=2"
    assert await sent(two, "https://www.example.org/") is None


async def test_cookies_of_another_site_than_the_pages_are_not_kept(backend: Backend) -> None:
    one, state = await watched(backend)
    jar = await one.jar(PAGE)
    elsewhere = "https://login.example.org/"
    jar.read(PAGE, answer("here=1"))
    jar.read(elsewhere, answer("there=1", url=elsewhere))
    await one.keep(PAGE, jar)
    assert (await sent(one), await sent(one, elsewhere)) == ("here=1", None)
    ((value, _),) = state.facts.values()
    assert b"there" not in value


async def test_of_two_pages_that_change_a_jar_at_once_neither_undoes_the_other(backend: Backend) -> None:
    one, two = await worker(backend), await worker(backend)
    await visit(one, "keep=0", "gone=0", "mine=0")
    first, second = await one.jar(PAGE), await two.jar(PAGE)
    first.read(PAGE, answer("mine=1", "gone=; Max-Age=0"))
    second.read(PAGE, answer("yours=2"))
    await one.keep(PAGE, first)
    await two.keep(PAGE, second)
    assert await sent(await worker(backend)) == "keep=0; mine=1; yours=2"


async def test_of_workers_that_write_at_the_same_time_all_are_heard(backend: Backend) -> None:
    workers = [await worker(backend) for _ in range(4)]
    pages = [visit(workers[number % 4], f"c{number}={number}") for number in range(24)]
    await asyncio.gather(*pages)
    header = await sent(await worker(backend))
    assert header is not None
    assert sorted(header.split("; ")) == sorted(f"c{number}={number}" for number in range(24))


async def test_pages_that_end_together_in_one_worker_are_written_together(backend: Backend) -> None:
    one, state = await watched(backend)
    await asyncio.gather(*(visit(one, f"c{number}=1") for number in range(24)))
    assert state.writes <= 6, "a marker and a fact for the first, the same for all that came while it was written"


async def test_a_worker_that_died_while_writing_holds_the_others_up_until_its_marker_lapses(backend: Backend) -> None:
    one, state = await watched(backend)
    dead = await backend.open()
    await visit(one, "a=1")
    (name,) = state.facts
    assert await dead.remember(f"{name.replace('cookies:', 'cookies-write:')}:2", b"", MARKER, if_absent=True)
    writing = asyncio.create_task(visit(one, "b=2"))
    await state.looks(3)
    assert not writing.done()
    await backend.advance(MARKER)
    await writing
    assert await sent(await worker(backend)) == "a=1; b=2"


async def test_changes_that_the_state_did_not_take_are_sent_on_and_written_with_the_next_page(
    backend: Backend,
) -> None:
    one, state = await watched(backend)
    state.down = True
    with pytest.raises(StateUnavailable):
        await visit(one, "a=1")
    assert await sent(one) == "a=1"
    state.down = False
    await visit(one)
    assert await sent(await worker(backend)) == "a=1"


async def test_use_renews_the_life_and_at_most_once_in_a_quarter_of_it(backend: Backend) -> None:
    one, state = await watched(backend)
    await visit(one, "a=1")
    written = state.writes
    for _ in range(30):
        await backend.advance(LIFE / 10)
        assert await visit(one) == "a=1"
    assert written + 2 * 9 <= state.writes <= written + 2 * 12
    await backend.advance(LIFE)
    assert await visit(one) is None, "nobody came for a whole life"


async def test_a_site_without_cookies_costs_no_write_and_one_look_for_a_while(backend: Backend) -> None:
    one, state = await watched(backend)
    for _ in range(10):
        assert await visit(one) is None
    assert (state.reads, state.writes) == (1, 0)
    await backend.advance(FRESH)
    await visit(one)
    assert (state.reads, state.writes) == (2, 0)


async def test_a_cookie_renewed_by_every_answer_is_not_written_every_time(backend: Backend) -> None:
    one, state = await watched(backend)
    await visit(one, "a=1; Max-Age=3600")
    written = state.writes
    for _ in range(80):
        await backend.advance(10)
        await visit(one, "a=1; Max-Age=3600")
    assert state.writes == written


async def test_seeded_cookies_live_until_they_end_whatever_is_written_between(backend: Backend) -> None:
    one = await worker(backend)
    end = backend.now() + 10 * LIFE
    await one.seed([Cookie("sid", "1", "www.example.com", expires=end), Cookie("b", "2", "example.org")])
    assert await visit(await worker(backend), "x=1") == "sid=1"
    await backend.advance(9 * LIFE)
    assert await sent(await worker(backend)) == "sid=1; x=1"
    assert await sent(await worker(backend), "https://example.org/") is None
    await backend.advance(LIFE)
    assert await sent(await worker(backend)) in (None, "x=1")


async def test_seeds_that_a_site_has_no_room_for_are_counted(backend: Backend) -> None:
    one = await worker(backend)
    many = [Cookie(f"n{number}", "v", "www.example.com") for number in range(MOST_COOKIES + 7)]
    assert await one.seed([*many, Cookie("a", "1", "example.org")]) == 7
    assert await sent(await worker(backend), "https://example.org/") == "a=1"


async def test_a_crawl_begun_anew_and_another_crawl_find_nothing(backend: Backend) -> None:
    await visit(await worker(backend), "sid=1")
    fresh = CrawlRecord(id="crawl-1", started_at=RECORD.started_at + 0.001, settings=RECORD.settings)
    other = CrawlRecord(id="crawl-2", started_at=RECORD.started_at, settings=RECORD.settings)
    assert await sent(await worker(backend, fresh)) is None
    assert await sent(await worker(backend, other)) is None
    assert await sent(await worker(backend)) == "sid=1"


async def test_the_name_is_the_same_from_the_record_as_stored(backend: Backend) -> None:
    """Whoever made the crawl and whoever reads its record later must mean the same facts."""
    state = await backend.open()
    given = CrawlRecord(id="c", started_at=backend.now() + 0.1234567, settings=RECORD.settings)
    created = await state.create(given)
    (read,) = await state.crawls()
    await visit(Sessions(state, created, backend.now), "sid=1")
    assert await sent(Sessions(await backend.open(), read, backend.now)) == "sid=1"


async def test_a_fact_is_small_and_one_that_is_junk_counts_as_none(backend: Backend) -> None:
    one, state = await watched(backend)
    for number in range(30):
        await visit(one, f"c{number}={'v' * 3000}")
    ((name, (value, seconds)),) = state.facts.items()
    assert name == "cookies:crawl-1:1800000000250000:example.com"
    assert len(value) < MOST_BYTES + 100
    assert seconds == LIFE
    for junk in (b"", b"\x00", b"junk", value[:-1], b"\x94\x01\xcb\xff"):
        await state.remember(name, junk, LIFE)
        await backend.advance(MARKER)
        two = await worker(backend)
        assert await sent(two) is None
        await visit(two, "a=1")
        assert await sent(await worker(backend)) == "a=1"


@pytest.mark.case("C14", "H03")
async def test_memory_is_bounded_however_many_sites_there_are(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SITES", 10)
    one = await worker(backend)
    sites = [f"https://site{number}.com/" for number in range(50)]
    for site in sites:
        await visit(one, "a=1", url=site)
    assert len(one._sites) == 10
    assert [await sent(one, site) for site in sites] == ["a=1"] * 50


async def test_a_jar_is_its_pages_own(backend: Backend) -> None:
    one = await worker(backend)
    first: Jar = await one.jar(PAGE)
    first.read(PAGE, answer("half=1"))
    assert await sent(one) is None, "what a page was given is the fleet's once it is kept"
