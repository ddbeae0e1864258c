"""Sitemaps and feeds as they are really served: namespaces, formats, encodings, times."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parser import Parser
from crawler.sitemap import Sitemap, changed_at, is_list, listing, may_be_sitemap, read
from tests.sitemap_files import NOW, SPACE, entry, extra, locs, many

# ---------------------------------------------------------------- names and namespaces


@pytest.mark.case("E03")
@pytest.mark.parametrize(
    "body",
    [
        b'<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><s:url><s:loc>%s</s:loc></s:url></s:urlset>',
        b'<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"><url><loc>%s</loc></url></urlset>',
        b'<urlset xmlns="https://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>%s</loc></url></urlset>',
        b"<urlset><url><loc>%s</loc></url></urlset>",
        b"<x:urlset><x:url><x:loc>%s</x:loc></x:url></x:urlset>",
    ],
)
def test_any_namespace_will_do(body: bytes) -> None:
    assert locs(body % b"https://example.com/x") == ["https://example.com/x"]


@pytest.mark.case("E03")
@pytest.mark.parametrize(
    "more",
    [
        b"<image:image><image:loc>https://example.com/i.png</image:loc></image:image>",
        b"<image:loc>https://example.com/i.png</image:loc>",
        b"<image xmlns='http://www.google.com/schemas/sitemap-image/1.1'><loc>https://example.com/i.png</loc></image>",
        b"<video:video><video:content_loc>https://example.com/v.mp4</video:content_loc></video:video>",
        b"<video:video><video:url>https://example.com/v</video:url></video:video>",
        b"<news:news><news:title>a & b</news:title></news:news>",
        b'<xhtml:link rel="alternate" hreflang="de" href="https://example.com/de"/>',
        b'<xhtml:link rel="alternate" href="https://example.com/?a>b"/>',
    ],
)
def test_extensions_are_not_pages(more: bytes) -> None:
    page = b"<loc>https://example.com/x</loc>"
    for inside in (page + more, more + page):
        assert extra(many(b"<url>" + inside + b"</url>")) == ["https://example.com/x"]


def test_an_index_lists_sitemaps() -> None:
    body = (
        b"<sitemapindex><sitemap><loc>https://example.com/a.xml</loc><lastmod>2024</lastmod></sitemap></sitemapindex>"
    )
    assert read(body, NOW) == Sitemap([], ["https://example.com/a.xml"], 0, 0, "sitemapindex")


def test_an_index_may_list_pages_too() -> None:
    body = b"<sitemapindex><url><loc>/x</loc></url><sitemap><loc>/a.xml</loc></sitemap></sitemapindex>"
    found = listing(body, "https://example.com/maps/s.xml", NOW)
    assert [link.url for link in found.links] == ["https://example.com/x"]
    assert found.sitemaps == ("https://example.com/a.xml",)


# ---------------------------------------------------------------- other formats and encodings


def test_plain_text_is_one_url_a_line() -> None:
    body = b"\xef\xbb\xbfhttps://example.com/a\r\n\r\n# more\r\nHTTP://example.com/b?x=1&y=2 \rnot a url\nhttp://c.example/\n"
    found = read(body, NOW)
    assert [loc for loc, _ in found.urls] == [
        "https://example.com/a",
        "HTTP://example.com/b?x=1&y=2",
        "http://c.example/",
    ]
    assert (found.damaged, found.kind) == (1, "text")


def test_rss() -> None:
    body = b"""<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
      <link>https://example.com/</link><image><url>https://example.com/logo.png</url></image>
      <atom:link rel="self" href="https://example.com/feed"/>
      <item><title>a</title><link>https://example.com/a</link><pubDate>Wed, 02 Oct 2002 15:00:00 +0200</pubDate>
        <description>&lt;a href="https://example.com/not"&gt; <b>x<br></description></item>
      <item><atom:link href="https://example.com/not"/><guid isPermaLink="true">https://example.com/b</guid></item>
      <item><guid isPermaLink="false">https://example.com/not</guid><link><![CDATA[https://example.com/c]]></link></item>
      <item><guid isPermaLink="false">tag:example.com,2024:1</guid></item>
    </channel></rss>"""
    found = read(body, NOW)
    assert found.urls == [
        ("https://example.com/a", datetime(2002, 10, 2, 13, tzinfo=UTC).timestamp()),
        ("https://example.com/b", None),
        ("https://example.com/c", None),
    ]
    assert (found.damaged, found.kind) == (1, "rss")


def test_rdf() -> None:
    body = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><channel rdf:about="https://example.com/">
      <link>https://example.com/</link></channel>
      <item rdf:about="https://example.com/about"><dc:date>2024-01-02</dc:date></item>
      <item rdf:about="https://example.com/not"><link>https://example.com/b</link></item></rdf:RDF>"""
    assert locs(body) == ["https://example.com/about", "https://example.com/b"]


