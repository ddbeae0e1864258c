"""Sitemaps and feeds as they are really served."""

from __future__ import annotations

import gzip
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import sitemap
from crawler.parser import Parser
from crawler.sitemap import MAX_SIZE, MAX_URLS, Sitemap, changed_at, is_list, listing, may_be_sitemap, read

NOW = datetime(2025, 6, 1, tzinfo=UTC).timestamp()
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n'
SPACE = b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'


def many(middle: bytes = b"", count: int = 200, head: bytes = HEAD + SPACE) -> bytes:
    """A file of `count` pages with something in the middle of it."""
    entries = [b"<url>\n  <loc>https://example.com/%d</loc>\n</url>\n" % number for number in range(count)]
    return head + b"".join((*entries[: count // 2], middle, *entries[count // 2 :])) + b"</urlset>\n"


def locs(body: bytes) -> list[str]:
    return [loc for loc, _ in read(body, NOW).urls]


def extra(body: bytes) -> list[str]:
    """What was found beside the 200 pages of `many`, all of which must be there."""
    found = locs(body)
    pages = {f"https://example.com/{number}" for number in range(200)}
    assert pages <= set(found)
    return [loc for loc in found if loc not in pages]


def entry(loc: str) -> bytes:
    return f"<url><loc>{loc}</loc></url>".encode()


# ---------------------------------------------------------------- not well-formed


@pytest.mark.case("E04")
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (entry("https://example.com/?a=1&b=2"), ["https://example.com/?a=1&b=2"]),
        (entry("https://example.com/?a=1&copy=2&lt=3"), ["https://example.com/?a=1&copy=2&lt=3"]),
        (entry("https://example.com/?a=1&amp;b=2&#38;c=3&#x26;d=4"), ["https://example.com/?a=1&b=2&c=3&d=4"]),
        (entry("https://example.com/caf&eacute;"), ["https://example.com/café"]),
        (entry("https://example.com/&nothing;"), ["https://example.com/&nothing;"]),
        (b"<url><loc>https://example.com/caf\xe9</loc></url>", ["https://example.com/caf%E9"]),
        (b"<url><loc>https://example.com/a\x08\x01b\x00</loc></url>", ["https://example.com/ab"]),
        (entry("<![CDATA[https://example.com/?a=1&b=2]]>"), ["https://example.com/?a=1&b=2"]),
        (entry("\n\t https://example.com/x <!-- old: https://example.com/y -->\n"), ["https://example.com/x"]),
        (b"<!-- <url><loc>https://example.com/gone</loc></url> -->", []),
        (b"<url><loc>https://example.com/x<loc><lastmod>2024</lastmod></url>", ["https://example.com/x"]),
        (b"<url><loc>https://example.com/x</lco></url>", ["https://example.com/x"]),
        (b"<url><loc>https://example.com/x</url>", ["https://example.com/x"]),
        (b"<url><loc>https://example.com/x</loc>", ["https://example.com/x"]),
        (b"<url><loc>https://example.com/x</loc><a>1 < 2</a></url>", ["https://example.com/x"]),
        (b"<url><priority>1<loc>https://example.com/x</loc></url>", ["https://example.com/x"]),
        (b'<url a=\'1" b="><loc>https://example.com/x</loc></url>', ["https://example.com/x"]),
        (b"<url><loc></loc><loc>https://example.com/x</loc></url>", ["https://example.com/x"]),
        (b"<URL><Loc>https://example.com/x</Loc></URL>", ["https://example.com/x"]),
        (b"</loc></url></url></nothing>", []),
    ],
)
def test_a_fault_costs_no_other_page_and_changes_no_url(fault: bytes, found: list[str]) -> None:
    assert extra(many(fault)) == found


@pytest.mark.case("E04")
@pytest.mark.parametrize(
    "head",
    [
        b"\n\n  " + HEAD + SPACE,
        b"\xef\xbb\xbf" + HEAD + SPACE,
        b"\xef\xbb\xbf\n" + HEAD + SPACE,
        b"<br />\n<b>Warning</b>: something in line 3<br />\n" + HEAD + SPACE,
        HEAD + b"<!-- made by a plugin --><?xml-stylesheet href='a.xsl'?>" + SPACE,
        HEAD + b'<!DOCTYPE urlset [<!ENTITY a "b"> <!ENTITY c SYSTEM "file:///etc/passwd">]>' + SPACE,
        b'<?xml version="1.0" encoding="no-such-thing"?>' + SPACE,
        b"<urlset>",
    ],
)
def test_what_stands_before_the_pages_does_no_harm(head: bytes) -> None:
    assert extra(many(head=head)) == []


@pytest.mark.case("E04")
def test_a_file_that_is_cut_gives_what_came_and_no_half_of_a_url() -> None:
    whole = many(count=1000)
    body = whole[: whole.index(b"/899<") + 3]
    found = read(body, NOW)
    assert [loc for loc, _ in found.urls] == [f"https://example.com/{number}" for number in range(899)]
    assert found.damaged == 1


def test_damage_is_counted() -> None:
    broken = b"<url></url><url><loc/></url><url><loc>nonsense</loc></url><url><loc>mailto:a@example.com</loc></url>"
    found = read(many(broken), NOW)
    assert (len(found.urls), found.damaged) == (200, 4)
    assert listing(many(entry("http://[::1/")), "https://example.com/s.xml", NOW).damaged == 1


@pytest.mark.case("E04")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00" * 5000,
        b"<!DOCTYPE html><html><body><url><loc>https://example.com/x</loc></url></body></html>",
        b"<html><head><title>Sign in</title></head><body><a href='https://example.com/'>x</a></body></html>",
        b'<?xml version="1.0"?><note><to>https://example.com/</to></note>',
        b"User-agent: *\nDisallow: /\nSitemap: https://example.com/sitemap.xml\n",
        b'{"urls": ["https://example.com/"]}',
        b"%PDF-1.7 \x80\x81",
        b"\x1f\x8bnonsense",
        b"\x1f\x8b",
    ],
)
def test_what_is_no_sitemap_lists_nothing(body: bytes) -> None:
    found = read(body, NOW)
    assert (found.urls, found.sitemaps, found.kind) == ([], [], "")


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


