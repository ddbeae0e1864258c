"""A disk without room, for state and archive: a worker waits, says so, loses nothing, and goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler import patience
from crawler.archive.disk import write_at
from crawler.loop import Exit, Worker
from tests import command
from tests.faults.crawls import CRAWL, STATE, counts, finished_rows, seeded, state_in
from tests.faults.site import small_site
from tests.faults.victim import InProcess
from tests.local_site import demo_site_process
from tests.servers import replies, serve

UNLIMITED = resource.RLIM_INFINITY


def limit_files(process: subprocess.Popen[str], size: int) -> None:
    """No file of a process may grow beyond `size` bytes from now on, as if the disk were full."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, UNLIMITED))


@pytest.mark.e2e
async def test_a_worker_waits_for_room_with_a_line_and_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with demo_site_process(tmp_path, pages=200, delay_ms=10) as site:
        await seeded(out, site.seeds, lease=120.0)
        process = command.start("work", "--state", str(out / STATE), "--until-complete", "--concurrency", "4")
        command.wait_for(lambda: len(site.fetched()) > 30)
        limit_files(process, 0)
        done = -1
        # Nothing is fetched any more: what could not be written is not gone on from.
        while done != (done := sum(site.fetched().values())):  # noqa: ASYNC110
            await asyncio.sleep(1)
        assert process.poll() is None
        ledger = await counts(out)
        assert ledger.outstanding > 0
        await asyncio.sleep(1)
        assert await counts(out) == ledger
        limit_files(process, UNLIMITED)
        _, errors = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0
        lines = errors.splitlines()
        assert all(line.startswith("crawler: waiting for the ") for line in lines)
        assert 1 <= len(lines) <= 2
        assert set(site.fetched().values()) == {1}
        assert set(site.fetched()) == site.truth.fetched
    await finished_rows(out)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the archive's disk is full; at first it is."""
    is_full = True

    def write(descriptor: int, data: bytes, offset: int) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_at(descriptor, data, offset)

    def say(now: bool) -> None:
        nonlocal is_full
        is_full = now

    monkeypatch.setattr("crawler.archive.directory.write_at", write)
    monkeypatch.setattr("crawler.loop.Parser", InProcess)
    monkeypatch.setattr(patience, "_said", {})
    return say


async def test_an_archive_without_room_keeps_no_page_and_no_worker_from_stopping(
    tmp_path: Path, full: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawler.loop.WRITE", 0.2)
    monkeypatch.setattr("crawler.loop.DRAIN", 0.2)
    caplog.set_level(logging.WARNING, "crawler")
    async with small_site() as site:
        await seeded(tmp_path, site.seeds, lease=120.0)
        async with state_in(tmp_path, "w1") as state:
            worker = Worker(state, str(tmp_path), name="w1", until_complete=True)
            running = asyncio.create_task(worker.run())
            async with asyncio.timeout(20):
                while not caplog.records:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                worker.stop()
                assert await running is Exit.STOPPED
            ledger = await state.counts(CRAWL)
            assert (ledger.leased, ledger.done) == (0, 0)
            assert ledger.pending > 0
        assert [record.message.split(":")[0] for record in caplog.records] == [
            "waiting for the archive",
            "the archive could not be closed; the next worker, `merge` or `verify` does it",
        ]
        full(False)
        async with state_in(tmp_path, "w2") as state:
            assert await Worker(state, str(tmp_path), name="w2", until_complete=True).run() is Exit.COMPLETE
        assert max(site.fetched().values()) == 2
    await finished_rows(tmp_path)


async def test_pages_that_cannot_be_archived_are_few_and_written_once_there_is_room(
    tmp_path: Path, full: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.settle.WAITING", 10)
    async with serve(replies(b"leaf", "Content-Type: text/plain")) as server:
        await seeded(tmp_path, [server.url(f"/{number}") for number in range(200)], lease=120.0)
        async with state_in(tmp_path, "w") as state:
            work = Worker(state, str(tmp_path), name="w", concurrency=4, until_complete=True)
            running = asyncio.create_task(work.run())
            asked = -1
            while asked != (asked := len(server.targets)):  # noqa: ASYNC110
                await asyncio.sleep(1)
            # What is fetched and cannot be written stays in memory, so that there is a limit to it.
            assert 10 <= asked <= 100
            assert (await state.counts(CRAWL)).done == 0
            full(False)
            async with asyncio.timeout(20):
                assert await running is Exit.COMPLETE
        assert Counter(server.targets) == {"/robots.txt": 1} | {f"/{number}": 1 for number in range(200)}
    assert len(await finished_rows(tmp_path)) == 200


@pytest.mark.e2e
def test_a_folder_that_cannot_be_written_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # A folder below a file, and one of the kernel's: a folder's mode would not keep root from writing.
    for folder in (tmp_path / "file" / "out", Path("/proc/self")):
        for arguments in (
            ("crawl", "http://127.0.0.1:9/", "--out", str(folder)),
            ("seed", "http://127.0.0.1:9/", "--state", str(folder / STATE)),
            ("work", "--state", str(folder / STATE)),
        ):
            result = command.run(*arguments)
            assert result.returncode == 2, arguments
            assert len(result.stderr.splitlines()) == 1
            assert str(folder) in result.stderr
