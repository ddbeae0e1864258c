"""What only the SQLite state owes: many processes on one file, kills, foreign files, full disks, and flat cost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import msgspec
import pytest

from crawler.config import CrawlSettings
from crawler.errors import StateError, StateMismatch, StateMissing, StateUnavailable
from crawler.model import Added, CrawlRecord, Health, Lease, Page, Why, dead, done, retry
from crawler.state.sqlite import SqliteState, adding, claiming, database, gates, leasing, opening, records, repair
from tests.contract.words import pages, parent

CRAWL = "crawl-1"


def record(**settings: object) -> CrawlRecord:
    given = msgspec.convert({"rate": 0.0, **settings}, CrawlSettings)
    return CrawlRecord(id=CRAWL, started_at=1000.0, settings=given)


async def made(path: Path, worker: str = "w") -> SqliteState:
    state = await SqliteState.open(str(path), worker=worker, create=True)
    await state.create(record())
    return state


def process(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run `code` in a Python of its own, its output piped."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# ---------------------------------------------------------------- many processes


HAMMER = """
    import asyncio, sys
    from crawler.model import CrawlRecord, done
    from crawler.config import CrawlSettings
    from crawler.state.sqlite import SqliteState
    from tests.contract.words import pages, parent

    async def main(path, name):
        state = await SqliteState.open(path, worker=name, create=True)
        await state.create(CrawlRecord(id="crawl-1", started_at=1000.0, settings=CrawlSettings(rate=0.0)))
        await state.add("crawl-1", pages(100))
        while not await state.complete("crawl-1"):
            leases = await state.claim(7)
            for lease in leases:
                if lease.depth < 2:
                    children = pages(100, f"h{lease.depth}.example", parent=parent(lease), depth=lease.depth + 1)
                    await state.add("crawl-1", children)
            await state.settle([(lease, done(1)) for lease in leases])
            for lease in leases:
                print(lease.url)
        await state.close()

    asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.case("F17")
async def test_eight_processes_start_on_a_new_file_and_share_the_pages(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    fleet = [process(HAMMER, str(path), f"worker-{number}") for number in range(8)]
    outputs = [await asyncio.to_thread(one.communicate) for one in fleet]
    assert [(one.returncode, errors) for one, (_, errors) in zip(fleet, outputs, strict=True)] == [(0, "")] * 8
    fetched = [url for output, _ in outputs for url in output.split()]
    assert len(fetched) == len(set(fetched)) == 300
    state = await SqliteState.open(str(path), worker="reader")
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.done, counts.bytes, counts.outstanding) == (300, 300, 300, 0)
    await state.close()


async def test_waiting_for_another_process_does_not_block_the_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    call = asyncio.ensure_future(state.add(CRAWL, pages(1)))
    for _ in range(100):  # were the loop blocked, the first of these would wait for the lock
        await asyncio.sleep(0)
    assert not call.done()
    other.execute("COMMIT")
    other.close()
    assert await call == [Added.NEW]
    await state.close()


# ---------------------------------------------------------------- kills


KILLED_IN_A_TRANSACTION = """
    import asyncio, os, signal, sys
    from crawler.model import done
    from crawler.state.sqlite import SqliteState, records
    from tests.contract.words import pages, parent

    async def main(path):
        state = await SqliteState.open(path, worker="killed")
        leases = await state.claim(3)
        await state.add("crawl-1", pages(5, "b.example", parent=parent(leases[0]), depth=1))
        print("claimed", flush=True)
        # The last statement of the settlement's transaction, which is not committed yet.
        records.add_up = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        await state.settle([(lease, done(9)) for lease in leases])

    asyncio.run(main(sys.argv[1]))
"""


async def test_a_process_killed_in_a_transaction_leaves_none_of_it(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(4))
    killed = process(KILLED_IN_A_TRANSACTION, str(path))
    output, _ = await asyncio.to_thread(killed.communicate)
    assert (output, killed.returncode) == ("claimed\n", -signal.SIGKILL)
    counts = await state.counts(CRAWL)
    assert (counts.discovered, counts.pending, counts.leased, counts.done, counts.bytes) == (9, 6, 3, 0, 0)
    assert await state.release("killed") == 3
    leases = await state.claim(9)
    assert [lease.receives for lease in leases] == [2] * 3 + [1] * 6
    await state.settle([(lease, done(9)) for lease in leases])
    assert await state.complete(CRAWL)
    await state.close()


