"""Dead letters: a site breaks, its pages are listed and explained; it recovers, and they are retried."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest

from tests import command
from tests.broken_site import BrokenSite, Page, broken_site
from tests.redis_server import RedisServer

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--quiet", "--processes", "1", "--max-attempts", "3")

PAGES = {
    "/": "<a href=/good>1</a><a href=/bad>2</a><a href=/worse?a=1>3</a>",
    "/good": "<title>good</title>",
    "/bad": "<title>bad no more</title><a href=/behind>4</a>",
    "/worse?a=1": "<title>worse no more</title>",
    "/behind": "<title>behind</title>",
}


@pytest.fixture
def site() -> Iterator[BrokenSite]:
    with broken_site(PAGES, "/bad", "/worse?a=1") as site:
        yield site


class Place(NamedTuple):
    """Where a test's crawl is: the address of its state, and the folder of its output."""

    state: str
    out: Path

    @property
    def options(self) -> tuple[str, ...]:
        return ("--state", self.state, "--out", str(self.out))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "state.sqlite"), tmp_path / "out")


@pytest.fixture(params=["sqlite", "redis"])
def any_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """On each kind of state that needs no account."""
    if request.param == "sqlite":
        return Place(str(tmp_path / "state.sqlite"), tmp_path / "out")
    server: RedisServer = request.getfixturevalue("redis_server")
    return Place(server.address(), tmp_path / "out")


def crawled(site: BrokenSite, at: Place, *more: str) -> None:
    result = command.run("crawl", site.url(), *at.options, *MINE, *more)
    assert result.returncode == 0, result.stderr


def dead(what: str, at: Place, *more: str) -> str:
    result = command.run("dead", what, *more, "--state", at.state)
    assert result.returncode == 0, result.stderr
    return result.stdout


