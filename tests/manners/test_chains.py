"""Redirects: a new URL each, but for those that lead back into the page's own chain."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from crawler.chain import MOST_HOPS
from tests.manners.crawls import HTML, crawled, redirect, site
from tests.servers import reply, serve

COOKIE = b"cookie: seen=1"


def has_cookie(head: bytes) -> bool:
    return COOKIE in head.replace(b"Cookie", b"cookie")


@pytest.mark.case("C07", "C14")
async def test_a_page_that_sets_a_cookie_and_redirects_to_itself_is_had(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/leaf" or has_cookie(head):
            return reply(b"<title>in</title><a href=/leaf>leaf</a>", HTML)
        return redirect(target, "Set-Cookie: seen=1")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x"))
        assert server.targets == ["/robots.txt", "/x", "/x", "/leaf"]
    row = rows[server.url("/x")]
    assert (row["status"], row["title"], row["redirect_to"], row["attempts"]) == (200, "in", None, 1)
    assert COOKIE not in server.requests[-1].lower(), "cookies do not outlive their chain"


@pytest.mark.case("C07")
async def test_a_self_redirect_to_another_spelling_of_the_page_is_followed(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/x?b=2&a=1":
            return redirect("/x?a=1&b=2", "Set-Cookie: seen=1; Path=/")
        return reply(b"<title>in</title>", HTML) if has_cookie(head) else reply(b"", status="403 Forbidden")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x?b=2&a=1"))
    (row,) = rows.values()
    assert (row["status"], row["title"], row["redirect_to"]) == (200, "in", server.url("/x?a=1&b=2"))


async def test_a_bounce_through_another_page_that_sets_the_cookie_is_had(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/check":
            return redirect("/x", "Set-Cookie: seen=1; Path=/")
        return reply(b"<title>in</title>", HTML) if has_cookie(head) else redirect("/check")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x"))
        assert server.targets == ["/robots.txt", "/x", "/check", "/x"]
    first, second = rows[server.url("/x")], rows[server.url("/check")]
    assert (first["status"], first["redirect_to"]) == (302, server.url("/check"))
    assert (second["status"], second["title"], second["redirect_to"]) == (200, "in", server.url("/x"))
    assert second["parent_url"] == server.url("/x")


async def test_a_cookie_of_the_first_page_comes_back_to_it(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/check":
            return redirect("/x")
        return reply(b"<title>in</title>", HTML) if has_cookie(head) else redirect("/check", "Set-Cookie: seen=1")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x"))
    assert rows[server.url("/check")]["title"] == "in"


async def test_two_pages_that_redirect_to_each_other_without_a_cookie_are_two_pages(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return redirect("/b" if target == "/a" else "/a")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/a"))
        assert server.targets == ["/robots.txt", "/a", "/b"]
    assert {row["redirect_to"] for row in rows.values()} == {server.url("/a"), server.url("/b")}


@pytest.mark.case("C06", "C07")
async def test_a_page_that_always_redirects_to_itself_is_left_after_ten_hops(tmp_path: Path) -> None:
    async with serve(site(lambda target, head: redirect(target, "Set-Cookie: seen=1"))) as server:
        rows = await crawled(tmp_path, server.url("/x"))
        assert server.targets == ["/robots.txt"] + ["/x"] * (1 + MOST_HOPS)
    (row,) = rows.values()
    assert (row["outcome"], row["status"], row["redirect_to"]) == ("done", 302, server.url("/x"))
    assert row["error"] == "a redirect loop: left after 10 hops"


async def test_a_chain_that_ends_in_a_new_url_finds_it(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target == "/new":
            return reply(b"<title>new</title>", HTML)
        return redirect("/new") if has_cookie(head) else redirect(target, "Set-Cookie: seen=1")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x"))
    assert (rows[server.url("/x")]["status"], rows[server.url("/x")]["redirect_to"]) == (302, server.url("/x"))
    assert (rows[server.url("/new")]["title"], rows[server.url("/new")]["parent_url"]) == ("new", server.url("/x"))


async def test_every_hop_takes_a_turn_at_the_gate(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return redirect(target, f"Set-Cookie: n={len(server.requests)}")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/x"), rate=20.0)
        times = server.times
    assert len(rows) == 1
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    # 12 requests at 20 a second: a turn used late may crowd the next one, but they do not add up.
    assert times[-1] - times[0] >= (len(times) - 2) * 0.05, gaps


@pytest.mark.case("C11")
async def test_a_redirect_that_says_to_wait_holds_the_host_it_leads_to(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return redirect("/later", "Retry-After: 1") if target == "/x" else reply(b"", HTML)

    async with serve(site(answer)) as server:
        await crawled(tmp_path, server.url("/x"))
        assert server.targets == ["/robots.txt", "/x", "/later"]
        assert server.times[2] - server.times[1] >= 0.95
