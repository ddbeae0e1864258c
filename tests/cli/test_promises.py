"""What the command line promises to scripts: names, variables, shapes, exit codes. A change here breaks somebody."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from crawler.entrypoints.cli import cli
from tests import command
from tests.broken_site import BrokenSite, broken_site


def listed(names: str) -> list[str]:
    return names.split()


SETTINGS = listed("""rate pace-by scope include exclude max-pages max-pages-per-host max-depth max-time max-body
    concurrency user-agent contact ignore-robots sitemaps allow-private from-crawl extract lease
    max-attempts sitemap""")

COMMON = listed("state store crawl json verbose quiet")

OWN = {
    "crawl": [*SETTINGS, "out", "processes"],
    "seed": [*SETTINGS, "file"],
    "work": ["concurrency"],
    "status": [],
    "dead list": [],
    "dead show": [],
    "dead retry": [],
    "verify": [],
    "merge": [],
    "cost": [],
    "purge": [],
    "sweep": [],
    "pause": [],
    "resume": [],
    "sql": [],
}
"""Options with a variable, by command."""

FLAGS = {
    "crawl": ["fresh", "yes", "no-sitemaps"],
    "work": ["until-complete"],
    "status": ["watch"],
    "dead retry": ["rate", "reason", "all"],
    "cost": ["estimate"],
    "purge": ["yes"],
}

COLUMNS = listed("""crawl_id url url_key host depth parent_url discovered_at outcome reason status fetched_at elapsed_ms
    attempts redirect_to content_type charset bytes truncated digest duplicate_of etag last_modified title lang
    canonical_url noindex links_found links_new warc_file warc_offset warc_length error extra""")

FIELDS = listed("""crawl state discovered pending leased done skipped dead exact workers_alive pages_per_second
    bytes hosts started_at updated_at""")

STATUS = {
    **dict.fromkeys(listed("crawl state started_at updated_at"), str),
    **dict.fromkeys(listed("discovered pending leased done skipped dead workers_alive bytes hosts"), int),
    "exact": bool,
    "pages_per_second": float,
}


def words(text: str) -> str:
    """The help without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", OWN)
def test_each_option_is_there_and_help_names_its_variable(name: str) -> None:
    shown = words(CliRunner().invoke(cli, [*name.split(), "--help"]).stdout)
    for option in (*COMMON, *OWN[name]):
        assert f"--{option}" in shown, option
        assert "CRAWLER_" + option.upper().replace("-", "_") in shown, option
    for flag in FLAGS.get(name, ()):
        assert f"--{flag}" in shown, flag


@pytest.fixture(scope="module")
def site() -> Iterator[BrokenSite]:
    with broken_site(
        {"/": '<a href="/a">a</a><a href="/broken">b</a><a href="/gone">c</a>', "/a": "a"}, "/broken"
    ) as s:
        yield s


@pytest.fixture(scope="module")
def folder(site: BrokenSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete crawl `one`."""
    out = tmp_path_factory.mktemp("promises")
    options = ("--rate", "0", "--allow-private", "--max-attempts", "1", "--processes", "1", "--crawl", "one")
    done = command.run("crawl", site.url(), "--out", str(out), *options)
    assert done.returncode == 0, done.stderr  # although a page is dead
    return out


def test_a_crawl_leaves_its_files_where_they_are_promised(folder: Path) -> None:
    files = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    day = r"crawls/\d{4}/\d\d/\d\d"
    forms = [
        rf"{day}/one\.parquet",
        rf"{day}/one/pages/[\w-]+-\d+\.ndjson\.gz",
        rf"{day}/one/warc/[\w-]+-\d+\.warc\.gz",
        r"state\.sqlite",
    ]
    assert len(files) == len(forms), files
    for form, file in zip(forms, files, strict=True):
        assert re.fullmatch(form, file), file
    (warc,) = folder.rglob("*.warc.gz")
    assert gzip.decompress(warc.read_bytes()).startswith(b"WARC/1.1\r\nWARC-Type: warcinfo\r\n")


def test_the_merged_file_has_the_promised_columns_in_their_order(folder: Path) -> None:
    (file,) = folder.glob("crawls/*/*/*/one.parquet")
    parquet = pq.ParquetFile(file)
    assert parquet.schema_arrow.names[: len(COLUMNS)] == COLUMNS
    assert {parquet.metadata.row_group(0).column(at).compression for at in range(len(COLUMNS))} == {"SNAPPY"}
    rows = command.rows(folder)
    assert {row["outcome"] for row in rows} == {"done", "dead"}
    digests = {row["digest"] for row in rows if row["outcome"] == "done"}
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)


def test_status_for_scripts_has_the_promised_fields(folder: Path) -> None:
    answer = command.status("--state", str(folder))
    assert list(answer)[: len(STATUS)] == FIELDS
    for name, kind in STATUS.items():
        assert type(answer[name]) in ((int, float) if kind is float else (kind,)), name
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer["started_at"])
    assert answer["state"] == "complete"
    assert answer["exact"]
    assert answer["discovered"] == sum(answer[name] for name in listed("pending leased done skipped dead")) == 4


def test_a_complete_crawl_that_is_run_again_sends_no_request(folder: Path, site: BrokenSite) -> None:
    before = site.asked.copy()
    again = command.run("crawl", site.url(), "--out", str(folder), "--crawl", "one", "--allow-private")
    assert again.returncode == 0, again.stderr
    assert site.asked == before


@pytest.mark.parametrize("name", ["status", "verify", "merge", "dead list"])
def test_one_object_is_printed_for_scripts_whoever_asks_for_it(folder: Path, name: str) -> None:
    arguments = (*name.split(), "--state", str(folder))
    more, env = (("--json",), {}) if name == "status" else ((), {"CRAWLER_JSON": "1"})
    answer = msgspec.json.decode(command.run(*arguments, *more, env=env).stdout)
    assert answer["crawl"] == "one"


@pytest.mark.parametrize("name", ["merge", "sweep", "pause", "resume", "dead retry --all"])
def test_what_does_something_is_silent_with_q(folder: Path, name: str) -> None:
    more, env = (("-q",), {}) if name == "merge" else ((), {"CRAWLER_QUIET": "1"})
    done = command.run(*name.split(), "--state", str(folder), *more, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["status", "dead list"])
def test_what_is_asked_for_is_shown_with_q(folder: Path, name: str) -> None:
    shown = command.run(*name.split(), "--state", str(folder), "-q")
    assert shown.returncode == 0
    assert shown.stdout
    assert shown.stderr == ""


def test_a_command_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    result = command.run("stats", "--json", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("crawler: No such command 'stats'.")
    assert len(result.stderr.splitlines()) == 1
