"""--keep-param and --drop-param: one rule for what is one page, from links to rows, kept as long as the crawl."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broken_site import broken_site
from tests.command import rows, run
from tests.e2e.test_aws import Stack
from tests.emulator import Emulator, Template
from tests.manners.crawls import HTML, crawled, redirect, site
from tests.redis_server import RedisServer
from tests.servers import reply, serve

SITE = {
    "/": b"<a href='/p?ref=a&id=1'><a href='/p?ref=b&id=1'><a href='/p?id=2&ref=c'><a href='/q?utm_source=x'>"
    b"<a href='/q?utm_source=y'><a href='/q?gclid=1'><a href='/r?ref=1'><a href='/?ref=self'>",
}


def answer(target: str, head: bytes) -> bytes:
    if target.startswith("/r?"):
        return redirect("/p?ref=d&id=1")
    return reply(SITE.get(target, b"leaf"), HTML)


async def test_parameters_that_are_dropped_tell_no_pages_apart(tmp_path: Path) -> None:
    async with serve(site(answer)) as server:
        found = await crawled(tmp_path, server.url("/"), drop_params=("ref",))
    assert server.targets == ["/robots.txt", "/", "/p?ref=a&id=1", "/p?id=2&ref=c", "/q?utm_source=x", "/r?ref=1"]
    assert {row["url_key"].removeprefix(server.address) for row in found.values()} == {
        *("/", "/p?id=1", "/p?id=2", "/q", "/r"),
    }


async def test_parameters_that_are_kept_tell_pages_apart(tmp_path: Path) -> None:
    async with serve(site(answer)) as server:
        found = await crawled(tmp_path, server.url("/"), keep_params=("utm_*",), drop_params=("*",))
    assert server.targets == [
        *("/robots.txt", "/", "/p?ref=a&id=1", "/q?utm_source=x", "/q?utm_source=y", "/q?gclid=1", "/r?ref=1"),
    ]
    assert {row["url_key"].removeprefix(server.address) for row in found.values()} == {
        *("/", "/p", "/q?utm_source=x", "/q?utm_source=y", "/q", "/r"),
    }


@pytest.mark.case("A02")
async def test_filters_see_the_key_of_the_crawl(tmp_path: Path) -> None:
    async with serve(site(answer)) as server:
        await crawled(tmp_path, server.url("/"), drop_params=("ref",), exclude=("ref=", r"id=2$"))
    assert server.targets == ["/robots.txt", "/", "/p?ref=a&id=1", "/q?utm_source=x", "/r?ref=1"]


# ---------------------------------------------------------------- by the command


@pytest.fixture(params=["sqlite", "redis"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a state, of each kind that needs no account."""
    if request.param == "sqlite":
        return str(tmp_path / "state.sqlite")
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.address()


PAGES = {
    "/": "<a href='/p?ref=a&id=1'>1<a href='/p?ref=b&id=1'>2<a href='/bad?ref=c'>3<a href='/?utm_id=1'>4",
    "/p?ref=a&id=1": "one",
    "/?utm_id=1": "campaign",
    "/bad?ref=c": "mended",
}
CRAWL = ("--rate", "0", "--allow-private", "--processes", "1", "--max-attempts", "1", "--quiet")


@pytest.mark.e2e
def test_what_counts_as_one_page_is_settled_when_a_crawl_begins(state: str, tmp_path: Path) -> None:
    options = ("--drop-param", "REF", "--drop-param", "x*", "--keep-param", "utm_id")
    place = ("--state", state, "--out", str(tmp_path / "out"))
    with broken_site(PAGES, "/bad?ref=c") as site:
        assert run("crawl", site.url(), *place, *CRAWL, *options).returncode == 0
        asked = site.asked.copy()
        assert set(asked) == {"/robots.txt", *PAGES}
        # The same options in another order, or none: it goes on. Others: refused, and nothing is changed.
        again = ("--drop-param", "x*", "--keep-param", "UTM_ID", "--drop-param", "ref")
        assert run("crawl", site.url("/?x1=2&ref=d"), *place, *CRAWL, *again).returncode == 0
        assert run("crawl", site.url("/p?id=1"), *place, *CRAWL).returncode == 0
        for other in (["--drop-param", "ref"], ["--keep-param", "gclid"], ["--keep-param", "*"]):
            refused = run("crawl", site.url("/new"), *place, *CRAWL, *other)
            assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
            assert "what crawl" in refused.stderr
            assert "cannot change" in refused.stderr
        assert site.asked == asked
        # Every command knows a page by the keys of its crawl.
        shown = run("dead", "show", site.url("/bad?x=1&ref=z"), "--state", state)
        assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, site.url("/bad?ref=c"))
        site.mended = True
        assert run("dead", "retry", site.url("/bad"), "--state", state).returncode == 0
        assert run("crawl", *place, *CRAWL).returncode == 0
        assert site.asked - asked == {"/bad?ref=c": 1}
        keys = {row["url_key"].removeprefix(site.origin) for row in rows(tmp_path / "out")}
    assert keys == {"/", "/p?id=1", "/bad", "/?utm_id=1"}
    verified = run("verify", "--state", state)
    assert verified.returncode == 0, verified.stdout


@pytest.mark.e2e
@pytest.mark.emulator
def test_a_fleet_on_aws_counts_pages_alike(emulator: Emulator, template: Template) -> None:
    stack = Stack(emulator, template)
    with broken_site(PAGES) as site:
        settings = ("--rate", "0", "--allow-private", "--drop-param", "ref")
        assert stack.run("seed", site.url(), site.url("/?ref=seed"), *settings).returncode == 0
        workers = [stack.worker() for _ in range(2)]
        errors = [worker.communicate(timeout=100)[1] for worker in workers]
        assert [worker.returncode for worker in workers] == [0, 0], errors
        assert sum(site.asked.values()) == 1 + 3
        refused = stack.run("seed", site.url("/new"), "--drop-param", "id")
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert stack.status()["done"] == 3
        assert stack.run("verify").returncode == 0
