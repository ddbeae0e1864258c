"""The merge: one row a URL, the declared schema, exact duplicates, whatever lies in the row files."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from crawler.archive import merge as merge_module
from crawler.archive.archive import Archive
from crawler.archive.folder import parquet_name
from crawler.archive.merge import merge
from crawler.archive.rows import PageRow, encode
from crawler.archive.schema import SCHEMA
from crawler.archive.stores import Store, open_store
from tests.archive.making import START, add, crawl, folder_of, row


async def write(store: Store, worker: str, *rows: PageRow) -> None:
    archive = await Archive.open(store, crawl(), worker)
    for each in rows:
        archive.row(each)
    await archive.close()


def answered(number: int | str, **changes: Any) -> PageRow:
    return row(number, outcome="done", status=200, bytes=9, **changes)


async def read(store: Store) -> dict[str, dict[str, Any]]:
    """The merged rows by the last part of their URL."""
    async with store.existing(parquet_name(crawl())) as path:
        assert path is not None
        rows = pq.read_table(path).to_pylist()
    by_name = {each["url"].rpartition("/")[2]: each for each in rows}
    assert len(by_name) == len(rows)
    return by_name


async def test_rows_of_all_workers_become_one_file(store: Store) -> None:
    first, second = await Archive.open(store, crawl(), "a"), await Archive.open(store, crawl(), "b")
    for number in range(10):
        add(first if number % 2 else second, number)
    await first.flush()
    await first.close()
    await second.close()
    result = await merge(store, crawl())
    assert (result.rows, result.files, result.faults) == (10, 2, ())
    assert result.path == f"{store.address}/crawls/2026/09/21/c1.parquet"
    assert sorted(await read(store)) == sorted(map(str, range(10)))


async def test_values_come_through_unchanged(directory: Store) -> None:
    full = PageRow(
        crawl_id="c1", url="http://a.test/x", url_key="http://a.test/x", host="a.test", depth=3,
        parent_url="http://a.test/", discovered_at=START + 0.000001, outcome="done", reason="r", status=404,
        fetched_at=START + 0.25, elapsed_ms=17, attempts=2, redirect_to="http://b.test/", content_type="text/html",
        charset="utf-8", bytes=2**40, truncated=True, digest="sha256:00", etag='"e"', last_modified="m",
        title="T\u00eftle \U0001f577", lang="de", canonical_url="http://a.test/c", noindex=False, links_found=5,
        links_new=4, warc_file="warc/a-0001.warc.gz", warc_offset=2**40, warc_length=7, error="e", extra='{"a":1}',
    )  # fmt: skip
    await write(directory, "w", full)
    await merge(directory, crawl())
    (only,) = (await read(directory)).values()
    assert only["discovered_at"].timestamp() == pytest.approx(START + 0.000001, abs=1e-6)
    assert only["discovered_at"].microsecond == 1
    assert only["fetched_at"].isoformat() == "2026-09-21T14:13:20.250000+00:00"
    expected = msgspec.structs.asdict(full)
    for name in ("discovered_at", "fetched_at"):
        del only[name], expected[name]
    assert only == expected


@pytest.mark.case("G07")
def test_the_schema_is_that_of_the_row() -> None:
    assert tuple(SCHEMA.names) == PageRow.__struct_fields__
    assert SCHEMA.metadata == {b"crawler.schema_version": b"1"}
    assert all(field.nullable for field in SCHEMA)


@pytest.mark.case("G07")
async def test_columns_of_nulls_have_their_type_so_that_files_unify(tmp_path: Path) -> None:
    empty, full = open_store(str(tmp_path / "a")), open_store(str(tmp_path / "b"))
    await write(empty, "w", row(1))
    await write(full, "w", answered(2, title="x", noindex=True, warc_offset=1))
    paths = []
    for store in (empty, full):
        await merge(store, crawl())
        paths.append(f"{folder_of(Path(store.address))}.parquet")
        assert pq.read_schema(paths[-1]).equals(SCHEMA, check_metadata=True)
    assert pq.read_schema(paths[0]).field("fetched_at").type == pa.timestamp("us", tz="UTC")
    assert pyarrow.dataset.dataset(paths).to_table().column("title").to_pylist() == [None, "x"]


async def test_an_answer_beats_the_other_outcomes_whenever_it_came(directory: Store) -> None:
    await write(directory, "a", answered(1, fetched_at=START), answered(2, fetched_at=START + 9))
    await write(directory, "b", row(1, outcome="dead", fetched_at=START + 5), row(2, fetched_at=START + 5))
    await merge(directory, crawl())
    assert {name: each["outcome"] for name, each in (await read(directory)).items()} == {"1": "done", "2": "done"}


@pytest.mark.case("G05")
async def test_of_several_answers_the_latest_wins_in_whatever_file_it_is(directory: Store) -> None:
    await write(directory, "a", answered(1, title="new", fetched_at=START + 2), row(2, reason="old", outcome="dead"))
    await write(directory, "b", answered(1, title="old", fetched_at=START + 1))
    await write(directory, "c", row(2, reason="limit", fetched_at=START + 2), answered(3, title="x"))
    await write(directory, "d", answered(3, title="last written"))
    await merge(directory, crawl())
    merged = await read(directory)
    assert (merged["1"]["title"], merged["2"]["reason"], merged["3"]["title"]) == ("new", "limit", "last written")


async def test_urls_of_one_key_are_one_row(directory: Store) -> None:
    twin = msgspec.structs.replace(answered("a?utm_source=x"), url_key="http://site.test/a")
    await write(directory, "w", answered("a", fetched_at=START), twin)
    assert (await merge(directory, crawl())).rows == 1


async def test_exact_duplicates_name_the_page_that_was_fetched_first(directory: Store) -> None:
    await write(
        directory,
        "w",
        answered("later", digest="sha256:aa", fetched_at=START + 3),
        answered("first", digest="sha256:aa", fetched_at=START + 1),
        answered("second", digest="sha256:aa", fetched_at=START + 2),
        answered("alone", digest="sha256:bb"),
        row("missing", outcome="done", status=404, bytes=9, digest="sha256:aa"),
        row("empty-1", outcome="done", status=200, bytes=0, digest="sha256:cc"),
        row("empty-2", outcome="done", status=200, bytes=0, digest="sha256:cc"),
        row("refused"),
    )
    await merge(directory, crawl())
    named = {name: each["duplicate_of"] for name, each in (await read(directory)).items() if each["duplicate_of"]}
    assert named == {"later": "http://site.test/first", "second": "http://site.test/first"}


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
async def test_of_duplicates_fetched_at_once_the_smallest_key_is_the_original(
    directory: Store, names: tuple[str, ...]
) -> None:
    for worker, name in zip("xyz", names, strict=True):
        await write(directory, worker, answered(name, digest="sha256:aa", fetched_at=START))
    await merge(directory, crawl())
    named = {name: each["duplicate_of"] for name, each in (await read(directory)).items()}
    assert named == {"a": None, "b": "http://site.test/a", "c": "http://site.test/a"}


async def test_duplicates_name_the_url_that_was_sent(directory: Store) -> None:
    first = answered("p?b=1&a=2&utm_source=x", digest="sha256:aa", fetched_at=START)
    await write(directory, "w", first, answered("q", digest="sha256:aa", fetched_at=START + 1))
    await merge(directory, crawl())
    assert (await read(directory))["q"]["duplicate_of"] == first.url != first.url_key


async def test_an_unchanged_page_has_duplicates_and_an_unasked_304_has_none(directory: Store) -> None:
    unchanged: dict[str, Any] = {
        "digest": "sha256:aa",
        "original_file": "x",
        "original_offset": 1,
        "original_length": 1,
    }
    await write(
        directory,
        "w",
        row(1, outcome="done", status=304, bytes=9, fetched_at=START, **unchanged),
        row(2, outcome="done", status=304, bytes=9, fetched_at=START + 1, **unchanged),
        row(3, outcome="done", status=304, bytes=0, digest="sha256:aa"),
        row(4, outcome="dead", status=200, bytes=9, digest="sha256:aa", fetched_at=START - 1),
    )
    assert (await merge(directory, crawl())).unchanged == 2
    named = {name: each["duplicate_of"] for name, each in (await read(directory)).items()}
    assert named == {"1": None, "2": "http://site.test/1", "3": None, "4": None}


async def test_a_row_that_lost_is_nobodys_original(directory: Store) -> None:
    await write(
        directory,
        "w",
        answered("changed", digest="sha256:aa", fetched_at=START + 1),
        answered("changed", digest="sha256:bb", fetched_at=START + 2),
        answered("other", digest="sha256:aa", fetched_at=START + 3),
    )
    await merge(directory, crawl())
    assert [each["duplicate_of"] for each in (await read(directory)).values()] == [None, None]


async def test_repeating_it_changes_nothing_but_what_was_added(store: Store) -> None:
    await write(store, "a", answered(1))
    await merge(store, crawl())
    before = await read(store)
    await merge(store, crawl())
    assert await read(store) == before
    await write(store, "b", answered(2))
    assert (await merge(store, crawl())).rows == 2


async def test_merges_at_once_leave_one_whole_file(directory: Store) -> None:
    await write(directory, "a", *(answered(number) for number in range(200)))
    results = await asyncio.gather(*(merge(directory, crawl()) for _ in range(4)))
    assert {result.rows for result in results} == {200}
    assert len(await read(directory)) == 200
    folder = folder_of(Path(directory.address)).parent
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["c1.parquet"]


async def test_durable_rows_of_a_live_worker_are_included(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "live")
    add(archive, 1)
    await archive.flush()
    add(archive, 2)
    assert (await merge(directory, crawl())).rows == 1
    await archive.close()
    assert (await merge(directory, crawl())).rows == 2


async def test_a_crawl_without_rows_gets_an_empty_file(store: Store) -> None:
    result = await merge(store, crawl())
    assert (result.rows, result.files) == (0, 0)
    assert await read(store) == {}


async def test_damage_costs_its_member_and_is_told(directory: Store) -> None:
    archive = await Archive.open(directory, crawl(), "w")
    for number in range(3):
        add(archive, number)
        await archive.flush()
    await archive.close()
    path = folder_of(Path(directory.address)) / "pages/w-0001.ndjson.gz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    result = await merge(directory, crawl())
    assert sorted(await read(directory)) == ["0", "2"]
    assert len(result.faults) == 1
    assert result.faults[0].startswith("pages/w-0001.ndjson.gz: ")


async def test_a_merge_that_fails_leaves_the_earlier_file(directory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await write(directory, "a", answered(1))
    await merge(directory, crawl())
    await write(directory, "b", answered(2, digest="sha256:aa"))
    with monkeypatch.context() as broken:
        broken.setattr(merge_module, "_has_content", lambda row: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await merge(directory, crawl())
    assert list(await read(directory)) == ["1"]
    assert (await merge(directory, crawl())).rows == 2


async def test_row_groups_hold_every_row_once(directory: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "BATCH", 7)
    numbers = list(range(50)) + list(range(0, 50, 3))
    random.Random(3).shuffle(numbers)
    await write(directory, "w", *(answered(number, digest=f"sha256:{number % 10:02}") for number in numbers))
    assert (await merge(directory, crawl())).rows == 50
    merged = await read(directory)
    assert len(merged) == 50
    assert sum(each["duplicate_of"] is None for each in merged.values()) == 10


def test_an_older_row_without_the_newest_columns_can_be_read() -> None:
    known = encode(answered(1)).replace(b'"extra":null', b'"a_later_column":1')
    assert msgspec.json.decode(known, type=PageRow).extra is None
