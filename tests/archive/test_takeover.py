"""Takeover of what killed workers left in a folder."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawler.archive.archive import Archive
from crawler.archive.folder import PAGES, WARC
from crawler.archive.members import compress
from crawler.archive.stores import Store, open_store
from crawler.archive.takeover import take_over
from crawler.archive.warc import response_record
from tests.archive.making import (
    add,
    crawl,
    folder_of,
    open_files,
    read_warc,
    response,
    row,
    stored,
    stored_rows,
    stored_urls,
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@contextmanager
def writer(out: Path, worker: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.archive.writer", str(out), worker, *options]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


async def left_by_a_kill(out: Path, worker: str = "dead", *, pages: int = 3) -> dict[str, Path]:
    """The open files of a worker that flushed its pages one by one and is gone: a copy that nobody has locked."""
    living = out.with_name(f"living-{worker}")
    archive = await Archive.open(open_store(str(living)), crawl(), worker)
    for number in range(pages):
        add(archive, number)
        await archive.flush()
    shutil.copytree(living, out, dirs_exist_ok=True)
    await archive.close()
    folder = folder_of(out)
    return {WARC: folder / f"warc/{worker}-0001.warc.gz.open", PAGES: folder / f"pages/{worker}-0001.ndjson.gz.open"}


async def pages_of(store: Store) -> list[str]:
    """URLs of the rows, after checking that the records are theirs, one each, and all whole."""
    rows = await stored_rows(store)
    urls = [each.url for each in rows]
    assert sorted(await stored_urls(store)) == sorted(urls)
    files = await stored(store, WARC)
    for each in rows:
        assert each.warc_file is not None
        assert each.warc_offset is not None
        assert each.warc_length is not None
        assert each.warc_offset + each.warc_length <= len(files[each.warc_file])
    return urls


@pytest.mark.case("G02")
async def test_a_worker_killed_in_the_middle_loses_no_page_that_was_flushed(out: Path) -> None:
    for round_ in range(4):
        with writer(out, f"w{round_}") as process:
            printed = await asyncio.to_thread(lines, process, 30 + 21 * round_)
            process.kill()
            assert process.stdout is not None
            printed += [line for line in process.stdout.read().split("\n") if line]
        process.wait()
        store = open_store(str(out))
        assert open_files(out) != []
        await store.take_over("crawls/2026/09/21/c1")
        assert open_files(out) == []
        urls = await pages_of(store)
        assert set(printed) <= set(urls)
        assert len(urls) == len(set(urls))


async def test_the_files_of_a_live_worker_are_left_alone(out: Path) -> None:
    with writer(out, "live", "--stall") as process:
        await asyncio.to_thread(lines, process, 3)
        before = {path: path.read_bytes() for path in folder_of(out).rglob("*.open")}
        assert len(before) == 2
        archive = await Archive.open(open_store(str(out)), crawl(), "next")
        assert {path: path.read_bytes() for path in folder_of(out).rglob("*.open")} == before
        # They can be read as far as they are whole.
        assert len(await pages_of(open_store(str(out)))) == 3
        await archive.close()
        process.kill()
        process.wait()
        await Archive.open(open_store(str(out)), crawl(), "third")
    assert open_files(out) == []
    assert len(await pages_of(open_store(str(out)))) == 3


async def test_every_cut_of_the_rows_leaves_pairs_that_agree(out: Path) -> None:
    files = await left_by_a_kill(out)
    whole = {kind: path.read_bytes() for kind, path in files.items()}
    store = open_store(str(out))
    for end in range(0, len(whole[PAGES]) + 1, 7):
        for old in folder_of(out).rglob("*.gz"):
            old.unlink()
        files[WARC].write_bytes(whole[WARC])
        files[PAGES].write_bytes(whole[PAGES][:end])
        assert take_over(folder_of(out)) == 1
        urls = await pages_of(store)
        assert urls == [f"http://site.test/{number}" for number in range(len(urls))]
        assert open_files(out) == []


@pytest.mark.case("G02")
async def test_every_cut_of_the_records_leaves_pairs_that_agree(out: Path) -> None:
    files = await left_by_a_kill(out)
    whole = {kind: path.read_bytes() for kind, path in files.items()}
    store = open_store(str(out))
    kept = set()
    for end in range(0, len(whole[WARC]) + 1, 9):
        for old in folder_of(out).rglob("*.gz"):
            old.unlink()
        files[WARC].write_bytes(whole[WARC][:end])
        files[PAGES].write_bytes(whole[PAGES])
        assert take_over(folder_of(out)) == 1
        urls = await pages_of(store)
        assert urls == [f"http://site.test/{number}" for number in range(len(urls))]
        kept.add(len(urls))
    assert kept >= {0, 1, 2}


@pytest.mark.case("G02")
async def test_half_a_member_at_the_end_is_cut_off(out: Path) -> None:
    files = await left_by_a_kill(out)
    with files[WARC].open("ab") as warc, files[PAGES].open("ab") as pages:
        warc.write(compress(response_record(response(9), "c1"))[:-20])
        pages.write(compress(b"x" * 500)[:-3])
    await open_store(str(out)).take_over("crawls/2026/09/21/c1")
    assert await pages_of(open_store(str(out))) == [f"http://site.test/{number}" for number in range(3)]


async def test_records_without_rows_are_cut_off(out: Path) -> None:
    files = await left_by_a_kill(out)
    with files[WARC].open("ab") as warc:
        warc.write(compress(response_record(response(9), "c1")))
    assert take_over(folder_of(out)) == 1
    assert len(await pages_of(open_store(str(out)))) == 3


async def test_records_without_any_row_file_go_away(out: Path) -> None:
    files = await left_by_a_kill(out)
    files[PAGES].unlink()
    assert take_over(folder_of(out)) == 1
    assert list(folder_of(out).rglob("*.gz*")) == []


async def test_a_member_that_is_no_rows_is_cut_off(out: Path) -> None:
    files = await left_by_a_kill(out)
    with files[PAGES].open("ab") as pages:
        pages.write(compress(b'{"warc_offset": "a"}\n'))
    assert take_over(folder_of(out)) == 1
    assert len(await pages_of(open_store(str(out)))) == 3


async def test_rows_of_pages_without_record_are_kept(out: Path) -> None:
    files = await left_by_a_kill(out, pages=1)
    files[WARC].unlink()
    files[PAGES].write_bytes(
        compress(b'{"crawl_id":"c1","url":"u","url_key":"u","host":"h","depth":0,"outcome":"dead"}\n')
    )
    assert take_over(folder_of(out)) == 1
    assert [each.outcome for each in await stored_rows(open_store(str(out)))] == ["dead"]


async def test_a_pair_of_which_one_file_was_closed_is_closed_entirely(out: Path) -> None:
    files = await left_by_a_kill(out)
    files[WARC].rename(files[WARC].with_suffix(""))
    assert take_over(folder_of(out)) == 1
    assert open_files(out) == []
    assert len(await pages_of(open_store(str(out)))) == 3


async def test_a_closed_file_is_never_overwritten(out: Path) -> None:
    files = await left_by_a_kill(out)
    closed = files[WARC].with_suffix("")
    closed.write_bytes(b"somebody's")
    assert take_over(folder_of(out)) == 0
    assert closed.read_bytes() == b"somebody's"
    assert files[WARC].exists()


async def test_many_takeovers_at_once_do_it_once(out: Path) -> None:
    for number in range(10):
        files = await left_by_a_kill(out, f"dead{number}")
        with files[WARC].open("ab") as warc:
            warc.write(b"half a member")
        with ThreadPoolExecutor(8) as pool:
            taken = list(pool.map(take_over, [folder_of(out)] * 8))
        assert sum(taken) == 1
        assert open_files(out) == []
    assert len(await stored_rows(open_store(str(out)))) == 30
    for data in (await stored(open_store(str(out)), WARC)).values():
        assert len(read_warc(data)) == 4


async def test_a_worker_that_begins_during_takeovers_keeps_its_segment(out: Path) -> None:
    """A takeover may look at a file in the instant between its creation and its lock."""
    stop = asyncio.Event()

    async def take_over_again_and_again() -> None:
        while not stop.is_set():
            await asyncio.to_thread(take_over, folder_of(out))

    others = [asyncio.create_task(take_over_again_and_again()) for _ in range(2)]
    for number in range(40):
        archive = await Archive.open(open_store(str(out)), crawl(), "w")
        add(archive, number)
        await archive.flush()
        archive.row(row(f"more-{number}"))
        await archive.close()
    stop.set()
    await asyncio.gather(*others)
    assert len(await stored_urls(open_store(str(out)))) == 40
    assert len(await stored_rows(open_store(str(out)))) == 80
