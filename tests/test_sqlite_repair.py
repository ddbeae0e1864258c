"""Repair of the SQLite state: purge in steps, what the sweep mends, and errors of the driver."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from crawler.config import CrawlSettings
from crawler.errors import StateUnavailable, UsageError
from crawler.model import Added, CrawlRecord, Phase, Settled, dead, done, retry
from crawler.state.sqlite import SqliteState, ledger, purging
from tests.contract.calls import METHODS, calls
from tests.contract.words import CRAWL, hosts, lines, page, pages


async def made(path: Path) -> SqliteState:
    state = await SqliteState.open(str(path), worker="w", create=True)
    await state.create(CrawlRecord(id=CRAWL, started_at=1000.0, settings=CrawlSettings(rate=0.0)))
    return state


def tamper(path: Path, statement: str) -> None:
    """Change the file behind the state's back."""
    other = sqlite3.connect(path)
    other.execute(statement)
    other.commit()
    other.close()


# ---------------------------------------------------------------- purge


KILLED_IN_A_PURGE = """
    import asyncio, os, signal, sys
    from crawler.state.sqlite import SqliteState, purging

    async def main(path):
        state = await SqliteState.open(path, worker="killed")
        purging.STEP = 100
        step, steps = purging.pages, iter(range(3))

        def pages(db, crawl, after):
            if next(steps, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(db, crawl, after)

        purging.pages = pages
        await state.purge("crawl-1")

    asyncio.run(main(sys.argv[1]))
"""


async def test_a_purge_that_was_killed_goes_on_when_it_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, [*pages(1000), page("/no", skip="trap")])
    held = await state.claim(5)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(KILLED_IN_A_PURGE), str(path))
    assert await killed.wait() == -signal.SIGKILL
    # Some pages are gone, and of the crawl nothing can be had or made but the end of the purge.
    with sqlite3.connect(path) as other:
        (left,) = other.execute("SELECT count(*) FROM page").fetchone()
    other.close()
    assert 0 < left <= 700
    assert [record.id for record in await state.crawls()] == [CRAWL]
    assert (await state.counts(CRAWL)).outstanding == 0
    assert await state.settle([(lease, done(1)) for lease in held]) == [Settled.LOST] * 5
    assert await state.claim(5) == []
    refused: list[Callable[[], Awaitable[object]]] = [
        lambda: state.add(CRAWL, pages(1)),
        lambda: state.claim(1, CRAWL),
        lambda: state.turn(CRAWL, "a.example"),
        lambda: lines(state),
    ]
    for call in refused:
        with pytest.raises(UsageError, match="purge it again"):
            await call()
    await state.purge(CRAWL)
    assert await state.crawls() == []
    with sqlite3.connect(path) as other:
        for table in ("page", "lane", "source", "scope", "reason", "crawl"):
            assert other.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    other.close()
    await state.close()


async def test_a_purge_drops_the_pages_of_one_crawl_in_bounded_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = await made(tmp_path / "state.sqlite")
    await state.create(CrawlRecord(id="kept", started_at=1000.0, settings=CrawlSettings(rate=0.0)))
    for number in range(5):  # their rows lie between each other
        await state.add(CRAWL, pages(30, f"h{number}.example"))
        await state.add("kept", pages(20, f"h{number}.example"))
    monkeypatch.setattr(purging, "STEP", 40)
    changed = []
    step = purging.pages

    def counted(db: sqlite3.Connection, crawl: int, after: int) -> int | None:
        before = db.total_changes
        last = step(db, crawl, after)
        changed.append(db.total_changes - before)
        return last

    monkeypatch.setattr(purging, "pages", counted)
    await state.purge(CRAWL)
    assert sum(changed) == 150
    assert max(changed) <= 40
    assert len(await lines(state, "kept")) == (await state.counts("kept")).pending == 100
    await state.close()


# ---------------------------------------------------------------- sweep


STUCK = {
    "sums of lanes that say that nothing is left": "UPDATE lane SET pending = 0, rank = NULL",
    "a lane whose best rank is forgotten": "UPDATE lane SET rank = NULL",
    "a lane that is closed for good": "UPDATE lane SET open = 0, look_at = NULL",
    "a delay without an end": "UPDATE page SET phase = 5, wakes_at = NULL WHERE phase = 0",
    "a lease without an end": "UPDATE page SET phase = 1, wakes_at = NULL, worker = 'gone' WHERE phase = 0",
    "a phase that does not exist": "UPDATE page SET phase = 9 WHERE phase = 0",
    "sums that say that nothing is left": "UPDATE crawl SET pending = 0, completed_at = 5.0",
}


