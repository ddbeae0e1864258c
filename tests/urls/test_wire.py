"""What servers are asked for, byte by byte, whatever library it passes through: of seeds, links and redirects."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from crawler.urls import MAX_HREF, MAX_URL
from tests.manners.crawls import HTML, crawled, redirect, site
from tests.servers import reply, serve

SPELLINGS = [
    "/p%28q%29?sig=a%2Fb%3D&b=1&a=2",
    "/it%27s/(x)/%7Ejoe/~joe/%41",
    "/a%2fb/a%2Fb/a|b/[c]/%7Bd%7D",
    "/x;v=1;w/y:z@!$&*+,=",
    "//a//b/",
    "/100%",
    "/a%zz%4",
    "/%C3%A9/%c3%a9/%E9",
    "/trailing?",
    "/q?a&b=&&=c&a",
    "/q?u=https://other.example/%3Fx&t=12:30&p=/a/b?c",
    "/q?[]=1&{}=2|3^4`5\\6",
    "/q?q=%27()%22+%20%7E",
    "/q?q=%EF%F0%E8&utm_source=kept&jsessionid=1",
    "/s;jsessionid=0A1B",
]
"""Targets that a URL parser leaves as they are, and that clients and caches like to tidy up."""


@pytest.mark.case("A01", "A08", "A09")
async def test_links_are_asked_for_as_they_were_written(tmp_path: Path) -> None:
    links = "".join(f'<a href="{escape(target if target[1] != "/" else "/." + target)}">' for target in SPELLINGS)

    def answer(target: str, head: bytes) -> bytes:
        return reply(links.encode(), HTML) if target == "/" else reply(b"leaf")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/"))
    assert sorted(server.targets) == sorted(["/robots.txt", "/", *SPELLINGS])
    assert {row["url"] for row in rows.values()} == {server.url(target) for target in ["/", *SPELLINGS]}


async def test_seeds_are_asked_for_as_they_were_given(tmp_path: Path) -> None:
    async with serve(site(lambda target, head: reply(b"leaf"))) as server:
        await crawled(tmp_path, *(server.url(target) for target in SPELLINGS))
    assert sorted(server.targets) == sorted(["/robots.txt", *SPELLINGS])


@pytest.mark.case("A08")
async def test_redirects_are_followed_as_they_were_written(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        if target.startswith("/r/"):
            to = SPELLINGS[int(target[3:])]
            return redirect(to if to[1] != "/" else "/." + to)
        return reply(b"leaf")

    async with serve(site(answer)) as server:
        await crawled(tmp_path, *(server.url(f"/r/{number}") for number in range(len(SPELLINGS))))
    assert sorted(target for target in server.targets if not target.startswith("/r")) == sorted(SPELLINGS)


@pytest.mark.case("A09")
@pytest.mark.parametrize(
    ("body", "content_type", "targets"),
    [
        ('<meta charset=cp1251><a href="/п?q=при&r=1 2">'.encode("cp1251"), HTML, ["/%D0%BF?q=%EF%F0%E8&r=1%202"]),
        ('<a href="/?q=日本">'.encode("shift_jis"), f"{HTML}; charset=Shift_JIS", ["/?q=%93%FA%96{"]),
        ('<meta charset=gb2312><a href="/?q=中文">'.encode("gb18030"), HTML, ["/?q=%D6%D0%CE%C4"]),
        ('<a href="/?q=한">'.encode("euc_kr"), f"{HTML}; charset=euc-kr", ["/?q=%C7%D1"]),
        ('<a href="/é?q=é">'.encode("latin-1"), f"{HTML}; charset=iso-8859-1", ["/%C3%A9?q=%E9"]),
        ('<a href="/?q=€&r=&#1087;">'.encode("cp1252"), f"{HTML}; charset=latin1", ["/?q=%80&r=%26%231087%3B"]),
        ('\ufeff<a href="/é?q=é">'.encode("utf-16-le"), HTML, ["/%C3%A9?q=%C3%A9"]),
        ('<a href="/é?q=é">'.encode(), HTML, ["/%C3%A9?q=%C3%A9"]),
    ],
)  # fmt: skip
async def test_a_query_is_asked_for_in_the_encoding_of_its_page(
    tmp_path: Path, body: bytes, content_type: str, targets: list[str]
) -> None:
    def answer(target: str, head: bytes) -> bytes:
        return reply(body, content_type) if target == "/start" else reply(b"leaf")

    async with serve(site(answer)) as server:
        await crawled(tmp_path, server.url("/start"))
    assert server.targets == ["/robots.txt", "/start", *targets]


@pytest.mark.case("A16")
async def test_long_urls_are_asked_for_whole_or_not_at_all(tmp_path: Path) -> None:
    """Nothing is cut: of two that differ in the last byte both are had, or both are said to be too long."""
    whole: list[str] = []
    beyond: list[str] = []
    async with serve(site(lambda target, head: reply(page, HTML) if target == "/" else reply(b"leaf"))) as server:
        for size in (2_000, MAX_URL):
            whole += [f"/?{'a' * (size - len(server.url('/?')) - 1)}{last}" for last in "xy"]
        for size in (MAX_URL + 1, 60_000):
            beyond += [f"/?{'a' * (size - len(server.url('/?')) - 1)}{last}" for last in "xy"]
        lost = [f"/?{'a' * 200_000}", f"/?{'a' * MAX_HREF}"]
        page = "".join(f"<a href='{target}'>" for target in [*whole, *beyond, *lost, "/last"]).encode()
        rows = await crawled(tmp_path, server.url("/"))
    assert sorted(server.targets) == sorted(["/robots.txt", "/", *whole, "/last"])
    reasons = {url.removeprefix(server.address): row["reason"] for url, row in rows.items()}
    assert reasons == dict.fromkeys(["/", *whole, "/last"]) | dict.fromkeys(beyond, "url-too-long")


@pytest.mark.case("A04", "A05", "A06", "A15")
async def test_what_cannot_be_followed_costs_nothing_but_itself(tmp_path: Path) -> None:
    """Bad links of all kinds between two good ones: both are had, and the crawl completes."""
    bad = [
        *(
            "http://[x/",
            "http://example.com]",
            "http://example.com:99999/",
            "http://",
            "http://a..example/",
            "http://‥/",
        ),
        *(f"http://{'a' * 64}.example/", "tel:1", "Tel:1", " JavaScript:x()", "java\tscript:x()", "\x01javascript:x()"),
        *("mailto:a@b", "data:text/html,x", "ftp://example.com/", "about:blank", "exampleapp://x", "//", "https://?x"),
    ]
    links = "".join(f'<a href="{escape(href)}">' for href in ["/one", *bad, "", "#top", " /two\n"])

    def answer(target: str, head: bytes) -> bytes:
        return reply(links.encode(), f"{HTML}; charset=utf-8") if target == "/" else reply(b"leaf")

    async with serve(site(answer)) as server:
        rows = await crawled(tmp_path, server.url("/"), scope="any")
    assert sorted(server.targets) == ["/", "/one", "/robots.txt", "/two"]
    assert rows[server.url("/")]["links_found"] == len(bad) + 4
    assert len(rows) == 3


@pytest.mark.case("A15")
async def test_user_names_are_not_sent(tmp_path: Path) -> None:
    async with serve(site(lambda target, head: reply(b"<a href='//u:p@" + host + b"/x'>", HTML))) as server:
        host = server.address.removeprefix("http://").encode()
        rows = await crawled(tmp_path, server.url("/").replace("//", "//name:secret@"))
    assert sorted(rows) == [server.url("/"), server.url("/x")]
    heads = b"".join(server.requests).lower()
    assert b"authorization" not in heads
    assert b"secret" not in heads
