"""Sitemaps that are not well-formed, cut, without end or made to harm."""

from __future__ import annotations

import gzip
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.parser import Parser
from crawler.sitemap import MAX_SIZE, MAX_URLS, listing, read
from tests.sitemap_files import HEAD, NOW, SPACE, entry, extra, locs, many

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


async def test_a_sitemap_that_takes_too_long_is_given_up_and_the_next_is_read() -> None:
    parser = Parser(timeout=0.5, max_body=MAX_SIZE)
    try:
        await parser.start()
        slow = await parser.listing("https://example.com/s.xml", b"<urlset>" + b"<a>" * (MAX_SIZE // 3))
        assert slow.failed == "timeout"
        assert (await parser.listing("https://example.com/s.xml", many())).failed == ""
    finally:
        await parser.close()
