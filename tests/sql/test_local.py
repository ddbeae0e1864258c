"""What a query sees: rows of one crawl, as Athena would show them, and nothing else of this machine."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crawler.archive.rows import PageRow
from crawler.archive.schema import SCHEMA, ParquetFile
from crawler.errors import UsageError
from crawler.sql.local import Pages

DAY = "2026-09-21"

ENDLESS = "WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT (n + 1) % 1000 FROM t) SELECT max(n) FROM t"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "c1.parquet"
    with ParquetFile(path) as parquet:
        parquet.write([PageRow(crawl_id="c1", url="u", url_key="k", host="h", depth=0, outcome="done", fetched_at=1.5)])
    return path


def test_a_row_is_as_in_the_file_with_its_day_and_times_in_utc_without_a_zone(file: Path) -> None:
    with Pages(file, DAY) as pages:
        result = pages.run("SELECT * FROM pages", "c1")
        assert result.columns == [*SCHEMA.names, "day"]
        (row,) = result.cursor.fetchall()
    (as_written,) = pq.read_table(file).to_pylist()
    as_written["fetched_at"] = datetime.fromtimestamp(1.5, UTC).replace(tzinfo=None)
    assert dict(zip(result.columns, row, strict=True)) == as_written | {"day": DAY}


def test_columns_that_an_older_file_lacks_are_null(tmp_path: Path) -> None:
    older = tmp_path / "older.parquet"
    pq.write_table(pa.table({"crawl_id": ["c1"], "url": ["u"]}), older)
    with Pages(older, DAY) as pages:
        assert pages.run("SELECT url, simhash, fetched_at FROM pages", "c1").cursor.fetchall() == [("u", None, None)]


@pytest.mark.parametrize("crawl", ["' OR 1=1 --", 'x"; DROP VIEW pages; --', "?", "c1\x00", "ü\u202e"])
def test_the_name_of_a_crawl_is_a_value_whatever_it_is(file: Path, crawl: str) -> None:
    with Pages(file, DAY) as pages:
        assert pages.run("SELECT count(*) FROM pages WHERE crawl_id = ?", crawl).cursor.fetchall() == [(0,)]
        assert pages.run("SELECT ?, ?", crawl).cursor.fetchall() == [(crawl, crawl)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM query('SELECT * FROM read_csv(''{secret}'')')",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM secret_of_this_process",
        "SELECT getenv('HOME')",
    ],
)
def test_a_query_reads_no_file_no_address_and_no_object_of_the_process(tmp_path: Path, file: Path, query: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nsecret\n")
    secret_of_this_process = pa.table({"a": [1]})
    assert secret_of_this_process.num_rows == 1
    with Pages(file, DAY) as pages, pytest.raises(UsageError, match="the query failed") as raised:
        pages.run(query.format(secret=secret, file=file, folder=tmp_path), "c1")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "query",
    [
        "COPY pages TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{file}'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/out.db'",
        "CREATE TABLE mine AS SELECT 1",
        "WITH x AS (SELECT 1) INSERT INTO pages SELECT * FROM x",
        "DROP VIEW pages",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_only_a_query_is_run_and_nothing_is_written(tmp_path: Path, file: Path, query: str) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with Pages(file, DAY) as pages:
        with pytest.raises(UsageError, match="one query that reads"):
            pages.run(query.format(file=file, folder=tmp_path), "c1")
        assert pages.run("SELECT count(*) FROM pages", "c1").cursor.fetchall() == [(1,)]
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_settings_that_shut_it_in_hold_for_statements_that_got_past_the_first_look(tmp_path: Path, file: Path) -> None:
    with Pages(file, DAY) as pages:
        cursor = pages.run("SELECT 1", "c1").cursor
        for statement in (f"COPY (SELECT 1) TO '{tmp_path}/out.csv'", "SET enable_external_access = true"):
            with pytest.raises(Exception, match=r"disabled by configuration|configuration has been locked"):
                cursor.execute(statement)
    assert list(tmp_path.iterdir()) == [file]


def test_columns_of_one_name_are_told_apart(file: Path) -> None:
    with Pages(file, DAY) as pages:
        assert pages.run("SELECT url, url, 1 AS url_2 FROM pages", "c1").columns == ["url", "url_2", "url_2_2"]


@pytest.mark.parametrize("query", ["SELECT nothing FROM pages", "SELEC", "SELECT CAST('x' AS integer)"])
def test_what_is_wrong_with_a_query_is_said_in_a_line(file: Path, query: str) -> None:
    with Pages(file, DAY) as pages, pytest.raises(UsageError, match=r"^the query failed: \w+ Error: [^\n]+$"):
        pages.run(query, "c1")


def test_a_query_that_fails_at_a_late_row_says_so_in_a_line(file: Path) -> None:
    late = "SELECT CASE WHEN range = 1900000 THEN error('a bad row') END FROM range(2000000)"
    with Pages(file, DAY) as pages:
        result = pages.run(late, "c1")
        assert len(result.fetch(10)) == 10
        with pytest.raises(UsageError, match=r"^the query failed: [^\n]+ a bad row$"):
            list(iter(lambda: result.fetch(10_000), []))


def test_a_query_that_does_not_end_can_be_interrupted(file: Path) -> None:
    ended = threading.Event()

    def interrupt(pages: Pages) -> None:
        while not ended.wait(0.05):
            pages.interrupt()

    with Pages(file, DAY) as pages:
        thread = threading.Thread(target=interrupt, args=(pages,))
        thread.start()
        try:
            with pytest.raises(UsageError, match=r"[Ii]nterrupt"):
                pages.run(ENDLESS, "c1")
        finally:
            ended.set()
            thread.join()


def test_a_damaged_file_is_named(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])
    with Pages(file, DAY) as pages, pytest.raises(UsageError, match="corrupted or this is not a parquet file"):
        pages.run("SELECT * FROM pages", "c1")
