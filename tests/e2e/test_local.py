"""The main job on one machine: real processes, a real site, kills in the middle."""

from __future__ import annotations

import gzip
import signal
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from warcio.archiveiterator import ArchiveIterator

from tests import command
from tests.local_site import DemoSite, demo_site_process

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--quiet")


def crawl(site: DemoSite, out: Path, *more: str) -> tuple[str, ...]:
    return ("crawl", *site.seeds, "--out", str(out), *MINE, *more)


def responses(folder: Path) -> list[str]:
    """Target URIs of all response records, read by an independent reader that checks digests."""
    found = []
    for file in folder.rglob("*.warc.gz"):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                record.content_stream().read()
                if record.rec_type == "response":
                    found.append(record.rec_headers.get_header("WARC-Target-URI"))
    return found


def assert_complete_and_sound(site: DemoSite, out: Path) -> None:
    """Everything that a polite crawler must answer is in the result once; ledger, rows and archive agree."""
    counts = command.status("--state", str(out))
    assert counts["state"] == "complete"
    assert counts["exact"]
    assert (counts["pending"], counts["leased"], counts["dead"]) == (0, 0, 0)
    assert counts["done"] == len(site.truth.fetched)
    assert counts["discovered"] == counts["done"] + counts["skipped"]
    rows = command.rows(out)
    done = Counter(site.canonical(row["url"]) for row in rows if row["outcome"] == "done")
    assert set(done) == site.truth.fetched
    assert set(done.values()) == {1}
    assert len(rows) == counts["discovered"]
    verified = command.run("verify", "--state", str(out))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert not list(out.rglob("*.open"))


def test_a_crawl_answers_every_page_once_and_no_forbidden_one(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = command.run(*crawl(demo_site, out))
    assert result.returncode == 0, result.stderr

    fetched = demo_site.fetched()
    assert {url: n for url, n in fetched.items() if n != 1} == {}
    assert set(fetched) == demo_site.truth.fetched
    assert not set(fetched) & demo_site.truth.forbidden
    robots = Counter(request.host for request in demo_site.requests() if request.is_robots)
    assert set(robots.values()) == {1}
    first = {host: next(r for r in demo_site.requests() if r.host == host) for host in robots}
    assert all(request.is_robots for request in first.values())

    assert_complete_and_sound(demo_site, out)
    assert Counter(demo_site.canonical(url) for url in responses(out)) == Counter(fetched)
    skipped = [row for row in command.rows(out) if row["outcome"] == "skipped"]
    assert {row["reason"] for row in skipped if demo_site.canonical(row["url"]) in demo_site.truth.private} == {
        "robots"
    }


def test_row_files_hold_a_line_for_every_url(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command.run(*crawl(demo_site, out)).returncode == 0
    lines = [
        msgspec.json.decode(line)
        for file in out.rglob("*.ndjson.gz")
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    assert len(lines) == command.status("--state", str(out))["discovered"]
    page = next(line for line in lines if line["title"])
    assert page["digest"].startswith("sha256:")
    assert page["links_found"] > 0
    assert page["warc_file"].startswith("warc/")


def test_a_complete_crawl_run_again_sends_no_request(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command.run(*crawl(demo_site, out)).returncode == 0
    demo_site.clear()
    again = command.run(*crawl(demo_site, out))
    assert again.returncode == 0, again.stderr
    assert demo_site.requests() == []
    assert_complete_and_sound(demo_site, out)


def test_fresh_starts_over_only_when_told_yes(demo_site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert command.run(*crawl(demo_site, out)).returncode == 0
    demo_site.clear()
    unasked = command.run(*crawl(demo_site, out, "--fresh"))
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    assert demo_site.requests() == []
    assert_complete_and_sound(demo_site, out)
    assert command.run(*crawl(demo_site, out, "--fresh", "--yes")).returncode == 0
    assert set(demo_site.fetched()) == demo_site.truth.fetched
    assert_complete_and_sound(demo_site, out)


def test_sigterm_drains_and_resuming_fetches_no_page_twice(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, delay_ms=20) as site:
        out = tmp_path / "out"
        arguments = crawl(site, out, "--processes", "2", "--concurrency", "4")
        process = command.start(*arguments)
        command.wait_for(lambda: len(site.fetched()) > 40)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130, errors
        stopped = command.status("--state", str(out))
        assert stopped["state"] == "stopped"
        assert stopped["leased"] == 0
        assert 0 < stopped["done"] < len(site.truth.fetched)
        assert command.run(*arguments).returncode == 0
        assert set(site.fetched().values()) == {1}
        assert_complete_and_sound(site, out)


def test_a_second_signal_leaves_at_once_and_nothing_leased(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, delay_ms=60_000) as site:
        out = tmp_path / "out"
        process = command.start(*crawl(site, out, "--processes", "2"))
        command.wait_for(lambda: (out / "state.sqlite").exists() and command.status("--state", str(out))["leased"])
        command.told(process, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        # One signal alone would wait for answers that take a minute.
        process.communicate(timeout=30)
        assert process.returncode == 130
        assert command.status("--state", str(out))["leased"] == 0


def test_killed_fetchers_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, delay_ms=10) as site:
        out = tmp_path / "out"
        process = command.start(*crawl(site, out, "--processes", "2", "--concurrency", "4"))
        kills = 0
        for share in (0.1, 0.3, 0.5, 0.7):
            wanted = share * len(site.truth.fetched)
            command.wait_for(lambda wanted=wanted: len(site.fetched()) > wanted and command.workers_of(process))  # type: ignore[misc]
            command.workers_of(process)[0].kill()
            kills += 1
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0, errors
        assert_complete_and_sound(site, out)
        doubled = sum(site.fetched().values()) - len(site.truth.fetched)
        assert doubled <= kills * (4 + 100)  # in flight, and answered but not yet settled


def test_a_killed_supervisor_takes_its_fetchers_along_and_the_crawl_resumes(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, delay_ms=20) as site:
        out = tmp_path / "out"
        arguments = crawl(site, out, "--processes", "2", "--concurrency", "4")
        process = command.start(*arguments)
        command.wait_for(lambda: len(site.fetched()) > 40 and len(command.workers_of(process)) == 2)
        workers = command.workers_of(process)
        process.kill()
        process.communicate()
        command.wait_for(lambda: not any(worker.is_running() for worker in workers), 20)
        assert command.status("--state", str(out))["leased"] == 0
        assert command.run(*arguments).returncode == 0
        assert_complete_and_sound(site, out)


def test_pages_that_answer_503_first_are_tried_again(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, retry_503=1) as site:
        out = tmp_path / "out"
        assert command.run(*crawl(site, out)).returncode == 0
        assert_complete_and_sound(site, out)
        attempts = {site.canonical(row["url"]): row["attempts"] for row in command.rows(out)}
        assert {attempts[url] for url in site.truth.flaky} == {2}
