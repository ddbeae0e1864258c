"""Hosts that wait cost a claim of the SQLite state nothing, whatever they wait for."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.config import CrawlSettings
from crawler.model import CrawlRecord, Health, Why, done
from crawler.state.sqlite import SqliteState, adding, claiming, database, gates, leasing, opening, records
from tests.contract.words import CRAWL, page, pages

NOW = 2000.0
HOSTS = [f"h{number}.example" for number in range(3000)]


def opened(path: Path, **settings: object) -> sqlite3.Connection:
    """A state's connection in this thread, as the functions of the package are given one."""
    connection = database._connect(str(path), True)
    connection.execute("BEGIN IMMEDIATE")
    given = CrawlSettings(**settings)  # type: ignore[arg-type]
    records.create(connection, CrawlRecord(id=CRAWL, started_at=1000.0, settings=given))
    return connection


def steps(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Steps of SQLite's virtual machine, in tens, that `work` takes."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(tick, 10)
    work()
    connection.set_progress_handler(None, 10)
    return count


def claimed_all(connection: sqlite3.Connection, now: float) -> int:
    """Claim until nothing comes any more, and leave it leased; how much came."""
    count = 0
    while leases := claiming.claim(connection, now, "w", 200, None):
        count += len(leases)
    return count


def paced(connection: sqlite3.Connection) -> None:
    assert claimed_all(connection, NOW) == len(HOSTS)


def held(connection: sqlite3.Connection) -> None:
    for host in HOSTS:
        gates.hold(connection, NOW, host, NOW + 900, Why.RETRY_AFTER, None)


def full(connection: sqlite3.Connection) -> None:
    for host in HOSTS:
        gates.diagnose(connection, NOW, host, Health(prompt=True))
        for number in range(2):
            gates.occupy(connection, NOW, host, f"worker/{number}", NOW + 900)


def used_up(connection: sqlite3.Connection) -> None:
    assert claimed_all(connection, NOW) == len(HOSTS)


WAITING: dict[str, tuple[Callable[[sqlite3.Connection], None], dict[str, object]]] = {
    "for their next turn": (paced, {"rate": 0.01}),
    "because they are held": (held, {"rate": 1.0}),
    "because they are full": (full, {"rate": 1.0}),
    "for room below their limit": (used_up, {"rate": 0.0, "max_pages_per_host": 1}),
}


@pytest.mark.parametrize(("wait", "settings"), WAITING.values(), ids=WAITING)
def test_hosts_that_wait_cost_a_claim_nothing(
    tmp_path: Path, wait: Callable[[sqlite3.Connection], None], settings: dict[str, object]
) -> None:
    def claim(connection: sqlite3.Connection, number: int) -> int:
        fresh = [page("/", f"fresh{number}-{one}.example") for one in range(10)]
        adding.add(connection, NOW, CRAWL, fresh, adding.Seen())
        opening.due(connection, NOW)  # the new lanes' own first look
        leases = []
        cost = steps(connection, lambda: leases.extend(claiming.claim(connection, NOW, "w", 10, None)))
        assert {lease.url for lease in leases} == {each.url for each in fresh}
        return cost

    alone, many = opened(tmp_path / "alone.sqlite", **settings), opened(tmp_path / "many.sqlite", **settings)
    for host in HOSTS:
        adding.add(many, NOW, CRAWL, pages(2, host), adding.Seen())
    wait(many)
    while (
        claiming.claim(many, NOW, "w", 10, None) or many.execute("SELECT 1 FROM lane WHERE look_at <= 2000").fetchone()
    ):
        pass
    few = [claim(alone, number) for number in range(3)]
    assert max(claim(many, number) for number in range(3)) <= min(few) * 1.2
    for connection in (alone, many):
        connection.close()


def test_hosts_are_looked_at_some_at_a_time_when_a_crawl_s_limits_change(tmp_path: Path) -> None:
    connection = opened(tmp_path / "state.sqlite", rate=0.0, max_pages_per_host=1)
    for host in HOSTS:
        adding.add(connection, NOW, CRAWL, pages(3, host), adding.Seen())
    first = claimed_all(connection, NOW)
    assert first == len(HOSTS)
    connection.execute("COMMIT")
    connection.close()

    async def amended() -> int:
        state = await SqliteState.open(str(tmp_path / "state.sqlite"), worker="w", clock=lambda: NOW)
        await state.amend(CRAWL, CrawlSettings(rate=0.0, max_pages_per_host=2))
        looked_at = await state._database.read(lambda db: opening.LOOKED_AT_ONCE)
        (lease,) = await state.claim(1)
        (closed,) = await state._database.read(
            lambda db: db.execute("SELECT count(*) FROM lane WHERE open = 0").fetchone()
        )
        assert closed == len(HOSTS) - looked_at + 1
        await state.settle([(lease, done(1))])
        count = 1
        while leases := await state.claim(200):
            count += len(leases)
        await state.close()
        return count

    assert asyncio.run(amended()) == len(HOSTS)


def test_what_a_dead_process_left_in_flight_goes(tmp_path: Path) -> None:
    connection = opened(tmp_path / "state.sqlite", rate=1.0)
    for number in range(20):
        gates.occupy(connection, NOW, "a.example", f"dead/{number}", NOW + 10)
    gates.occupy(connection, NOW + 11, "a.example", "alive/1", NOW + 60)
    assert connection.execute("SELECT name FROM flight").fetchall() == [("alive/1",)]
    gates.occupy(connection, NOW + 12, "a.example", "alive/1", 0)
    assert connection.execute("SELECT count(*) FROM flight").fetchone() == (0,)
    connection.close()


def test_a_lease_counts_once_however_its_settlement_is_repeated(tmp_path: Path) -> None:
    connection = opened(tmp_path / "state.sqlite", rate=0.0)
    adding.add(connection, NOW, CRAWL, pages(100), adding.Seen())
    endings = [(lease, done(1)) for lease in claiming.claim(connection, NOW, "w", 100, None)]
    answers = leasing.settle(connection, NOW, endings[:70] + endings)
    assert [answer.value for answer in answers] == ["settled"] * 70 + ["lost"] * 70 + ["settled"] * 30
    assert connection.execute("SELECT pending, leased, done FROM lane").fetchall() == [(0, 0, 100)]
    connection.close()