def test_a_packed_file_that_is_cut_gives_what_came() -> None:
    body = gzip.compress(many(count=20_000))
    found = locs(body[: len(body) * 9 // 10])
    assert len(found) > 15_000
    assert found == [f"https://example.com/{number}" for number in range(len(found))]


# ---------------------------------------------------------------- limits


@pytest.mark.case("E02")
def test_pages_beyond_the_limit_of_a_file_are_counted() -> None:
    found = read(b"<urlset>" + entry("/a") * (MAX_URLS + 7), NOW)
    assert (len(found.urls), found.beyond) == (MAX_URLS, 7)
    text = read(b"http://example.com/\n" * (MAX_URLS + 7), NOW)
    assert (len(text.urls), text.beyond) == (MAX_URLS, 7)


@pytest.mark.case("E02")
def test_a_bomb_is_read_to_the_limit_of_a_file() -> None:
    packed = gzip.compress(many() + b" " * (MAX_SIZE + 20_000_000))
    assert len(packed) < 100_000
    assert extra(packed) == []
    late = gzip.compress(b"<urlset>" + b" " * MAX_SIZE + entry("/a"))
    assert locs(late) == []


@pytest.mark.case("E02")
def test_entities_of_a_doctype_stand_for_nothing() -> None:
    lines = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE urlset [<!ENTITY l0 "lol">{lines}]>'.encode()
    assert extra(many(entry("https://example.com/&l9;"), head=HEAD + bomb + SPACE)) == ["https://example.com/&l9;"]


HOSTILE = [
    b'"',
    b"<a b='",
    b"<",
    b"<!",
    b"<!--",
    b"<![CDATA[",
    b"&",
    b"<a",
    b"<a>",
    b"</a>",
    b"<url>",
    b"<loc>",
    b"=",
    b"&#1",
    b"a:",
    b" ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_reading_takes_time_in_proportion_to_the_size(piece: bytes) -> None:
    def seconds(size: int) -> float:
        body = b"<urlset><url><loc>" + piece * (size // len(piece))
        return min(_timed(body) for _ in range(3))

    # A square law would make it sixteen times as long; the rest is for a machine that is busy.
    assert seconds(800_000) < 10 * seconds(200_000) + 0.05


def _timed(body: bytes) -> float:
    began = time.process_time()
    read(body, NOW)
    return time.process_time() - began


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*HOSTILE, b"<feed>", b"<item>", b"</loc>", b"http://a/", b"\xff", b"\x1f\x8b", b"x"])))
def test_nothing_raises(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    for head in (b"", b"<urlset>", b"<rss>", b"<feed><entry><link "):
        found = listing(head + body, "https://example.com/s.xml", NOW)
        assert all(link.url.startswith(("http://", "https://")) for link in found.links)


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


async def test_a_sitemap_that_takes_too_long_is_given_up_and_the_next_is_read() -> None:
    parser = Parser(timeout=0.5, max_body=MAX_SIZE)
    try:
        await parser.start()
        slow = await parser.listing("https://example.com/s.xml", b"<urlset>" + b"<a>" * (sitemap.MAX_SIZE // 3))
        assert slow.failed == "timeout"
        assert (await parser.listing("https://example.com/s.xml", many())).failed == ""
    finally:
        await parser.close()
