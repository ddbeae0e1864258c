"""Verify: silent on a healthy archive, and a sentence for each planted fault."""

from __future__ import annotations

import gzip
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.archive import verify_report
from crawler.archive.archive import Archive
from crawler.archive.folder import parquet_name
from crawler.archive.members import Member, compress, members
from crawler.archive.merge import merge
from crawler.archive.rows import encode
from crawler.archive.schema import ParquetFile
from crawler.archive.stores import Store
from crawler.archive.verify import verify
from crawler.archive.verify_report import VerifyReport
from crawler.archive.warc import response_record
from crawler.model import Beat, CrawlRecord, Page, Parent, dead, done, skipped
from crawler.state.open import open_state
from crawler.state.port import CrawlState
from crawler.url_key import STANDARD
from tests.archive import making
from tests.archive.making import START, add, folder_of, response, row
from tests.emulator import Emulator

DONE = range(6)


def crawl(**settings: Any) -> CrawlRecord:
    """Without a limit on the rate: the rows that `making` makes are all of one moment."""
    return making.crawl(**{"rate": 0.0, **settings})


@pytest.fixture
async def state() -> AsyncIterator[CrawlState]:
    """A crawl of nine pages: six done, one skipped, one dead, one pending."""
    state = await open_state("sqlite:///:memory:", worker="w", create=True)
    await state.create(crawl())
    await discover(state, *DONE, "skipped", "dead")
    for lease in await state.claim(100, "c1"):
        name = lease.url.rpartition("/")[2]
        verdict = {"skipped": skipped("robots"), "dead": dead("dns", "no such host")}.get(name, done(100))
        await state.settle([(lease, verdict)])
    await discover(state, "pending")
    yield state
    await state.close()


async def discover(state: CrawlState, *names: int | str) -> None:
    found = [f"http://site.test/{name}" for name in names]
    await state.add("c1", [Page(url=url, digest=STANDARD.digest(url), gate="site.test", site="x") for url in found])


async def archived(store: Store) -> None:
    """What a healthy crawl leaves: the rows of those nine pages, one of them answered twice, two workers, merged."""
    first, second = await Archive.open(store, crawl(), "a"), await Archive.open(store, crawl(), "b")
    for number in DONE:
        add(first if number < 3 else second, number)
        await first.flush()
    add(second, 1)
    second.row(row("skipped", reason="robots"))
    second.row(row("dead", outcome="dead", reason="dns"))
    await first.close()
    await second.close()
    await merge(store, crawl())


async def test_a_healthy_archive_has_no_fault(store: Store, state: CrawlState) -> None:
    await archived(store)
    told: list[tuple[str, int]] = []
    report = await verify(state, store, crawl(), progress=lambda step, count: told.append((step, count)))
    assert report.faults == []
    assert report.ok
    assert (report.pages, report.rows, report.records, report.merged, report.spare) == (9, 9, 7, 8, 0)
    assert (report.counts.done, report.counts.pending, report.moving) == (6, 1, False)
    assert [step for step, _ in told] == ["ledger", "rows", "records", "merged"]


async def test_a_crawl_that_just_began_has_no_fault(store: Store) -> None:
    state = await open_state("sqlite:///:memory:", worker="w", create=True)
    await state.create(crawl())
    await discover(state, "pending")
    assert (await verify(state, store, crawl())).faults == []
    await state.close()


async def test_durable_pages_of_a_live_worker_are_seen(directory: Store, state: CrawlState) -> None:
    await archived(directory)
    archive = await Archive.open(directory, crawl(), "live")
    add(archive, "pending")
    await archive.flush()
    (lease,) = await state.claim(1, "c1")
    await state.settle([(lease, done())])
    await state.beat(Beat(worker="live", at=lease.start_at))
    report = await verify(state, directory, crawl())
    assert (report.faults, report.rows) == ([], 10)
    await archive.close()