async def test_a_state_closed_by_one_process_is_whole_without_its_log(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state, other = await made(path), await SqliteState.open(str(path), worker="other")
    await state.add(CRAWL, pages(50))
    await state.close()
    shutil.copy(path, tmp_path / "copy.sqlite")  # without the write-ahead log
    copy = await SqliteState.open(str(tmp_path / "copy.sqlite"), worker="w")
    assert (await copy.counts(CRAWL)).discovered == 50
    await copy.close()
    await other.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.sqlite", "state.sqlite"]


# ---------------------------------------------------------------- what is no state, and what cannot be written


async def refusal(path: Path, *, create: bool = True) -> StateError:
    """The error of opening `path`, which is one line and names the file."""
    with pytest.raises(StateError) as caught:
        await SqliteState.open(str(path), worker="w", create=create)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return caught.value


async def test_a_missing_file_is_made_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "state.sqlite"
    assert isinstance(await refusal(path, create=False), StateMissing)
    assert list(tmp_path.iterdir()) == []
    await (await made(path)).close()
    await (await SqliteState.open(str(path), worker="w")).close()


@pytest.mark.parametrize("content", [b"not a database, only text " * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert isinstance(await refusal(path), StateMismatch)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("setup", ["CREATE TABLE bookmarks (url)", "PRAGMA user_version = 1", "PRAGMA user_version=7"])
async def test_another_program_s_database_is_left_alone(tmp_path: Path, setup: str) -> None:
    path = tmp_path / "places.sqlite"
    foreign = sqlite3.connect(path)
    foreign.execute(setup)
    foreign.commit()
    foreign.close()
    before = path.read_bytes()
    assert isinstance(await refusal(path), StateMismatch)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [database.OLDEST_VERSION - 1, database.SCHEMA_VERSION + 1])
async def test_another_version_of_the_schema_is_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.sqlite"
    await (await made(path)).close()
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {version}")
    other.close()
    before = path.read_bytes()
    error = await refusal(path)
    assert isinstance(error, StateMismatch)
    assert f"version {version}" in str(error)
    assert path.read_bytes() == before


async def test_settings_of_another_version_are_a_mismatch(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    other = sqlite3.connect(path)
    other.execute("UPDATE crawl SET settings = ?", (b'{"rate": "fast"}',))
    other.commit()
    other.close()
    with pytest.raises(StateMismatch):
        await state.crawls()
    with pytest.raises(StateMismatch):
        await state.add(CRAWL, pages(1))
    await state.close()


async def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    # A path below a file: no right to write would not stop root, who runs the tests in a container.
    (tmp_path / "file").write_text("")
    assert isinstance(await refusal(tmp_path / "file" / "state.sqlite"), StateUnavailable)
    assert isinstance(await refusal(tmp_path), StateUnavailable)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_read_only_file_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.touch(mode=0o444)
    tmp_path.chmod(0o555)
    try:
        assert isinstance(await refusal(path), StateUnavailable)
    finally:
        tmp_path.chmod(0o755)


async def test_a_full_disk_refuses_the_call_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    state = await made(path)
    await state.add(CRAWL, pages(10))
    await state._database.read(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())
    with pytest.raises(StateUnavailable, match="no space left"):
        await state.add(CRAWL, pages(5000, "b.example"))
    assert (await state.counts(CRAWL)).discovered == 10
    await state._database.read(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    await state.add(CRAWL, pages(5000, "b.example"))
    assert (await state.counts(CRAWL)).discovered == 5010
    await state.close()


async def test_a_lock_that_is_never_released_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    path = tmp_path / "state.sqlite"
    state = await made(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StateUnavailable, match="locked by another process"):
        await state.claim(1)
    other.execute("ROLLBACK")
    other.close()
    assert await state.claim(1) == []
    await state.close()


async def test_a_closed_handle_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    await (await made(tmp_path / "state.sqlite")).close()
    await refusal(tmp_path)
    for _ in range(1000):
        if threading.active_count() <= before:
            break
        await asyncio.sleep(0.001)
    assert threading.active_count() <= before


# ---------------------------------------------------------------- flat cost


def plain(tmp_path: Path) -> sqlite3.Connection:
    """A state's connection in this thread, as the functions of the package are given one."""
    connection = database._connect(str(tmp_path / "plain.sqlite"), True)
    connection.execute("BEGIN IMMEDIATE")
    records.create(connection, record(rate=100.0, in_flight_per_host=1000))
    return connection


def steps(connection: sqlite3.Connection, work: int, claimed: list[Lease], links: list[Page]) -> int:
    """Steps of SQLite's virtual machine, in tens, for one claim, add and settle."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection.set_progress_handler(tick, 10)
    now = 2000.0 + work
    claimed += claiming.claim(connection, now, "w", 20, None)
    adding.add(connection, now, CRAWL, links, adding.Seen())
    leasing.settle(connection, now, [(lease, done(1)) for lease in claimed])
    connection.set_progress_handler(None, 10)
    return count


@pytest.mark.parametrize("hosts", [1, 20, 2000])
def test_the_cost_of_a_page_follows_neither_pages_nor_hosts(tmp_path: Path, hosts: int) -> None:
    connection = plain(tmp_path)

    seen = adding.Seen()

    def fill(start: int, count: int) -> None:
        for number in range(start, start + count, 500):
            batch = [
                page
                for one in range(number, number + 500)
                for page in [msgspec.structs.replace(pages(1, f"h{one % hosts}.example")[0], digest=one.to_bytes(16))]
            ]
            adding.add(connection, 1000.0, CRAWL, batch, seen)

    fill(0, 2000)
    costs = []
    for work in range(2):
        claimed: list[Lease] = []
        links = [msgspec.structs.replace(page, digest=os.urandom(16)) for page in pages(20, "h0.example")]
        costs.append(steps(connection, work * 100, claimed, links))
        assert len(claimed) == 20
        fill(2000 + work * 20000, 20000)
    assert costs[1] <= costs[0] * 1.15
    connection.close()


def test_no_hot_query_scans_a_table(tmp_path: Path) -> None:
    connection = plain(tmp_path)
    statements: set[str] = set()
    adding.add(connection, 1000.0, CRAWL, pages(30), adding.Seen())
    connection.set_trace_callback(statements.add)
    leases = claiming.claim(connection, 1000.0, "w", 10, None)
    adding.add(connection, 1000.0, CRAWL, pages(3, "b.example", parent=parent(leases[0]), depth=1), adding.Seen())
    failed = [(leases[0], retry(0, "dns", "")), (leases[1], dead("dns", "")), (leases[2], dead("dns", ""))]
    leasing.settle(connection, 1000.0, [*failed, *((lease, done(1)) for lease in leases[3:])])
    repair.revive(connection, 1000.0, CRAWL, [(lease.digest, 0.0) for lease in leases])
    gates.turn(connection, 1000.0, "a.example", 1.0)
    gates.hold(connection, 1000.0, "a.example", 2000.0, Why.BACKOFF, 2.0)
    gates.diagnose(connection, 1000.0, "a.example", Health(gap=1.0))
    for number in range(1000):
        gates.occupy(connection, 1000.0, "a.example", f"worker/{number}", 2000.0)
    opening.due(connection, 9000.0)
    claiming.claim(connection, 1000.0, "w", 10, None)  # at a gate that is full
    leasing.wake(connection, 9000.0)
    leasing.release(connection, 9000.0, "w")
    connection.set_trace_callback(None)
    scans = [
        (statement, step[3])
        for statement in statements
        for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        if step[3].startswith("SCAN") and "crawl" not in step[3]  # a state has few crawls
    ]
    assert len(statements) > 10
    assert scans == []
    connection.close()