def test_atom() -> None:
    body = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="https://example.com/"/>
      <entry><link rel="edit" href="https://example.com/not"/><link rel="alternate" href="https://example.com/?a=1&amp;b=2"/>
        <updated>2024-01-02T03:04:05Z</updated><source><link href="https://example.com/not"/></source></entry>
      <entry><link href='/b'></link></entry></feed>"""
    assert read(body, NOW).urls == [
        ("https://example.com/?a=1&b=2", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()),
        ("/b", None),
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_with_and_without_a_mark(encoding: str) -> None:
    body = b'<?xml version="1.0" encoding="UTF-16"?>' + SPACE + entry("https://example.com/\u00e9") + b"</urlset>"
    assert locs(body.decode().encode(encoding)) == ["https://example.com/é"]


def test_the_encoding_that_the_declaration_names() -> None:
    body = b'<?xml version="1.0" encoding="iso-8859-2"?><urlset><url><loc>https://example.com/\xb1</loc></url></urlset>'
    assert locs(body) == ["https://example.com/ą"]


@pytest.mark.case("E01")
@pytest.mark.parametrize("times", [1, 2])
def test_packed_files_are_known_by_their_bytes(times: int) -> None:
    body = many()
    for _ in range(times):
        body = gzip.compress(body)
    assert extra(body) == []
    assert may_be_sitemap(body)


# ---------------------------------------------------------------- times


@pytest.mark.case("E06")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-03", datetime(2024, 3, 1, tzinfo=UTC)),
        (" 2024-03-02\n", datetime(2024, 3, 2, tzinfo=UTC)),
        ("2024-03-02T03:04Z", datetime(2024, 3, 2, 3, 4, tzinfo=UTC)),
        ("2024-03-02T03:04:05", datetime(2024, 3, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-03-02 03:04:05", datetime(2024, 3, 2, 3, 4, 5, tzinfo=UTC)),
        ("2024-03-02T03:04:05.678+02:00", datetime(2024, 3, 2, 1, 4, 5, tzinfo=UTC)),
        ("2024-03-02T03:04:05-0330", datetime(2024, 3, 2, 6, 34, 5, tzinfo=UTC)),
        ("2024-03-02T23:59:60Z", datetime(2024, 3, 2, 23, 59, 59, tzinfo=UTC)),
        ("Sat, 02 Mar 2024 03:04:05 GMT", datetime(2024, 3, 2, 3, 4, 5, tzinfo=UTC)),
        ("2999-01-01", datetime(2025, 6, 1, tzinfo=UTC)),
        ("02/01/2024", None),
        ("2024-13-01", None),
        ("2024-02-30", None),
        ("0000", None),
        ("2024-03-02T03:04:05+99:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_of_last_change(text: str, moment: datetime | None) -> None:
    assert changed_at(text, NOW) == (moment.timestamp() if moment else None)
    body = f"<urlset><url><loc>/a</loc><lastmod>{text}</lastmod></url></urlset>".encode()
    assert read(body, NOW).urls == [("/a", moment.timestamp() if moment else None)]


@given(st.text(max_size=40))
def test_no_text_is_a_time_that_raises(text: str) -> None:
    moment = changed_at(text, NOW)
    assert moment is None or moment <= NOW


# ---------------------------------------------------------------- where it is used


def test_a_list_is_known_by_its_root() -> None:
    assert is_list(many())
    assert is_list(b"<x:sitemapindex\n>")
    assert not is_list(b"<p>about &lt;urlset&gt;</p>")
    assert not is_list(b"<rss>")


def test_links_are_distinct_and_resolved() -> None:
    body = b"<urlset>" + entry("/a") + entry("https://EXAMPLE.com:443/a#x") + entry("//example.org/b")
    found = listing(body, "https://example.com/maps/s.xml", NOW)
    assert [link.url for link in found.links] == ["https://example.com/a", "https://example.org/b"]


async def test_the_parser_process_reads_a_sitemap() -> None:
    parser = Parser()
    try:
        found = await parser.listing("https://example.com/s.xml", gzip.compress(many()))
        assert (len(found.links), found.kind, found.failed) == (200, "urlset", "")
    finally:
        await parser.close()