def dead_json(what: str, at: Place, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = msgspec.json.decode(dead(what, at, "--json", *more))
    return answer


def outcomes(at: Place) -> dict[str, str]:
    """By path."""
    return {"/" + row["url"].split("/", 3)[3]: row["outcome"] for row in command.rows(at.out)}


def assert_sound(at: Place) -> None:
    result = command.run("verify", "--state", at.state)
    assert result.returncode == 0, result.stdout


def test_a_site_recovers_and_its_dead_letters_become_pages(site: BrokenSite, any_place: Place) -> None:
    crawled(site, any_place)
    assert site.asked["/bad"] == 3
    assert_sound(any_place)

    listed = dead_json("list", any_place)
    assert listed["dead"] == 2
    assert listed["groups"] == [{"reason": "http-500", "host": "127.0.0.1", "count": 2}]
    assert "2  http-500  127.0.0.1" in dead("list", any_place)
    letters = dead("list", any_place, "--reason", "http-500").splitlines()
    assert f"{site.url('/bad')}  (http-500 after 3 attempts: HTTP 500 Internal Server Error)" in letters
    assert len(letters) == 2
    assert dead_json("list", any_place, "--host", "127.0.0.1")["pages"][0]["attempts"] == 3
    assert dead("list", any_place, "--reason", "dns") == "no dead letters of this kind\n"

    card = dead("show", any_place, site.url("/bad"))
    assert f"found     on {site.url()}, " in card
    assert card.count("failed ") == 3
    (shown,) = dead_json("show", any_place, site.url("/worse?a=1"))["pages"]
    assert (shown["reason"], shown["attempts"], shown["depth"]) == ("http-500", 3, 1)
    assert [failure["reason"] for failure in shown["failures"]] == ["http-500"] * 3
    assert shown["parent_url"] == site.url()
    assert shown["failed_at"] == shown["failures"][-1]["at"] >= shown["discovered_at"]

    site.mended = True
    assert dead("retry", any_place, "--all").startswith("2 dead letters queued again; now run `crawler crawl`")
    counts = command.status("--state", any_place.state)
    assert (counts["state"], counts["pending"], counts["dead"], counts["exact"]) == ("stopped", 2, 0, True)
    assert dead("retry", any_place, "--all") == "0 dead letters queued again\n"
    site.asked.clear()
    crawled(site, any_place)
    assert site.asked["/good"] == 0
    assert outcomes(any_place) == dict.fromkeys(("/", "/good", "/bad", "/worse?a=1", "/behind"), "done")
    assert command.status("--state", any_place.state)["dead"] == 0
    assert dead("list", any_place) == "no dead letters\n"
    assert_sound(any_place)


def test_a_letter_that_fails_again_is_dead_again_with_its_whole_history(site: BrokenSite, place: Place) -> None:
    crawled(site, place)
    assert dead_json("retry", place, site.url("/bad")) == {"crawl": dead_json("list", place)["crawl"], "retried": 1}
    crawled(site, place)
    assert site.asked["/bad"] == 6
    assert site.asked["/worse?a=1"] == 3
    (shown,) = dead_json("show", place, site.url("/bad"))["pages"]
    assert len(shown["failures"]) == 6
    assert command.status("--state", place.state)["dead"] == 2
    assert_sound(place)


def test_retry_takes_only_what_was_chosen(site: BrokenSite, place: Place) -> None:
    crawled(site, place)
    for choice in (("--reason", "dns"), ("--host", "other.example"), ("--reason", "http-500", "--host", "a.example")):
        assert dead_json("retry", place, *choice)["retried"] == 0
    assert dead_json("retry", place, "--reason", "http-500", "--host", "127.0.0.1")["retried"] == 2


def test_a_rate_spreads_them_over_time(site: BrokenSite, place: Place) -> None:
    crawled(site, place)
    site.mended = True
    assert dead("retry", place, "--all", "--rate", "1/h").startswith("2 dead letters queued again, the last in 3,600 s")
    process = command.start("crawl", *place.options, "--quiet", "--processes", "1")
    command.wait_for(lambda: site.asked["/bad"] + site.asked["/worse?a=1"] == 7)
    command.wait_for(lambda: command.status("--state", place.state)["done"] >= 3)
    process.terminate()
    process.communicate(timeout=20)
    counts = command.status("--state", place.state)
    assert (counts["pending"], counts["leased"]) == (1, 0)


def test_what_is_no_dead_letter_is_said_in_one_line(site: BrokenSite, place: Place) -> None:
    crawled(site, place, "--crawl", "c1")
    unknown, good = site.url("/unknown"), site.url("/good")
    wrong = {
        ("show", unknown): f"{unknown} is not known to crawl c1",
        ("show", good): f"{good} is no dead letter: it is done",
        ("show", "good"): "'good' is not a URL: write for example https://example.com/page",
        ("retry", unknown): f"{unknown} is not known to crawl c1",
        ("retry",): "say which: URLs, --reason R, --host H, or --all for every dead letter of the crawl",
        ("retry", good, "--all"): "name URLs, or choose with --reason, --host or --all, not both",
    }
    for arguments, says in wrong.items():
        result = command.run("dead", *arguments, "--state", place.state, "--crawl", "c1")
        assert (result.returncode, result.stdout, result.stderr) == (2, "", f"crawler: {says}\n"), arguments
    both = command.run("dead", "show", site.url("/bad"), good, "--state", place.state, "--crawl", "c1")
    assert both.returncode == 2
    assert both.stdout.startswith(site.url("/bad"))
    done = command.run("dead", "retry", good, "--state", place.state, "--crawl", "c1")
    assert (done.returncode, done.stdout) == (0, "0 dead letters queued again\n")
    assert f"{good} is no dead letter: it is done" in done.stderr
    assert command.status("--state", place.state)["state"] == "complete"


@pytest.mark.case("D02")
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_a_page_that_kills_its_parser_is_stored_without_links_and_dead(place: Place) -> None:
    killer = b"<a href=/behind>" + b"<p " + b"a=1 " * 2_400_000
    pages: dict[str, str | Page] = {
        "/": "<a href=/killer><a href=/good>",
        "/killer": lambda: killer,
        "/good": "<title>good</title>",
    }
    with broken_site(pages) as site:
        answer = site.hold("/killer")
        process = command.start("crawl", site.url(), *place.options, *MINE, "--max-attempts", "1")
        command.wait_for(lambda: site.asked["/killer"])
        (worker,) = command.workers_of(process)
        (parser,) = [child for child in worker.children() if "crawler.parser_process" in child.cmdline()]
        # Its parser has too little memory for it.
        tight = parser.memory_info().vms + 64 * 1024 * 1024
        psutil.Process(parser.pid).rlimit(psutil.RLIMIT_AS, (tight, tight))
        answer.set()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert not parser.is_running()
        assert outcomes(place) == {"/": "done", "/killer": "dead", "/good": "done"}
        (row,) = [row for row in command.rows(place.out) if row["outcome"] == "dead"]
        assert (row["reason"], row["status"], row["links_new"]) == ("parser-crash", 200, 0)
        assert row["warc_length"] > 0
        assert row["bytes"] == len(killer)
        assert_sound(place)
        assert "the parser process died at this page" in dead("show", place, site.url("/killer"))

        site.pages["/killer"] = lambda: b"<a href=/good>tamed</a>"
        assert dead_json("retry", place, "--reason", "parser-crash")["retried"] == 1
        crawled(site, place)
        assert outcomes(place) == {"/": "done", "/killer": "done", "/good": "done"}
        assert_sound(place)
