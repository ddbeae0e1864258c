"""The archive over each store: what a flush promises, where records lie, what a store that cannot serve says."""

from __future__ import annotations

import asyncio
import gzip
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawler.archive import archive as archive_module
from crawler.archive.archive import Archive
from crawler.archive.folder import PAGES, WARC, crawl_folder
from crawler.archive.rows import PageRow, encode
from crawler.archive.stores import Store, open_store
from crawler.errors import StoreError, StoreUnavailable, UsageError
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


async def test_what_was_handed_in_before_a_flush_can_be_read_after_it(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    add(archive, 1)
    archive.row(row("refused", reason="robots"))
    assert archive.size > 0
    await archive.flush()
    assert archive.size == 0
    assert await stored_urls(store) == ["http://site.test/1"]
    assert [(each.url, each.outcome) for each in await stored_rows(store)] == [
        ("http://site.test/1", "done"),
        ("http://site.test/refused", "skipped"),
    ]
    await archive.close()


async def test_files_lie_where_the_layout_says(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "host-7")
    add(archive, 1)
    await archive.close()
    assert crawl_folder(crawl()) == "crawls/2026/09/21/c1"
    assert list(await stored(store, WARC)) == ["warc/host-7-0001.warc.gz"]
    assert list(await stored(store, PAGES)) == ["pages/host-7-0001.ndjson.gz"]


async def test_a_location_delimits_the_record_among_others(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    locations = {}
    for number in range(5):
        locations[number] = add(archive, number)
        await archive.flush()
    await archive.close()
    files = await stored(store, WARC)
    for number, place in locations.items():
        member = files[place.warc_file][place.warc_offset : place.warc_offset + place.warc_length]
        assert f"WARC-Target-URI: http://site.test/{number}\r\n".encode() in gzip.decompress(member)
    for data in files.values():
        assert read_warc(data)[0][0] == "warcinfo"


async def test_a_location_brings_the_digest_of_the_decoded_body(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "w")
    place = archive.record(response(stored=gzip.compress(b""), body=b""))
    assert place.digest == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


async def test_an_archive_that_got_nothing_leaves_nothing(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    await archive.flush()
    await archive.close()
    assert await stored(store, WARC) == {}
    assert await stored(store, PAGES) == {}


async def test_rows_alone_make_no_warc_file(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    archive.row(row())
    await archive.close()
    assert await stored(store, WARC) == {}
    assert len(await stored_rows(store)) == 1


async def test_a_worker_that_comes_back_under_its_name_goes_on_counting(store: Store) -> None:
    for number in (1, 2):
        archive = await Archive.open(store, crawl(), "w")
        add(archive, number)
        await archive.close()
    other = await Archive.open(store, crawl(), "w-x")
    add(other, 3)
    await other.close()
    assert list(await stored(store, WARC)) == ["warc/w-0001.warc.gz", "warc/w-0002.warc.gz", "warc/w-x-0001.warc.gz"]
    assert await stored_urls(store) == ["http://site.test/1", "http://site.test/2", "http://site.test/3"]


async def test_a_full_segment_is_followed_by_the_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "SEGMENT_SIZE", 2000)
    archive = await Archive.open(store, crawl(), "w")
    for number in range(12):
        place = add(archive, number)
        assert place.warc_offset <= 2000
    await archive.close()
    files = await stored(store, WARC)
    assert len(files) > 2
    assert all(read_warc(data)[0][0] == "warcinfo" for data in files.values())
    assert sorted(await stored_urls(store)) == sorted(f"http://site.test/{number}" for number in range(12))


async def test_records_may_come_from_a_thread_while_a_flush_is_at_work(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")

    def write() -> None:
        for number in range(300):
            add(archive, number)

    writing = asyncio.create_task(asyncio.to_thread(write))
    while not writing.done():
        await archive.flush()
        await asyncio.sleep(0)
    await archive.close()
    rows = await stored_rows(store)
    assert sorted(each.url for each in rows) == sorted(await stored_urls(store))
    assert len(rows) == 300
    files = await stored(store, WARC)
    for each in rows:
        assert each.warc_file is not None
        assert each.warc_offset is not None
        assert each.warc_length is not None
        member = files[each.warc_file][each.warc_offset : each.warc_offset + each.warc_length]
        assert f"WARC-Target-URI: {each.url}\r\n".encode() in gzip.decompress(member)


async def test_a_cancelled_flush_is_made_good_by_the_next(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    for number in range(40):
        add(archive, number)
        flush = asyncio.create_task(archive.flush())
        for _ in range(number % 5):
            await asyncio.sleep(0)
        flush.cancel()
    await archive.close()
    assert sorted(await stored_urls(store)) == sorted(f"http://site.test/{number}" for number in range(40))
    assert len(await stored_rows(store)) == 40


async def test_a_flush_is_free_in_a_folder_and_rare_in_a_bucket(tmp_path: Path, s3: Store) -> None:
    folder = await Archive.open(open_store(str(tmp_path)), crawl(lease=60), "w")
    assert folder.flush_every == 0.0
    assert (await Archive.open(s3, crawl(lease=60), "w")).flush_every == 15.0
    assert (await Archive.open(s3, crawl(lease=3600), "w")).flush_every == 30.0


async def test_a_live_folder_shows_open_names_until_closed(directory: Store, tmp_path: Path) -> None:
    archive = await Archive.open(directory, crawl(), "w")
    add(archive, 1)
    await archive.flush()
    assert open_files(tmp_path / "out") == ["w-0001.ndjson.gz.open", "w-0001.warc.gz.open"]
    await archive.close()
    assert open_files(tmp_path / "out") == []
    await archive.close()


async def test_two_workers_of_one_name_do_not_overwrite_each_other(directory: Store) -> None:
    first = await Archive.open(directory, crawl(), "w")
    second = await Archive.open(directory, crawl(), "w")
    add(first, 1)
    await first.flush()
    add(second, 2)
    with pytest.raises(StoreError, match="two workers must not have the same name"):
        await second.flush()
    await first.close()
    assert await stored_urls(directory) == ["http://site.test/1"]


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_acknowledges_nothing_and_loses_nothing(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "w")
    add(archive, 1)
    await archive.flush()
    for number in range(2, 30):
        add(archive, number)
    # The records are cut off in the middle of a member; then, with more room, the rows.
    for limit in (3000, 400):
        with file_size_limit(limit):
            with pytest.raises(StoreUnavailable, match=r"cannot write to .*: File too large"):
                await archive.flush()
            assert archive.size > 0
        add(archive, f"after-{limit}")
    await archive.close()
    expected = sorted(f"http://site.test/{number}" for number in (*range(1, 30), "after-3000", "after-400"))
    assert sorted(await stored_urls(directory)) == expected
    assert sorted(each.url for each in await stored_rows(directory)) == expected


@pytest.mark.case("G06")
async def test_what_parquet_cannot_hold_is_replaced_in_rows(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "w")
    archive.row(row(title="a\ud800b\udfffc", error="x\x00y", lang="\\u0000"))
    await archive.close()
    (only,) = await stored_rows(directory)
    assert (only.title, only.error, only.lang) == ("a\ufffdb\ufffdc", "x\ufffdy", "\\u0000")


def test_a_row_is_one_line_whatever_is_in_it() -> None:
    line = encode(row(title="a\nb\r\u2028c", error="\x85"))
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")


def test_encoding_leaves_the_row_as_it_was() -> None:
    dirty = row(title="a\x00")
    encode(dirty)
    assert dirty.title == "a\x00"
    assert isinstance(dirty, PageRow)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "--store is empty"),
        ("ftp://host/dir", "is of no known form"),
        ("file://host/dir", "is no absolute path"),
        ("file:relative", "is of no known form"),
        ("s3:/bucket/x", "is of no known form"),
        ("file://", "is no absolute path"),
        ("s3://", "names no bucket"),
        ("s3://UPPER/x", "names no bucket"),
    ],
)
def test_an_address_of_no_known_form_is_refused(address: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        open_store(address)


def test_a_store_gives_its_address_back(tmp_path: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}/a%20b", "s3://bucket/a/b", "s3://bucket"):
        assert open_store(address).address == address
    assert Path(open_store("relative").address).is_absolute()


async def test_a_folder_is_created_by_check_without_debris(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/new%20folder/out")
    assert not (tmp_path / "new folder").exists()
    await store.check()
    assert list((tmp_path / "new folder" / "out").iterdir()) == []


async def test_a_folder_that_cannot_be_written_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/out")):
        with pytest.raises(StoreError, match=f"cannot write to the folder {path}: ") as caught:
            await open_store(str(path)).check()
        assert "\n" not in str(caught.value)


async def test_open_files_of_a_crawl_are_its_own(directory: Store, tmp_path: Path) -> None:
    archive = await Archive.open(directory, crawl(), "../w/é")
    add(archive, 1)
    await archive.close()
    files = sorted(path.relative_to(folder_of(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.gz"))
    assert [str(file) for file in files] == [
        "pages/%2E.%2Fw%2F%C3%A9-0001.ndjson.gz",
        "warc/%2E.%2Fw%2F%C3%A9-0001.warc.gz",
    ]
