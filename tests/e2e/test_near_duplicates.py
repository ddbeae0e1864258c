"""Crawls with --skip-near-duplicates: links of pages that are almost the same are left out, and it shows."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest

from crawler.discover import Discoverer, SeenCache
from crawler.fetched import Link, ParsedPage
from crawler.model import Lease
from crawler.robots_keeper import RobotsKeeper
from crawler.simhash import simhash
from tests.command import rows, run
from tests.faults.crawls import state_in
from tests.manners.crawls import HTML, Answer, crawled, site
from tests.servers import reply, serve

pytestmark = pytest.mark.e2e

NONE = reply(status="404 Not Found")


def prose(seed: object, words: int = 400) -> str:
    rng = random.Random(str(seed))
    return " ".join(f"word{rng.randrange(3000)}" for _ in range(words))


def page(text: str, *links: str) -> bytes:
    return reply(f"<p>{text}</p>{''.join(f'<a href={link!r}>x</a>' for link in links)}".encode(), HTML)


def calendar() -> Answer:
    """A site of ten articles and an endless calendar, whose days differ in a date and a token and have links of their
    own."""
    tokens = itertools.count()

    def answer(target: str, head: bytes) -> bytes:
        if target == "/":
            return page(prose("home"), "/day/1", *(f"/article/{number}" for number in range(10)))
        if day := re.fullmatch(r"/day/(\d+)", target):
            links = [f"/day/{int(day[1]) + 1}", f"/day/{int(day[1]) + 2}"]
            return page(f"{prose('day')} day {day[1]} token {next(tokens):032x}", *links)
        if re.fullmatch(r"/article/\d", target):
            return page(prose(target), f"{target}/more")
        return page(prose(target)) if target.endswith("/more") else NONE

    return answer


async def test_links_of_near_duplicates_are_found_but_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(site(calendar())) as server:
        found = await crawled(tmp_path, server.url("/"), skip_near_duplicates=True)
        paths = {url.removeprefix(server.address): row for url, row in found.items()}
    days = {path for path in paths if path.startswith("/day/")}
    assert days == {"/day/1", "/day/2", "/day/3"}  # the links of the first, whose near duplicates the others are
    assert {path for path in paths if "more" in path} == {f"/article/{number}/more" for number in range(10)}
    for day in ("/day/2", "/day/3"):
        row = paths[day]
        assert row["near_duplicate_of"] == server.url("/day/1")
        assert (row["outcome"], row["links_found"], row["links_new"]) == ("done", 2, 0)
        assert row["warc_file"]
    others = [row for path, row in paths.items() if path not in ("/day/2", "/day/3")]
    assert all(row["near_duplicate_of"] is None for row in others)
    assert all(-(2**63) <= row["simhash"] < 2**63 for row in paths.values())
    assert "4 links of 2 near duplicates were not followed (near_duplicate_of in their rows)" in caplog.messages


async def test_without_the_setting_they_are_followed_and_nothing_is_hashed(tmp_path: Path) -> None:
    async with serve(site(calendar())) as server:
        found = await crawled(tmp_path, server.url("/"), max_depth=6)
    assert sum("/day/" in url and row["outcome"] == "done" for url, row in found.items()) > 6
    assert {(row["simhash"], row["near_duplicate_of"]) for row in found.values()} == {(None, None)}


async def test_the_same_text_on_another_host_is_another_page(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return page(prose("both"), "/next") if target == "/" else page(prose("next"))

    async with serve(site(answer)) as here, serve(site(answer), host="127.0.0.2") as there:
        found = await crawled(tmp_path, here.url("/"), there.url("/"), skip_near_duplicates=True)
        assert {here.url("/next"), there.url("/next")} <= set(found)


async def test_seeds_are_followed_whatever_they_resemble(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return page(prose(target)) if "more" in target else page(prose("same"), f"{target}/more")

    async with serve(site(answer)) as server:
        found = await crawled(tmp_path, server.url("/a"), server.url("/b"), skip_near_duplicates=True)
        assert set(found) == {server.url(path) for path in ("/a", "/b", "/a/more", "/b/more")}


async def test_pages_with_little_text_are_followed(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        number = int(target.removeprefix("/photo/") or 0) if target.startswith("/photo/") else 0
        return page(f"Photo {number} of 20", *([f"/photo/{number + 1}"] if number < 20 else []))

    async with serve(site(answer)) as server:
        found = await crawled(tmp_path, server.url("/"), skip_near_duplicates=True)
        assert server.url("/photo/20") in found


def lease(url: str, **more: Any) -> Lease:
    given: dict[str, Any] = {
        "depth": 1,
        "parent_url": "http://h/",
        "receives": 1,
        "digest": url.encode()[:16].ljust(16),
    } | more
    return Lease(
        crawl="c",
        url=url,
        gate="h",
        priority=10,
        discovered_at=0.0,
        token=url,
        attempt=1,
        start_at=0.0,
        expires_at=0.0,
        **given,
    )


def parsed(*links: str) -> ParsedPage:
    return ParsedPage(links=tuple(Link(link, link.encode()) for link in links), simhash=simhash(prose("same")))


async def discoverer(folder: Path, **settings: Any) -> Discoverer:
    from crawler.config import CrawlSettings

    given = CrawlSettings(skip_near_duplicates=True, **settings)
    async with state_in(folder, "w") as state:
        return Discoverer(state, "c", given, SeenCache(), RobotsKeeper(state, None, "c", given, "w"))  # type: ignore[arg-type]


async def test_a_page_handed_out_again_has_its_links_added(tmp_path: Path) -> None:
    judge = await discoverer(tmp_path)
    first, second = lease("http://h/1"), lease("http://h/2")
    assert judge.near_duplicate_of(first, parsed("http://h/x")) is None
    assert judge.near_duplicate_of(second, parsed("http://h/y")) == first.url
    again = lease("http://h/2", receives=2)
    assert judge.near_duplicate_of(again, parsed("http://h/y")) is None
    # Nor is a page a near duplicate of itself, when it comes once more.
    assert judge.near_duplicate_of(first, parsed("http://h/x")) is None


async def test_where_nothing_is_followed_nothing_is_followed_in_its_stead(tmp_path: Path) -> None:
    judge = await discoverer(tmp_path, max_depth=3)
    assert judge.near_duplicate_of(lease("http://h/nofollow"), parsed()) is None
    assert judge.near_duplicate_of(lease("http://h/deepest", depth=3), parsed("http://h/x")) is None
    assert judge.near_duplicate_of(lease("http://h/1"), parsed("http://h/y")) is None
    assert judge.near_duplicate_of(lease("http://h/2"), parsed("http://h/z")) == "http://h/1"


async def test_a_user_sees_what_was_left_out(tmp_path: Path) -> None:
    async with serve(site(calendar())) as server:
        arguments = ("--rate", "0", "--allow-private", "--processes", "1", "--skip-near-duplicates")
        result = await asyncio.to_thread(run, "crawl", server.url("/"), "--out", str(tmp_path / "out"), *arguments)
    assert result.returncode == 0
    assert "4 links of 2 near duplicates were not followed" in result.stderr
    assert sum(row["near_duplicate_of"] is not None for row in rows(tmp_path / "out")) == 2
