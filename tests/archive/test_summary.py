"""The summary: what the merged rows sum up to, for programs and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.archive.archive import Archive
from crawler.archive.folder import crawl_folder, parquet_name, summary_name, summary_text_name
from crawler.archive.merge import merge
from crawler.archive.rows import PageRow
from crawler.archive.stores import Store
from crawler.archive.summary import (
    BROKEN,
    BrokenLink,
    Files,
    SlowHost,
    Summary,
    Totals,
    doubts,
    files_of,
    moment,
    read_summary,
    text,
    totals,
    write_summary,
)
from crawler.model import Counts
from tests.archive.making import START, add, crawl, row


async def summed(store: Store, *rows: PageRow) -> Totals:
    """The totals of these rows once they are merged."""
    archive = await Archive.open(store, crawl(), "w")
    for each in rows:
        archive.row(each)
    await archive.close()
    await merge(store, crawl())
    async with store.existing(parquet_name(crawl())) as path:
        assert path is not None
        return totals(path)


def answered(number: int | str, status: int = 200, **changes: Any) -> PageRow:
    return row(number, **{"outcome": "done", "status": status, "bytes": 9, "elapsed_ms": 100, **changes})


def summary(**changes: Any) -> Summary:
    values: dict[str, Any] = {
        "crawl": "c1",
        "store": "s3://bucket/prefix",
        "folder": "crawls/2026/09/21/c1",
        "started_at": moment(START),
        "completed_at": moment(START + 60),
        "counts": Counts(discovered=3, done=1, skipped=1, dead=1, bytes=5_000, hosts=1, skips={"robots": 1}),
        "files": Files(warc=2, pages=2),
    }
    return Summary(**{**values, **changes})


async def test_totals_are_those_of_the_rows(directory: Store) -> None:
    found = await summed(
        directory,
        answered(1, fetched_at=START + 1, digest="sha256:1"),
        answered(2, fetched_at=START + 11, digest="sha256:1", redirect_to="http://site.test/3"),
        answered(3, 404, fetched_at=START + 5, parent_url="http://site.test/1"),
        answered(4, 304, original_file="elsewhere"),
        row(5, outcome="skipped", reason="robots", fetched_at=None),
        row(6, outcome="dead", reason="dns", host="gone.test", parent_url="http://site.test/2", fetched_at=START + 99),
    )
    assert (found.rows, found.outcomes) == (6, {"dead": 1, "done": 4, "skipped": 1})
    assert (found.statuses, found.bytes) == ({"200": 2, "304": 1, "404": 1}, 36)
    assert (found.duplicates, found.redirects, found.unchanged, found.hosts) == (1, 1, 1, 2)
    assert (found.first_fetch, found.last_fetch) == (moment(START + 1), moment(START + 11))
    assert (found.seconds, found.pages_per_second) == (10.0, 0.4)
    assert found.broken == 2
    assert sorted(found.broken_links, key=lambda link: link.why) == [
        BrokenLink("http://site.test/3", "404", "http://site.test/1"),
        BrokenLink("http://site.test/6", "dns", "http://site.test/2"),
    ]


async def test_slow_hosts_are_those_with_enough_answers_slowest_first(directory: Store) -> None:
    rows = [answered(f"{host}{n}", host=host, elapsed_ms=ms) for host, ms in HOSTS for n in range(5)]
    rows += [answered(f"rare{n}", host="rare.test", elapsed_ms=9_000) for n in range(4)]
    found = await summed(directory, *rows)
    assert found.slowest_hosts == [SlowHost(host, 5, ms) for host, ms in sorted(HOSTS, key=lambda each: -each[1])[:10]]


HOSTS = [(f"{number}.test", 100 + number * 7 % 50) for number in range(12)]


async def test_of_many_broken_links_some_are_named_and_all_counted(directory: Store) -> None:
    found = await summed(directory, *(answered(n, 500) for n in range(BROKEN + 5)))
    assert (found.broken, len(found.broken_links)) == (BROKEN + 5, BROKEN)


async def test_a_crawl_without_an_answer_has_totals(directory: Store) -> None:
    found = await summed(directory, row(1, outcome="skipped", reason="robots", fetched_at=None))
    assert (found.rows, found.statuses, found.first_fetch, found.pages_per_second) == (1, {}, None, 0.0)
    assert "answers by status: none" in text(summary(totals=found))


async def test_a_file_without_rows_has_totals(directory: Store) -> None:
    assert await summed(directory) == Totals()


async def test_sums_that_do_not_agree_are_said() -> None:
    assert doubts(Totals(rows=3), Counts(discovered=3, done=1, skipped=1, dead=1)) == ()
    (doubt,) = doubts(Totals(rows=2), Counts(discovered=3, done=1, skipped=1, dead=1))
    assert doubt == "3 pages ended and 2 have a row: crawler verify names them"


async def test_what_is_written_is_read_again_and_dropped_with_the_crawl(store: Store) -> None:
    archive = await Archive.open(store, crawl(), "w")
    add(archive, 1)
    await archive.close()
    assert await read_summary(store, crawl()) is None
    written = summary(files=await files_of(store, crawl()), totals=Totals(rows=1, statuses={"200": 1}))
    assert written.files == Files(warc=1, pages=1)
    await write_summary(store, crawl(), written)
    await write_summary(store, crawl(), written)
    assert await read_summary(store, crawl()) == written
    await store.drop(crawl_folder(crawl()))
    for name in (summary_name(crawl()), summary_text_name(crawl())):
        async with store.existing(name) as path:
            assert path is None


@pytest.mark.parametrize("data", [b"", b"{}", b'{"crawl": 7}', b"\xff"])
async def test_a_summary_of_another_version_is_none(directory: Store, tmp_path: Path, data: bytes) -> None:
    async with directory.replace(summary_name(crawl())) as path:
        path.write_bytes(data)
    assert await read_summary(directory, crawl()) is None


def test_the_text_for_people() -> None:
    found = text(
        summary(
            files=Files(warc=2, pages=2, parquet="crawls/2026/09/21/c1.parquet", parquet_bytes=12_345),
            totals=Totals(
                rows=3,
                statuses={"200": 9, "404": 1_000},
                bytes=123_456,
                seconds=10.0,
                pages_per_second=0.1,
                slowest_hosts=[SlowHost("a.test", 5, 1_234)],
                broken=1,
                broken_links=[BrokenLink("http://a.test/x", "404")],
            ),
            faults=("it is odd",),
        )
    )
    assert found.splitlines() == [
        "crawl c1: complete",
        "  from 2026-09-21T14:13:20Z to 2026-09-21T14:14:20Z",
        "  1 pages done, 1 skipped (robots 1), 1 dead; 1 hosts, 5.0 kB archived",
        "  answers by status (404 1,000, 200 9); 123.5 kB of bodies",
        "  fetched within 10 s: 0.1 pages a second",
        "  0 redirected, 0 duplicates, 0 unchanged",
        "",
        "slowest hosts: mean time of an answer",
        "    1,234 ms  a.test  (5)",
        "",
        "broken links: 1",
        "  404      http://a.test/x  a seed",
        "",
        "files",
        "  Parquet  s3://bucket/prefix/crawls/2026/09/21/c1.parquet  (12.3 kB)",
        "  WARC     s3://bucket/prefix/crawls/2026/09/21/c1/warc/  (2 files)",
        "  rows     s3://bucket/prefix/crawls/2026/09/21/c1/pages/  (2 files)",
        "FAULT: it is odd",
    ]


def test_the_text_says_why_there_is_no_parquet_file() -> None:
    assert text(summary(note="too large: run x")).endswith("(2 files)\n\nNOTE: too large: run x\n")


def test_the_summary_is_json_that_programs_read() -> None:
    value = msgspec.json.decode(msgspec.json.encode(summary()))
    assert (value["announced_at"], value["counts"]["skips"], value["completed_at"]) == (
        None,
        {"robots": 1},
        "2026-09-21T14:14:20.000000Z",
    )