async def test_a_capture_cut_short_by_a_kill_is_spare_when_its_page_came_again(store: Store, state: CrawlState) -> None:
    await archived(store)
    archive = await Archive.open(store, crawl(), "c")
    archive.record(response(2))
    archive.record(response("pending"))
    archive.row(row("dead", outcome="dead"))
    await archive.close()
    report = await verify(state, store, crawl())
    assert (report.faults, report.spare) == ([], 2)


Plant = Callable[[Path], None]


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    changed = change(data)
    assert changed != data
    path.write_bytes(changed)


def split(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        return [content(member) for member in members(file)]


def content(member: Member) -> bytes:
    assert member.data is not None
    return member.data


def flip_a_byte(folder: Path) -> None:
    def flip(data: bytes) -> bytes:
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 0x55]) + data[middle + 1 :]

    rewrite(folder / "warc/a-0001.warc.gz", flip)


def flip_a_byte_of_rows(folder: Path) -> None:
    rewrite(folder / "pages/a-0001.ndjson.gz", lambda data: data[:-30] + b"?" + data[-29:])


def drop_a_row(folder: Path) -> None:
    path = folder / "pages/b-0001.ndjson.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(compress(b"".join(line for line in lines if b"site.test/4" not in line)))


def drop_the_row_of_a_skipped_page(folder: Path) -> None:
    path = folder / "pages/b-0001.ndjson.gz"
    rewrite(path, lambda data: compress(gzip.decompress(data).replace(b'"outcome":"skipped"', b'"outcome":"dead"')))


def drop_a_record(folder: Path) -> None:
    path = folder / "warc/a-0001.warc.gz"
    path.write_bytes(b"".join(compress(data) for data in split(path)[:-1]))


def drop_a_file(folder: Path) -> None:
    (folder / "warc/b-0001.warc.gz").unlink()


def double_a_row(folder: Path) -> None:
    path = folder / "pages/a-0001.ndjson.gz"
    rewrite(path, lambda data: data + compress(split(path)[0]))


def break_a_digest(folder: Path) -> None:
    path = folder / "warc/a-0001.warc.gz"
    info, *records = split(path)
    assert records[2].count(b"Page 2") == 20
    records[2] = records[2].replace(b"Page 2", b"Page 9", 1)
    path.write_bytes(b"".join(map(compress, [info, *records])))


def point_to_another_page(folder: Path) -> None:
    path = folder / "pages/a-0001.ndjson.gz"
    rewrite(
        path, lambda data: compress(gzip.decompress(data).replace(b'"url":"http://site.test/0"', b'"url":"http://x/"'))
    )


def leave_the_description_out(folder: Path) -> None:
    path = folder / "warc/a-0001.warc.gz"
    path.write_bytes(b"".join(map(compress, split(path)[1:])))


def point_past_a_record(folder: Path) -> None:
    path = folder / "pages/a-0001.ndjson.gz"
    rewrite(path, lambda data: compress(gzip.decompress(data).replace(b'"warc_offset":', b'"warc_offset":1')))


def name_no_record(folder: Path) -> None:
    path = folder / "pages/a-0001.ndjson.gz"
    rewrite(path, lambda data: compress(gzip.decompress(data).replace(b'"warc_file":', b'"w":', 1)))


def boast_of_children(folder: Path) -> None:
    def boast(data: bytes) -> bytes:
        lines = gzip.decompress(data).splitlines(keepends=True)
        boasting = [line.replace(b'"links_new":null', b'"links_new":2') for line in lines if b"site.test/3" in line]
        return compress(b"".join([*(line for line in lines if b"site.test/3" not in line), *boasting]))

    rewrite(folder / "pages/b-0001.ndjson.gz", boast)


def add_a_row_of_nothing(folder: Path) -> None:
    (folder / "pages/x-0001.ndjson.gz").write_bytes(compress(encode(row("unheard-of", reason="robots"))))


