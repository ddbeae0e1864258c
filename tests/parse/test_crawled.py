"""Whole crawls of a page of each kind: which links are followed, and what its row says."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.manners.crawls import HTML, crawled, site
from tests.servers import reply, serve

XHTML = "Content-Type: application/xhtml+xml"

FOLLOWED = {
    "a": "<a href=/1>",
    "area": "<map><area href=/1></map>",
    "frame": "<frameset><frame src=/1></frameset>",
    "iframe": "<iframe src=/1></iframe>",
    "document in place": "<iframe srcdoc='&lt;a href=/1>'></iframe>",
    "next": "<link rel=next href=/1>",
    "previous": "<link rel=prev href=/1>",
    "other language": "<link rel=alternate hreflang=de href=/1>",
    "other screens": "<link rel=alternate media='only screen and (max-width: 640px)' href=/1>",
    "refresh": "<meta http-equiv=refresh content='5 ; URL = \"/1\"'>",
    "drawing": "<svg><a href=/1></a></svg>",
    "drawing of old": "<svg><a xlink:href=/1></a></svg>",
    "without scripts": "<noscript><a href=/1></noscript>",
    "without scripts, in the head": "<head><noscript><meta http-equiv=refresh content='0;/1'></noscript></head>",
    "entity": "<a href='/&#49;'>",
    "first of two": "<a href=/1 href=/2>",
    "blanks": "<a href='\n /\t1 '>",
    "upper case": "<A HREF=/1>",
    "unquoted": "<a class=x href=/1/../1>",
    "never closed": "<p><b><a href=/1>x<table><tr><td>",
    "ugc": "<a rel='ugc sponsored' href=/1>",
    "other robots": "<meta name=otherbot content=none><a href=/1>",
    "fragment": "<a href=/1#a><a href=/1#b><a href='#'>",
    "credentials": "<base href='/'><a href='1'>",
}

NOT_FOLLOWED = {
    "comment": "<!-- <a href=/1> -->",
    "script": "<script>'<a href=/1>'</script>",
    "style": "<style><a href=/1></style>",
    "text area": "<textarea><a href=/1></textarea>",
    "title": "<title><a href=/1></title>",
    "template": "<template><a href=/1><meta http-equiv=refresh content='0;url=/1'></template>",
    "nofollow": "<a href=/1 rel='x NOFOLLOW'>",
    "nofollow of the page": "<a href=/1><META NAME=Robots CONTENT='index , NoFollow'>",
    "none": "<meta name=robots content=none><a href=/1>",
    "image": "<img src=/1 srcset='/1 1x'><picture><source srcset=/1></picture>",
    "media": "<video src=/1 poster=/1><audio src=/1><track src=/1></video>",
    "form": "<form action=/1><button formaction=/1></form><form method=get action=/1>",
    "object": "<object data=/1></object><embed src=/1><applet code=/1></applet>",
    "style sheet": "<link rel=stylesheet href=/1><link rel='alternate stylesheet' href=/1>",
    "feed": "<link rel=alternate type=application/rss+xml href=/1><link rel=alternate type=application/json href=/1>",
    "canonical": "<link rel=canonical href=/1>",
    "hints": "<link rel=preload href=/1><link rel=prefetch href=/1><link rel=icon href=/1><link rel=manifest href=/1>",
    "no value": "<a href><a href=''><a name=/1>",
    "cite and ping": "<q cite=/1></q><a ping=/1 href='#'>",
}


@pytest.mark.case("D04", "D06")
@pytest.mark.parametrize("html", FOLLOWED.values(), ids=list(FOLLOWED))
async def test_a_link_is_followed(tmp_path: Path, html: str) -> None:
    async with serve(site(lambda target, head: reply(html.encode(), HTML))) as server:
        await crawled(tmp_path, server.url("/start"))
    assert server.targets == ["/robots.txt", "/start", "/1"]


@pytest.mark.case("D06")
async def test_what_is_no_link_is_not_followed(tmp_path: Path) -> None:
    pages = {f"/{number}/": html for number, html in enumerate(NOT_FOLLOWED.values())}
    async with serve(site(lambda target, head: reply(pages[target].encode(), HTML))) as server:
        await crawled(tmp_path, *map(server.url, pages))
    assert sorted(server.targets) == sorted(["/robots.txt", *pages])


NAMESPACE = "http://www.w3.org/1999/xhtml"
FORMATTING = "".join(f"<b x{n}><i x{n}>" for n in range(4000)) + "t</b>" * 4000 + "<a href=/of/formatting>"

BODIES = {
    "/html": (b"<a href=/of/html>", "Text/HTML ; charset=utf-8"),
    "/two": (b"<a href=/of/two>", "text/html, text/html"),
    "/xhtml": (f"<html xmlns='{NAMESPACE}'><script/><a href='/of/xhtml'/></html>".encode(), "application/xhtml+xml"),
    "/nothing": (b"<!DOCTYPE html><a href=/of/nothing>", None),
    "/deep": (b"<div>" * 200_000 + b"<a href=/of/deep>", "text/html"),
    "/formatting": (FORMATTING.encode(), "text/html"),
    "/plain": (b"<!DOCTYPE html><a href=/of/plain>", "text/plain"),
    "/bytes": (b"<!DOCTYPE html><a href=/of/bytes>", "application/octet-stream"),
    "/pdf": (b"%PDF-1.7\n<a href=/of/pdf>", "text/html"),
    "/zip": (b"PK\x03\x04<a href=/of/zip>", "text/html"),
    "/png": (b"\x89PNG\r\n\x1a\n<a href=/of/png>", "text/html"),
    "/gzip": (gzip.compress(b"<a href=/of/gzip>"), "text/html"),
    "/nul": (b"<p>\0<a href=/of/nul>", "text/html"),
    "/words": (b"see <a href=/of/words>", None),
}  # fmt: skip
PARSED = ("html", "two", "xhtml", "nothing", "deep", "formatting")


@pytest.mark.case("C15", "D01")
async def test_only_what_is_html_is_parsed_and_everything_is_stored(tmp_path: Path) -> None:
    def answer(target: str, head: bytes) -> bytes:
        body, kind = BODIES.get(target, (b"leaf", "text/plain"))
        return reply(body, *([f"Content-Type: {kind}"] if kind else []))

    async with serve(site(answer)) as server:
        found = await crawled(tmp_path, *map(server.url, BODIES))
    assert sorted(server.targets) == sorted(["/robots.txt", *BODIES, *(f"/of/{name}" for name in PARSED)])
    assert {row["outcome"] for row in found.values()} == {"done"}
    assert [path for path in BODIES if found[server.url(path)]["charset"]] == [f"/{name}" for name in PARSED]
    assert all(row["error"] is None and row["digest"] for row in found.values())


async def test_a_row_says_what_a_page_says_of_itself(tmp_path: Path) -> None:
    pages = {
        "/a": reply(
            b"<html lang=de><svg><title>no</title></svg><title> A\n&amp; B </title><link rel=canonical href='/c#d'>",
            HTML,
            "Content-Language: fr",
            'Link: <https://elsewhere.example/>; rel="canonical"',
        ),
        "/b": reply(b"<p>x", HTML, "Content-Language: fr", "X-Robots-Tag: noindex", 'Link: <c?x>; rel="canonical"'),
        "/pdf": reply(b"%PDF-", "Content-Type: application/pdf", "Link: </page>; rel=canonical"),
        "/gif": reply(b"GIF89a", "X-Robots-Tag: otherbot: noindex", "X-Robots-Tag: max-snippet: 1, NONE"),
        "/png": reply(b"\x89PNG", "X-Robots-Tag: otherbot: noindex", "Content-Language: de"),
        "/xhtml": reply(b"<html xml:lang='en'><title><![CDATA[A < B]]></title></html>", XHTML),
    }
    async with serve(site(lambda target, head: pages[target])) as server:
        found = await crawled(tmp_path, *map(server.url, pages))
    said = {
        url.removeprefix(server.address): (row["title"], row["lang"], row["canonical_url"], row["noindex"])
        for url, row in found.items()
    }
    assert said == {
        "/a": ("A & B", "de", server.url("/c"), False),
        "/b": (None, "fr", server.url("/c?x"), True),
        "/pdf": (None, None, server.url("/page"), None),
        "/gif": (None, None, None, True),
        "/png": (None, None, None, None),
        "/xhtml": ("A < B", "en", None, False),
    }


async def test_links_in_the_kept_part_of_a_page_that_was_cut_are_followed(tmp_path: Path) -> None:
    page = b"<a href=/kept>" + b"x" * 2000 + b"<a href=/lost>"
    async with serve(site(lambda target, head: reply(page if target == "/" else b"leaf", HTML))) as server:
        found = await crawled(tmp_path, server.url("/"), max_body=1024)
    assert server.targets == ["/robots.txt", "/", "/kept"]
    assert found[server.url("/")]["truncated"] is True
