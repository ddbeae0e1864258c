"""Revisit records, the validators of a crawl as a file, and reading a record back by its place."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord

from crawler.archive.archive import Archive, Location
from crawler.archive.folder import WARC, crawl_folder
from crawler.archive.inspection import inspect
from crawler.archive.members import compress
from crawler.archive.original import read_original
from crawler.archive.stores import Store
from crawler.archive.validators import COLUMNS, Known, Validators, write_validators
from crawler.archive.verify import verify
from crawler.archive.warc import response_record, revisit_record, warc_date
from crawler.errors import StoreError
from crawler.fetched import Response, Revisit
from crawler.model import Page, done
from crawler.state.open import open_state
from crawler.url_key import STANDARD
from tests.archive.making import START, crawl, response, row, stored
from tests.archive.relay import Relay

LATER = START + 24 * 3600
FOLDER = crawl_folder(crawl())


def records(data: bytes) -> list[ArcWarcRecord]:
    """All records, their HTTP headers read, by a reader that raises on a wrong digest."""
    found = []
    for record in ArchiveIterator(io.BytesIO(data), check_digests="raise"):
        record.body = record.raw_stream.read()
        found.append(record)
    return found


def known(location: Location, page: Response, **changes: Any) -> Known:
    values: dict[str, Any] = {
        "etag": '"e"',
        "last_modified": None,
        "fetched_at": page.fetched_at,
        "digest": sha256(page.body).digest(),
        "size": len(page.body),
        "file": f"{FOLDER}/{location.warc_file}",
        "offset": location.warc_offset,
        "length": location.warc_length,
    }
    return Known(**{**values, **changes})


async def archived(store: Store, *pages: Response) -> list[Location]:
    archive = await Archive.open(store, crawl(), "a")
    locations = [archive.record(page) for page in pages]
    await archive.close()
    return locations


async def read(store: Store, entry: Known) -> bytes:
    async with store.ranges() as read_range:
        return await read_range(entry.file, entry.offset, entry.length)


# ---------------------------------------------------------------- records


@pytest.mark.case("C16", "G05")
async def test_an_independent_reader_follows_a_revisit_to_its_original(store: Store) -> None:
    page = response(1)
    (location,) = await archived(store, page)
    entry = known(location, page)
    original = read_original(await read(store, entry), entry, page.url)
    assert original is not None
    assert (original.body, original.stored) == (page.body, page.stored)
    not_modified = response(
        1, status=304, reason="Not Modified", headers=((b"ETag", b'"e"'),), stored=b"", fetched_at=LATER
    )
    again = response(1, fetched_at=LATER + 1)
    archive = await Archive.open(store, crawl(), "b")
    places = [
        archive.record(not_modified, Revisit(original.reference, page)),
        archive.record(again, Revisit(original.reference, again)),
    ]
    await archive.close()
    assert {place.digest for place in places} == {location.digest}, "a row's digest is that of the unchanged body"

    files = await stored(store, WARC)
    (_, first), (_, unchanged, same) = (records(data) for _, data in sorted(files.items()))
    for record in (unchanged, same):
        header = record.rec_headers.get_header
        assert record.rec_type == "revisit"
        assert record.body == b""
        assert header("WARC-Target-URI") == header("WARC-Refers-To-Target-URI") == page.url
        assert header("WARC-Refers-To-Date") == first.rec_headers.get_header("WARC-Date") == warc_date(page.fetched_at)
        assert header("WARC-Refers-To") == first.rec_headers.get_header("WARC-Record-ID") != header("WARC-Record-ID")
        assert header("WARC-Payload-Digest") == first.rec_headers.get_header("WARC-Payload-Digest")
    assert unchanged.http_headers.get_statuscode() == "304"
    assert unchanged.http_headers.get_header("ETag") == '"e"'
    assert (
        unchanged.rec_headers.get_header("WARC-Profile")
        == "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
    )
    assert same.http_headers.get_statuscode() == "200"
    assert same.http_headers.get_header("Content-Length") == str(len(page.stored)), (
        "what a replay says of the original's body"
    )
    profile = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    assert same.rec_headers.get_header("WARC-Profile") == profile
    assert same.rec_headers.get_header("WARC-Truncated") == "length"


def revisit_bytes() -> bytes:
    page = response(1)
    entry = known(Location("warc/a-0001.warc.gz", 0, 1, ""), page)
    original = read_original(compress(response_record(page, "c1")), entry, page.url)
    assert original is not None
    return revisit_record(response(1, status=304, headers=(), stored=b"", fetched_at=LATER), "c2", original.reference)


def test_a_whole_revisit_record_has_no_flaw() -> None:
    assert inspect(revisit_bytes()) == ("revisit", "http://site.test/1", "")


@pytest.mark.parametrize(
    "field", [b"WARC-Profile", b"WARC-Refers-To-Target-URI", b"WARC-Refers-To-Date", b"WARC-Payload-Digest"]
)
def test_a_revisit_record_that_refers_to_nothing_is_flawed(field: bytes) -> None:
    assert inspect(revisit_bytes().replace(field + b":", b"X:")).flaw.endswith(f"has no {field.decode()}")


# ---------------------------------------------------------------- reading back


@pytest.mark.parametrize("coding", [b"gzip", b"unheard-of", b""])
async def test_a_body_is_read_back_as_it_was_decoded(directory: Store, coding: bytes) -> None:
    plain = b"<a href=/next>next</a>" * 50
    held = gzip.compress(plain) if coding == b"gzip" else plain
    headers = (
        (b"Content-Type", b"text/html"),
        (b"X-Empty", b""),
        *(((b"Content-Encoding", coding),) if coding else ()),
    )
    page = response(1, headers=headers, stored=held, body=plain, decoded=coding != b"unheard-of")
    other, location = await archived(directory, response(2), page)
    entry = known(location, page)
    original = read_original(await read(directory, entry), entry, page.url)
    assert original is not None
    assert (original.body, original.stored, original.decoded) == (plain, held, page.decoded)
    assert original.headers == headers
    assert other.warc_offset < location.warc_offset


async def test_what_is_not_the_record_looked_for_counts_as_none(directory: Store) -> None:
    page, redirect = response(1), response(3, status=301, stored=b"moved")
    location, other, moved = await archived(directory, page, response(2), redirect)
    entry = known(location, page)
    member = await read(directory, entry)
    flipped = bytearray(member)
    flipped[len(member) // 2] ^= 0x10
    bad = [b"", b"no gzip", member[:-9], bytes(flipped), compress(b"no record"), compress(revisit_bytes())]
    assert [read_original(data, entry, page.url) for data in bad] == [None] * len(bad)
    assert read_original(member, entry, "http://site.test/2") is None
    assert read_original(member, known(location, page, digest=bytes(32)), page.url) is None
    assert read_original(member, known(location, page, size=3), page.url) is None
    assert read_original(await read(directory, known(other, page)), known(other, page), page.url) is None
    not_a_page = known(moved, redirect)
    assert read_original(await read(directory, not_a_page), not_a_page, redirect.url) is None
    assert read_original(member, entry, page.url) is not None


async def test_a_part_of_a_file_is_read_and_a_missing_file_is_an_error(store: Store) -> None:
    page = response(1)
    (location,) = await archived(store, page)
    whole = (await stored(store, WARC))[location.warc_file]
    name = f"{FOLDER}/{location.warc_file}"
    async with store.ranges() as read_range:
        assert await read_range(name, 5, 20) == whole[5:25]
        assert await read_range(name, len(whole) - 3, 20) == whole[-3:]
        assert await read_range(name, location.warc_offset, location.warc_length) == whole[location.warc_offset :]
        with pytest.raises(StoreError, match="nowhere"):
            await read_range(f"{FOLDER}/warc/nowhere.warc.gz", 0, 10)


async def test_a_file_that_is_still_open_is_read_under_its_final_name(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "a")
    page = response(1)
    location = archive.record(page)
    await archive.flush()
    entry = known(location, page)
    assert read_original(await read(directory, entry), entry, page.url) is not None
    await archive.close()


# ---------------------------------------------------------------- the validators of a crawl


def merged(number: int | str, **changes: Any) -> dict[str, Any]:
    """A merged row as it comes out of Parquet."""
    location = Location("warc/a-0001.warc.gz", 100, 50, "sha256:" + sha256(b"%r" % number).hexdigest())
    made = row(number, location, etag=f'"{number}"', truncated=False, **changes)
    values = {name: getattr(made, name) for name in COLUMNS}
    return values | {"fetched_at": datetime.fromtimestamp(made.fetched_at or 0, UTC)}


def written(path: Path, *rows: dict[str, Any]) -> Validators:
    write_validators(path, crawl(), rows)
    return Validators(path)


def test_an_entry_is_found_by_the_url_that_went_on_the_wire(tmp_path: Path) -> None:
    validators = written(tmp_path / "v", *(merged(number) for number in range(50)))
    assert validators.find("http://site.test/7") == Known(
        '"7"', None, START + 1.5, sha256(b"7").digest(), 400, f"{FOLDER}/warc/a-0001.warc.gz", 100, 50
    )
    for spelling in ("http://site.test/7?", "http://other.test/7", "https://site.test/7", "http://site.test/%37", "x"):
        assert validators.find(spelling) is None


def test_an_unchanged_page_refers_to_the_record_that_has_the_body_however_old(tmp_path: Path) -> None:
    place = {"original_file": "crawls/2026/01/01/c0/warc/x-0001.warc.gz", "original_offset": 7, "original_length": 9}
    validators = written(tmp_path / "v", merged(1, status=304, **place), merged(2, **place))
    for number in (1, 2):
        found = validators.find(f"http://site.test/{number}")
        assert found is not None
        assert (found.file, found.offset, found.length) == tuple(place.values())


@pytest.mark.parametrize(
    "changes",
    [{"status": 404}, {"status": 304}, {"outcome": "dead"}, {"truncated": True}, {"redirect_to": "http://site.test/x"},
     {"digest": None}, {"warc_file": None}],
)  # fmt: skip
def test_what_is_no_whole_page_has_no_entry(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert written(tmp_path / "v", merged(1) | changes, merged(2)).find("http://site.test/1") is None


def find_all(path: Path) -> list[Known | None]:
    validators = Validators(path)
    return [validators.find(f"http://site.test/{number}") for number in range(2000)]


def test_a_file_that_is_none_or_damaged_is_an_error_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "a ?#%41"
    write_validators(path, crawl(), (merged(number) for number in range(2000)))
    whole = path.read_bytes()
    assert Validators(path).find("http://site.test/7") is not None
    for bad in (b"", b"no database at all" * 100, b"SQLite format 3\0" + bytes(5000)):
        path.write_bytes(bad)
        with pytest.raises(StoreError):
            Validators(path)
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(StoreError):
        find_all(path)
    with pytest.raises(StoreError):
        Validators(tmp_path / "missing")


def test_it_is_written_in_flat_memory(tmp_path: Path) -> None:
    def rows(count: int) -> Iterator[dict[str, Any]]:
        template = merged(0)
        for number in range(count):
            yield template | {"url": f"http://site.test/{number}"}

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            path = tmp_path / str(count)
            assert write_validators(path, crawl(), rows(count)) == count
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    assert peak(20_000) < peak(200) + 200_000


@pytest.mark.emulator
async def test_what_is_open_of_a_fetched_copy_outlives_its_name(s3: Store, tmp_path: Path) -> None:
    async with s3.replace("v") as path:
        write_validators(path, crawl(), (merged(number) for number in range(2000)))
    async with s3.existing("v") as copy:
        assert copy is not None
        validators = Validators(copy)
    assert not copy.exists()
    assert all(validators.find(f"http://site.test/{number}") for number in range(2000))


@pytest.mark.emulator
async def test_a_bucket_that_is_away_is_an_error_of_the_store(
    s3: Store, emulator: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (location,) = await archived(s3, response(1))
    host, _, port = emulator.endpoint.rpartition("//")[2].partition(":")
    async with Relay(host, int(port)) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.port}")
        async with s3.ranges() as read_range:
            name = f"{FOLDER}/{location.warc_file}"
            await relay.down()
            with pytest.raises(StoreError, match="cannot read s3://"):
                await read_range(name, 0, 5)
            await relay.up()
            assert await read_range(name, 0, 5)


# ---------------------------------------------------------------- verify


@pytest.mark.parametrize("refers", [True, False])
async def test_verify_holds_a_row_against_the_type_of_its_record(directory: Store, refers: bool) -> None:
    page = response(1)
    entry = known(Location("warc/x-0001.warc.gz", 0, 1, ""), page)
    original = read_original(compress(response_record(page, "c0")), entry, page.url)
    assert original is not None
    state = await open_state("sqlite:///:memory:", worker="w", create=True)
    free = crawl(rate=0.0)
    await state.create(free)
    await state.add("c1", [Page(url=page.url, digest=STANDARD.digest(page.url), gate="site.test", site="x")])
    await state.settle([(lease, done(100)) for lease in await state.claim(1, "c1")])
    archive = await Archive.open(directory, free, "a")
    location = archive.record(page, Revisit(original.reference, page))
    archive.row(row(1, location, original_file=entry.file if refers else None))
    await archive.close()
    faults = (await verify(state, directory, free)).faults
    await state.close()
    assert len(faults) == (0 if refers else 1)
    assert all("is of type revisit, its row says that the body is the record's own" in fault for fault in faults)
