"""Fragments and bases, as pages have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manners.crawls import HTML, crawled, redirect, site
from tests.servers import reply, serve


@pytest.mark.case("A14")
async def test_a_fragment_is_never_sent_and_makes_no_other_page(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        links = b'<a href="/x#a"><a href="/x#b"><a href="#"><a href="/app#!/r"><a href="/app#!/s">'
        return reply(links if target == "/" else b"leaf", HTML)

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/#seed"))
    assert sorted(server.targets) == ["/", "/app", "/robots.txt", "/x"]
    assert {row["url"] for row in rows.values()} == {server.url(path) for path in ("/", "/app", "/x")}


@pytest.mark.case("A12", "C08")
@pytest.mark.parametrize(
    ("base", "target"),
    [
        ("", "/c/p"),
        ("<base target=_blank><base href='/c/e/'><base href='/d/'>", "/c/e/p"),
        ("<base href='e/'>", "/c/e/p"),
        ("<base href='javascript:'>", "/c/p"),
    ],
)
async def test_links_behind_a_redirect_belong_to_the_page_it_led_to(tmp_path: Path, base: str, target: str) -> None:
    def answer(path: str, head: bytes) -> bytes:
        if path == "/old/page":
            return redirect("/c/d.html")
        return reply(f"<a href=p>p</a>{base}".encode() if path == "/c/d.html" else b"leaf", HTML)

    async with serve(site(answer)) as server:
        await crawled(tmp_path, server.url("/old/page"))
    assert server.targets == ["/robots.txt", "/old/page", "/c/d.html", target]