def add_a_row_of_another_crawl(folder: Path) -> None:
    (folder / "pages/x-0001.ndjson.gz").write_bytes(compress(encode(row(1, crawl_id="other"))))


def add_a_line_that_is_no_row(folder: Path) -> None:
    (folder / "pages/x-0001.ndjson.gz").write_bytes(compress(b'{"url": 1}\n'))


def add_a_record_of_nothing(folder: Path) -> None:
    path = folder / "warc/a-0001.warc.gz"
    rewrite(path, lambda data: data + compress(response_record(response("unheard-of"), "c1")))


def double_a_merged_row(folder: Path) -> None:
    with ParquetFile(folder.with_suffix(".parquet")) as parquet:
        parquet.write([row("skipped"), row(1), row("skipped")])


def merge_a_row_of_nothing(folder: Path) -> None:
    with ParquetFile(folder.with_suffix(".parquet")) as parquet:
        parquet.write([row("unheard-of")])


PLANTED: dict[Plant, list[str]] = {
    flip_a_byte: ["warc/a-0001.warc.gz: ", "no whole gzip member"],
    flip_a_byte_of_rows: ["pages/a-0001.ndjson.gz: ", "http://site.test/2 is done but has no row"],
    drop_a_row: ["the page http://site.test/4 is done but has no row that says so"],
    drop_the_row_of_a_skipped_page: ["the page http://site.test/skipped is skipped but has no row that says so"],
    drop_a_record: ["warc/a-0001.warc.gz: a row points to ", "where no record begins"],
    drop_a_file: ["warc/b-0001.warc.gz is missing; 4 rows point to it"],
    double_a_row: ["warc/a-0001.warc.gz: two rows point to the record at "],
    break_a_digest: ["does not have the content of its WARC-Block-Digest http://site.test/2"],
    point_to_another_page: ["its row of another URL"],
    leave_the_description_out: ["a file begins with its only warcinfo"],
    point_past_a_record: ["a row points to 1", "where no record begins"],
    name_no_record: ["http://site.test/0 says done but names no record"],
    boast_of_children: ["the page http://site.test/3 added 2 pages, but the ledger has 0 of them"],
    add_a_row_of_nothing: ["the page http://site.test/unheard-of has a row but is not in the ledger"],
    add_a_row_of_another_crawl: ["the row of http://site.test/1 is of another crawl, other"],
    add_a_line_that_is_no_row: ["pages/x-0001.ndjson.gz: a line of the member at 0 is no row"],
    add_a_record_of_nothing: ["http://site.test/unheard-of has no row, nor is it in the ledger"],
    double_a_merged_row: ["the merged file has http://site.test/skipped twice"],
    merge_a_row_of_nothing: ["the merged page http://site.test/unheard-of is not in the ledger"],
}


async def found(state: CrawlState, store: Store) -> VerifyReport:
    report = await verify(state, store, crawl())
    assert not report.ok
    assert report.fault_count >= len(report.faults) > 0
    return report


@pytest.mark.case("G02")
@pytest.mark.parametrize(("plant", "says"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED])
async def test_it_finds(plant: Plant, says: list[str], directory: Store, state: CrawlState) -> None:
    await archived(directory)
    plant(folder_of(Path(directory.address)))
    text = "\n".join((await found(state, directory)).faults)
    for part in says:
        assert part in text


@pytest.mark.emulator
async def test_it_finds_a_lost_object(s3: Store, bucket: str, emulator: Emulator, state: CrawlState) -> None:
    await archived(s3)
    key = "some/prefix/crawls/2026/09/21/c1/warc/b-0001.warc.gz"
    emulator.client("s3").delete_object(Bucket=bucket, Key=key)
    assert (await found(state, s3)).faults == ["warc/b-0001.warc.gz is missing; 4 rows point to it"]


