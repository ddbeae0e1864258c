"""`crawler sql`: what it prints for people and for programs, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import csv
import io
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crawler.archive.folder import parquet_name
from crawler.archive.rows import PageRow
from crawler.archive.schema import ParquetFile
from crawler.config import CrawlSettings
from crawler.entrypoints.cli import cli
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.state.sqlite import SqliteState
from tests import command
from tests.sql.conftest import Crawled
from tests.sql.expected import EXPECTED
from tests.sql.site import CRAWL, EVIL
from tests.sql.test_local import ENDLESS

pytestmark = pytest.mark.xdist_group("sql")

Ask = Callable[..., str]


class Terminal(io.StringIO):
    """Takes what is written to it for shown."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def ask(crawled: Crawled, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run the command on the crawl, or on the folder of another; what it prints."""

    def asked(*arguments: str, folder: Path = crawled.folder) -> str:
        cli(["sql", *arguments, "--state", str(folder)], standalone_mode=False)
        return capsys.readouterr().out

    return asked


@pytest.fixture
def show(crawled: Crawled, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run the command on a terminal of a width; what it shows."""

    def shown(width: int, *arguments: str) -> str:
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            patch.setenv("TERM", "xterm")
            patch.setattr(sys, "stdout", terminal := Terminal())
            cli(["sql", *arguments, "--state", str(crawled.folder)], standalone_mode=False)
        return terminal.getvalue()

    return shown


def plain(shown: str) -> str:
    """What is shown, without the bold type that is the command's own."""
    return re.sub(r"\x1b\[[01]m", "", shown)


def shown_as_text(shown: str) -> bool:
    """Whether nothing in it commands a terminal or turns its text around."""
    return all(character.isprintable() or character == "\n" for character in shown)


def json_rows(text: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in text.splitlines()]


def csv_rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.e2e
def test_without_an_argument_it_lists_the_saved_queries_and_needs_no_crawl(tmp_path: Path) -> None:
    listed = command.run("sql", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert [line for line in listed.stdout.splitlines() if not line.startswith(" ")] == sorted(EXPECTED)


@pytest.mark.e2e
def test_a_saved_query_runs_on_the_folder_of_a_crawl(crawled: Crawled) -> None:
    result = command.run("sql", "status-by-host", "--json", "--state", str(crawled.folder))
    assert (result.returncode, result.stderr) == (0, f"crawler: crawl {CRAWL}\n")
    assert [tuple(row.values()) for row in json_rows(result.stdout)] == EXPECTED["status-by-host"](crawled.rows)


def test_rows_are_the_same_in_each_form(crawled: Crawled, ask: Ask) -> None:
    expected = [[str(value) for value in row] for row in EXPECTED["status-by-host"](crawled.rows)]
    names, *rows = csv_rows(ask("status-by-host", "--csv"))
    assert rows == expected
    assert [line.split() for line in ask("status-by-host", "--crawl", CRAWL).splitlines()] == [names, *expected]
    assert [[*map(str, row.values())] for row in json_rows(ask("status-by-host", "--json"))] == expected
    assert [query["name"] for query in json_rows(ask("--json"))] == sorted(EXPECTED)


def test_a_query_of_ones_own_runs_over_pages(crawled: Crawled, ask: Ask) -> None:
    query = "SELECT url, fetched_at, noindex, title FROM pages WHERE crawl_id = ? AND outcome = 'dead'"
    (dead,) = [row for row in crawled.rows if row["outcome"] == "dead"]
    at = dead["fetched_at"].isoformat().replace("+00:00", "Z")
    assert json_rows(ask(query, "--json")) == [{"url": dead["url"], "fetched_at": at, "noindex": None, "title": None}]
    assert csv_rows(ask(query, "--csv"))[1:] == [[dead["url"], at, "", ""]]
    assert ask("SELECT url FROM pages WHERE host = 'x'").split("\n") == ["url", "no rows", ""]


def test_values_of_other_types_are_written_as_json_has_them(ask: Ask) -> None:
    big = 2**100
    query = f"SELECT {big} AS big, [1, NULL] AS list, 'nan'::double AS odd, x'00' AS raw, MAP {{1.5: true}} AS map"
    (row,) = json_rows(ask(query, "--json"))
    assert row == {"big": big, "list": [1, None], "odd": None, "raw": "AA==", "map": {"1.5": True}}
    assert csv_rows(ask(query, "--csv"))[1] == [str(big), "[1,null]", "null", "AA==", '{"1.5":true}']


def test_a_long_table_ends_and_says_so_where_lines_for_programs_do_not(ask: Ask) -> None:
    *_, last, note = ask("SELECT range FROM range(150) ORDER BY range").splitlines()
    assert (last.strip(), note) == ("99", "the first 100 rows; --csv and --json have all")
    assert len(csv_rows(ask("SELECT * FROM range(2500)", "--csv"))) == 2501


def test_a_title_commands_no_terminal(ask: Ask, show: Ask) -> None:
    query = f"SELECT title, '{EVIL}' AS \"{EVIL}\" FROM pages WHERE url LIKE '%/evil'"
    for width in (200, 20):
        shown = plain(show(width, query))
        assert "owned" in shown
        assert shown_as_text(shown), repr(shown)
    for form in ("--json", "--csv"):
        shown = show(200, query, form)
        assert shown_as_text(shown), repr(shown)
    # What a program reads is what there is.
    assert json_rows(ask(query, "--json")) == [{"title": EVIL, EVIL: EVIL}]
    assert csv_rows(ask(query, "--csv")) == [["title", EVIL], [EVIL, EVIL]]


def test_a_narrow_terminal_shows_all_there_is(crawled: Crawled, show: Ask) -> None:
    folded = plain(show(60, "SELECT url, url_key, depth FROM pages ORDER BY url"))
    assert all(len(line) <= 60 for line in folded.splitlines())
    assert folded.count("/same/1") == 2
    listed = show(80, "SELECT * FROM pages ORDER BY url")
    assert re.findall(r"^url +(\S+)$", listed, re.MULTILINE) == sorted(row["url"] for row in crawled.rows)
    assert show(60, f"SELECT '{'x' * 500}' AS word").count("x") == 79, "a cell has an end"


def begin(folder: Path, *names: str, merged: bool) -> None:
    """Crawls of these names, each with a merged file of one row, or none."""

    async def create() -> None:
        state = await SqliteState.open(str(folder / "state.sqlite"), worker="w", create=True)
        for name in names:
            record = CrawlRecord(id=name, started_at=time.time(), settings=CrawlSettings(), store=str(folder))
            await state.create(record)
            if merged:
                file = folder / parquet_name(record)
                file.parent.mkdir(parents=True, exist_ok=True)
                with ParquetFile(file) as parquet:
                    parquet.write([PageRow(crawl_id=name, url=name, url_key="k", host="h", depth=0, outcome="dead")])
        await state.close()

    asyncio.run(create())


def test_a_crawl_that_is_not_merged_says_what_to_run(tmp_path: Path, ask: Ask) -> None:
    begin(tmp_path, "c1", merged=False)
    with pytest.raises(UsageError, match=r"^crawl c1 is not merged yet: run `crawler merge` first$"):
        ask("status-by-host", folder=tmp_path)


@pytest.mark.parametrize("crawl", ["it's", 'a" b', "..", "%2E", "_hidden", "x' OR '1'='1"])
def test_a_crawl_is_found_whatever_it_is_called(tmp_path: Path, crawl: str, ask: Ask) -> None:
    begin(tmp_path, crawl, "other", merged=True)
    query = "SELECT url FROM pages WHERE crawl_id = ?"
    assert json_rows(ask(query, "--json", "--crawl", crawl, folder=tmp_path)) == [{"url": crawl}]
    with pytest.raises(UsageError, match="there is no crawl"):
        ask(query, "--crawl", f"{crawl}' --", folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no saved query 'nothing' (there are: broken-links, duplicates,"),
        (["DROP VIEW pages"], "give one query that reads"),
        (["SELECT nothing FROM pages"], 'the query failed: Binder Error: Referenced column "nothing"'),
        (["status-by-host", "--json", "--csv"], "--json or --csv, not both"),
    ],
)
def test_what_it_cannot_do_it_says_in_a_line(ask: Ask, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        ask(*arguments)
    assert "\n" not in str(raised.value)


def test_without_duckdb_it_says_what_to_install(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crawler.sql.local", raising=False)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=re.escape("needs DuckDB (duckdb): pip install 'crawler[sql]'")):
        ask("SELECT 1")


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_query_that_does_not_end(crawled: Crawled, number: signal.Signals) -> None:
    with command.start("sql", ENDLESS, "--state", str(crawled.folder)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"crawler: crawl {CRAWL}\n"
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors.strip()) == (130, "", "")


@pytest.mark.e2e
def test_a_reader_that_leaves_early_is_no_fault(crawled: Crawled) -> None:
    query = "SELECT repeat('x', 1000) FROM range(100000)"
    with command.start("sql", query, "--csv", "--state", str(crawled.folder)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == f"crawler: crawl {CRAWL}\n"
