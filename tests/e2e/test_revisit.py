"""Crawling a site again with `--from-crawl`, by the command a user would type."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from crawler.demo.content import Site
from tests import command
from tests.e2e.test_aws import Stack, finish
from tests.emulator import Emulator, Template
from tests.local_site import DemoSite, demo_site_process

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--processes", "2", "--json")


def crawl(site: DemoSite, out: Path, name: str, *more: str) -> dict[str, Any]:
    """Run a crawl to its end: the summary."""
    result = command.run("crawl", *site.seeds, "--out", str(out), "--crawl", name, *MINE, *more)
    assert result.returncode == 0, result.stderr
    verified = command.run("verify", "--state", str(out), "--crawl", name)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    summary: dict[str, Any] = msgspec.json.decode(result.stdout)
    return summary


def done(out: Path, name: str) -> dict[str, dict[str, Any]]:
    """The merged rows of pages answered, by URL key."""
    (file,) = out.glob(f"crawls/*/*/*/{name}.parquet")
    return {row["url_key"]: row for row in pq.read_table(file).to_pylist() if row["outcome"] == "done"}


def stored_pages(out: Path, name: str) -> set[str]:
    """URLs of the pages and files whose bytes a crawl stored itself."""
    found = set()
    for file in out.glob(f"crawls/*/*/*/{name}/warc/*.warc.gz"):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.raw_stream.read()
                if record.rec_type == "response" and record.http_headers.get_statuscode() == "200":
                    found.add(record.rec_headers.get_header("WARC-Target-URI"))
    return found


def newly_spelled(rows: dict[str, dict[str, Any]], earlier: dict[str, dict[str, Any]]) -> set[str]:
    """URLs of pages that were found in another spelling this time, which is a new resource to be on the safe side."""
    return {row["url"] for key, row in rows.items() if row["status"] == 200 and row["url"] != earlier[key]["url"]}


def test_a_site_is_crawled_again_and_again_and_only_what_changed_is_stored(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with demo_site_process(tmp_path) as site:
        port = urlsplit(site.seeds[0]).port or 0
        one = crawl(site, out, "one")
        assert one["unchanged"] == 0
        site.clear()
        two = crawl(site, out, "two", "--from-crawl", "one")
        answers = [request.status for request in site.requests() if not request.is_robots]
        first, second = done(out, "one"), done(out, "two")
        assert set(second) == set(first)
        assert set(site.fetched()) == site.truth.fetched
        assert (two["discovered"], two["done"], two["dead"]) == (one["discovered"], one["done"], 0)
        whole = {key for key, row in first.items() if row["status"] == 200}
        spelled = newly_spelled(second, first)
        assert stored_pages(out, "two") == spelled
        assert two["unchanged"] == len(whole) - len(spelled)
        tagged = {key for key in whole if first[key]["etag"] and second[key]["url"] == first[key]["url"]}
        assert {key for key, row in second.items() if row["status"] == 304} == tagged
        assert answers.count(304) == len(tagged) > len(whole) / 2
        for name in ("digest", "title", "lang", "charset", "links_found", "bytes", "canonical_url"):
            assert {key: row[name] for key, row in second.items()} == {key: row[name] for key, row in first.items()}
        truth = site.truth.pages

    edited = next(
        row["url"]
        for row in second.values()
        if row["status"] == 304 and site.canonical(row["url"]) in truth and row["url"] == site.canonical(row["url"])
        and row["links_found"] > 3 and Site(port).find(urlsplit(row["url"]).hostname or "", urlsplit(row["url"]).path)
    )  # fmt: skip
    with demo_site_process(tmp_path, port=port, edited=edited) as site:
        three = crawl(site, out, "three", "--from-crawl", "two")
        third = done(out, "three")
        assert set(third) == set(first)
        spelled = newly_spelled(third, second)
        assert stored_pages(out, "three") == {edited} | spelled
        assert three["unchanged"] == len(whole) - len({edited} | spelled)
        row = next(row for row in third.values() if row["url"] == edited)
        assert row["digest"] != next(row["digest"] for row in second.values() if row["url"] == edited)
        old = {key: row for key, row in third.items() if row["original_file"] and first[key]["url"] == row["url"]}
        assert {row["original_file"].split("/")[4] for row in old.values()} <= {"one", "two"}
        assert sum("/one/" in row["original_file"] for row in old.values()) > len(whole) / 2


def test_the_same_command_resumes_and_says_how_many_were_unchanged(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawl(demo_site, out, "one")
    again = ("crawl", *demo_site.seeds, "--out", str(out), "--rate", "0", "--allow-private", "--from-crawl", "one")
    begun = command.run(*again)
    assert begun.returncode == 0, begun.stderr
    assert " pages done unchanged since one\n" in begun.stdout
    demo_site.clear()
    assert command.run(*again).returncode == 0
    assert demo_site.requests() == []
    merged = command.run("merge", "--state", str(out))
    assert merged.stdout.rstrip().endswith("of them unchanged since one")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--from-crawl", "nobody"), "--from-crawl nobody: there is no such crawl on this state (it has: one)"),
        (("--crawl", "one", "--from-crawl", "one"), "a crawl cannot revisit itself"),
        (("--crawl", "one", "--from-crawl", "one", "--fresh", "--yes"), "a crawl cannot revisit itself"),
        (("--crawl", "one", "--from-crawl", "nobody", "--fresh", "--yes"), "there is no such crawl"),
    ],
)
def test_what_cannot_be_revisited_is_one_line_and_exit_2(tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    out = tmp_path / "out"
    with demo_site_process(tmp_path) as site:
        limited = ("crawl", *site.seeds, "--out", str(out), *MINE, "--max-pages", "3")
        assert command.run(*limited, "--crawl", "one").returncode == 0
        refused = command.run(*limited, *more)
    assert refused.returncode == 2
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert command.status("--state", str(out))["crawl"] == "one"
    assert done(out, "one"), "nothing was dropped"


def test_fresh_drops_the_crawl_that_revisits_and_not_the_earlier_one(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    crawl(demo_site, out, "one")
    again = ("crawl", *demo_site.seeds, "--out", str(out), *MINE, "--from-crawl", "one", "--fresh", "--yes")
    for _ in range(2):
        result = command.run(*again)
        assert result.returncode == 0, result.stderr
        assert msgspec.json.decode(result.stdout)["unchanged"] > 200
    assert done(out, "one")


@pytest.mark.emulator
def test_a_fleet_on_the_deployed_stack_revisits(demo_site: DemoSite, emulator: Emulator, template: Template) -> None:
    stack = Stack(emulator, template)
    for name, more in (("one", ()), ("two", ("--from-crawl", "one"))):
        seeded = stack.run("seed", *demo_site.seeds, "--crawl", name, "--rate", "0", "--allow-private", *more)
        assert seeded.returncode == 0, seeded.stderr
        demo_site.clear()
        finish([stack.worker(), stack.worker()])
        assert set(demo_site.fetched()) == demo_site.truth.fetched
    merged = stack.run("merge", "--crawl", "two", "--json")
    verified = stack.run("verify", "--crawl", "two")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    answers = Counter(request.status for request in demo_site.requests())
    assert msgspec.json.decode(merged.stdout)["unchanged"] >= answers[304] > 250


def test_a_worker_that_revisits_needs_no_pyarrow() -> None:
    code = "import sys, crawler.loop, crawler.entrypoints.worker; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