async def test_it_finds_a_lease_without_a_worker(directory: Store, state: CrawlState) -> None:
    await archived(directory)
    (lease,) = await state.claim(1, "c1")
    assert (await found(state, directory)).faults == [
        "1 pages are leased, but no worker is alive; one is http://site.test/pending"
    ]
    await state.beat(Beat(worker="w", at=lease.start_at))
    assert (await verify(state, directory, crawl())).ok


async def test_the_leases_of_a_living_fleet_are_no_fault_and_sums_of_a_finished_crawl_are_compared(
    directory: Store, state: CrawlState
) -> None:
    await archived(directory)
    await state.beat(Beat(worker="w", at=time.time()))
    assert (await verify(state, directory, crawl())).moving
    (lease,) = await state.claim(1, "c1")
    await state.settle([(lease, skipped("robots"))])
    archive = await Archive.open(directory, crawl(), "c")
    archive.row(row("pending", reason="robots"))
    await archive.close()
    report = await verify(state, directory, crawl())
    assert (report.faults, report.moving) == ([], False)


@pytest.mark.parametrize(("reason", "error"), [("", "no such host"), ("dns", "")])
async def test_it_finds_a_dead_page_that_does_not_say_why(
    directory: Store, state: CrawlState, reason: str, error: str
) -> None:
    await archived(directory)
    (lease,) = await state.claim(1, "c1")
    await state.settle([(lease, dead(reason, error))])
    archive = await Archive.open(directory, crawl(), "c")
    archive.row(row("pending", outcome="dead"))
    await archive.close()
    assert (await found(state, directory)).faults == [
        "the page http://site.test/pending is dead, and its reason or its error is not kept"
    ]


async def test_pages_that_a_row_says_were_added_are_those_the_ledger_has_of_it(
    directory: Store, state: CrawlState
) -> None:
    await archived(directory)
    parent = Parent(STANDARD.digest("http://site.test/pending"), "http://site.test/pending")
    children = [f"http://site.test/pending/{number}" for number in range(3)]
    await state.add("c1", [Page(url, STANDARD.digest(url), "site.test", 1, parent=parent) for url in children])
    archive = await Archive.open(directory, crawl(), "c")
    for links_new, says in ((2, []), (3, []), (4, ["the page http://site.test/pending added 4 pages, but "])):
        archive.row(row("pending", archive.record(response("pending")), links_new=links_new))
        await archive.flush()
        faults = (await verify(state, directory, crawl())).faults
        assert [text[: len(start)] for text, start in zip(faults, says, strict=True)] == says
    await archive.close()


async def test_it_finds_a_host_asked_too_fast(directory: Store, state: CrawlState) -> None:
    archive = await Archive.open(directory, crawl(), "a")
    for number in DONE:
        add(archive, number, fetched_at=START + number)
    archive.row(row("skipped", reason="robots"))
    archive.row(row("dead", outcome="dead", reason="dns"))
    await archive.close()
    polite = await verify(state, directory, crawl(rate=1.0))
    assert (polite.faults, polite.paced) == ([], 6)
    hasty = await verify(state, directory, crawl(rate=0.2))
    assert hasty.faults == [
        "site.test was asked 3 times within 2.00 s from 2026-09-21T14:13:20Z on (by the clocks of its workers);"
        " the rate is 0.2 a second"
    ]
    amended = msgspec.structs.replace(crawl(rate=0.2), amended_at=START - 30 + 4)
    assert (await verify(state, directory, amended)).paced == 2


async def test_faults_beyond_the_first_are_counted(
    directory: Store, state: CrawlState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_report, "SHOWN", 2)
    report = await found(state, directory)
    assert (len(report.faults), report.fault_count) == (2, 8)


async def test_it_changes_nothing(directory: Store, state: CrawlState) -> None:
    await archived(directory)
    files = {path: path.read_bytes() for path in Path(directory.address).rglob("*") if path.is_file()}
    assert Path(directory.address, parquet_name(crawl())) in files
    await verify(state, directory, crawl())
    assert {path: path.read_bytes() for path in Path(directory.address).rglob("*") if path.is_file()} == files