@pytest.mark.parametrize("statement", STUCK.values(), ids=STUCK)
async def test_the_sweep_mends_what_no_claim_would_find(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(4))
    one, two = await state.claim(2)
    await state.settle([(one, done(7)), (two, dead("dns", "no such host"))])
    assert await state.sweep(CRAWL) == 0
    tamper(path, statement)
    assert await state.claim(9) == []
    assert await state.sweep(CRAWL) == 2
    assert await state.sweep(CRAWL) == 0
    assert (await state.crawls())[0].completed_at is None
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.pending, counts.leased, counts.done, counts.dead) == (4, 2, 0, 1, 1)
    leases = await state.claim(9)
    (host,) = (await hosts(state)).values()
    assert (host.pending, host.leased, host.done) == (0, 2, 1)
    assert await state.settle([(lease, done(7)) for lease in leases]) == [Settled.SETTLED] * 2
    (host,) = (await hosts(state)).values()
    assert (host.pending, host.leased, host.done) == (0, 0, 3)
    assert await state.complete(CRAWL)
    await state.close()


async def test_pages_that_wait_for_room_at_their_host_are_not_astray(tmp_path: Path) -> None:
    state = await SqliteState.open(str(tmp_path / "state.sqlite"), worker="w", create=True)
    settings = CrawlSettings(rate=0.0, max_pages_per_host=2)
    await state.create(CrawlRecord(id=CRAWL, started_at=1000.0, settings=settings))
    await state.add(CRAWL, pages(5))
    one, two = await state.claim(5)
    assert await state.claim(5) == []
    assert await state.sweep(CRAWL) == 0
    await state.settle([(one, done(1)), (two, done(1))])
    assert await state.sweep(CRAWL) == 0
    assert len(await state.claim(5)) == 3
    await state.close()


async def test_sums_of_a_lane_that_hold_its_pages_back_are_mended(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await SqliteState.open(str(path), worker="w", create=True)
    settings = CrawlSettings(rate=0.0, max_pages_per_host=2)
    await state.create(CrawlRecord(id=CRAWL, started_at=1000.0, settings=settings))
    await state.add(CRAWL, pages(5))
    tamper(path, "UPDATE lane SET open = 0, look_at = NULL, leased = 2")
    assert await state.claim(5) == []
    assert await state.sweep(CRAWL) > 0
    assert len(await state.claim(5)) == 2
    await state.close()


async def test_a_sweep_that_finds_nothing_waits_for_no_writer(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(4))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await state.sweep(CRAWL) == 0
    other.execute("ROLLBACK")
    other.close()
    await state.close()


# ---------------------------------------------------------------- the ledger's cost


async def test_dead_pages_are_read_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(20_000))
    leases = await state.claim(3)
    await state.settle([(lease, dead("dns", "no such host")) for lease in leases])
    ticks = 0

    def tick() -> int:
        nonlocal ticks
        ticks += 1
        return 0

    def cost(phase: Phase | None) -> Callable[[sqlite3.Connection], int]:
        def read(db: sqlite3.Connection) -> int:
            nonlocal ticks
            ticks = 0
            db.set_progress_handler(tick, 10)
            assert ledger.pages(db, CRAWL, phase, 0, 100_000)[1]
            db.set_progress_handler(None, 10)
            return ticks

        return read

    some = await state._database.read(cost(Phase.DEAD))
    assert some * 1000 < await state._database.read(cost(None))
    await state.close()


async def test_a_page_that_fails_again_and_again_keeps_a_short_row(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(1))
    for _ in range(40):
        await state.settle([((await state.claim(1))[0], retry(0, "protocol", "e" * 5000))])
    with sqlite3.connect(path) as other:
        ((size,),) = other.execute("SELECT length(history) FROM page").fetchall()
    other.close()
    assert size < 2500
    await state.close()


# ---------------------------------------------------------------- errors of the driver


class Failing:
    """In place of a connection: raises at every statement."""

    in_transaction = True

    def __init__(self, error: Exception) -> None:
        self._error = error

    def execute(self, *_: object) -> Any:
        raise self._error

    executemany = execute

    def close(self) -> None:
        """Closing succeeds."""


UNASKED = {"upheld", "drain_dead_letters"}
"""Answered without a look at the file."""


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("disk I/O error"),
        sqlite3.DatabaseError("something"),
        sqlite3.IntegrityError("UNIQUE constraint failed"),
        sqlite3.InterfaceError("bad parameter"),
        sqlite3.ProgrammingError("Cannot operate on a closed database."),
        sqlite3.InternalError("internal"),
        sqlite3.NotSupportedError("not supported"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_every_error_of_the_driver_is_translated(tmp_path: Path, error: sqlite3.Error) -> None:
    state = await made(tmp_path / "state.sqlite")
    await state.add(CRAWL, pages(1))
    (lease,) = await state.claim(1)
    await state._database.read(lambda db: db.close())
    state._database._connection = Failing(error)  # type: ignore[assignment]
    told = set()
    for name, call in calls(state, lease).items():
        if name not in UNASKED:
            with pytest.raises(StateUnavailable):
                await call()
            told.add(name)
    assert told == METHODS - UNASKED


async def test_names_that_are_no_text_are_usage_errors(tmp_path: Path) -> None:
    state = await made(tmp_path / "state.sqlite")
    with pytest.raises(UsageError, match="is not text"):
        await state.counts("caf\udce9")
    with pytest.raises(UsageError, match="is not text"):
        await state.turn(CRAWL, "caf\udce9")
    assert await state.add(CRAWL, [page()]) == [Added.NEW]
    await state.close()
