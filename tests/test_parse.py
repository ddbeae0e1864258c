"""Links, titles and directives of pages, as they come."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.depth import LIMIT, capped
from crawler.fetched import ParsedPage
from crawler.parse import MAX_LINKS_SIZE, MAX_TITLE, parse
from crawler.url_key import STANDARD

URL = "https://example.com/a/b.html"


def page(html: str, content_type: str | None = "text/html; charset=utf-8", *, url: str = URL) -> ParsedPage:
    return parse(html.encode(), content_type, url, [], "examplebot")


def paths(html: str) -> list[str]:
    """Links of a page, without the host where it is the page's own."""
    return [link.url.removeprefix("https://example.com") for link in page(html).links]


# ---------------------------------------------------------------- what is a link


@pytest.mark.case("A14", "D03", "D04", "D06", "D07")
@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=/x>", ["/x"]),
        ("<A HREF='/x'>", ["/x"]),
        ("<area href=/m>", ["/m"]),
        ("<frameset><frame src=/f1><frame src=/f2></frameset>", ["/f1", "/f2"]),
        ("<iframe src=/i></iframe>", ["/i"]),
        ("<link rel=next href=2><link rel='PREV x' href=0>", ["/a/2", "/a/0"]),
        ("<link rel=previous href=/p><link rel=stylesheet href=/s><link rel=canonical href=/c>", ["/p"]),
        ("<link rel=alternate hreflang=de href=/de><link rel=alternate media=handheld href=/m>", ["/de", "/m"]),
        ("<link rel=alternate type='Text/HTML; charset=x' href=/h><link rel=alternate href=/t>", ["/h", "/t"]),
        ("<link rel=alternate type=application/rss+xml href=/r><link rel=alternate type=text/xml+oembed href=/o>", []),
        ("<link rel='alternate stylesheet' href=/s><link rel='alternate nofollow' href=/n>", []),
        ("<link rel=preload href=/l><link rel=icon href=/i><link rel=amphtml href=/a><link rel=shortlink href=/q>", []),
        ("<svg><a xlink:href=/s></a><a href=/t></a><g><a href=/u xlink:href=/v></a></g></svg>", ["/s", "/t", "/u"]),
        ("<a xlink:href=/s>", []),
        ("<svg><foreignObject><a xlink:href=/s></a></foreignObject></svg>", []),
        ("<iframe srcdoc='&lt;a href=d>'></iframe>", ["/a/d"]),
        ("<iframe srcdoc='&lt;iframe srcdoc=&quot;&amp;lt;a href=/e>&quot;>'></iframe>", ["/e"]),
        ("<iframe srcdoc='&lt;base href=/b/>&lt;a href=d>'></iframe><a href=x>", ["/a/x", "/b/d"]),
        # without a value, empty, twice
        ("<a href><a href=''><a name=x><a>", []),
        ("<a href=/1 href=/2>", ["/1"]),
        ("<img src=/i><script src=/j></script><form action=/f>", []),
        # entities
        ("<a href='?a=1&amp;b=2'>", ["/a/b.html?a=1&b=2"]),
        ("<a href='?a=1&copy=2&region=3'>", ["/a/b.html?a=1&copy=2&region=3"]),
        ("<a href='?a=1&#38;b=2'>", ["/a/b.html?a=1&b=2"]),
        ("<a href='?a=1&copy'>", ["/a/b.html?a=1%C2%A9"]),
        # what is no markup, and what is
        ("<!-- <a href=/old> --><a href=/x>", ["/x"]),
        ("<script>'<a href=/js>'</script><style>a{}</style><textarea><a href=/ta></textarea><a href=/x>", ["/x"]),
        ("<title><a href=/t></title><xmp><a href=/t></xmp>", []),
        ("<template><a href=/t></a></template>", []),
        ("<noscript><a href=/n></noscript>", ["/n"]),
        ("<head><noscript><meta http-equiv=refresh content='0;url=/r'></noscript>", ["/r"]),
        ("<p>cut off <a href=/x>in the <a hre", ["/x"]),
        # refresh
        ("<meta http-equiv=Refresh content='5; URL=/r'>", ["/r"]),
        ("<meta http-equiv=refresh content=\"0;url='/r' x\">", ["/r"]),
        ("<meta http-equiv=refresh content='0 , /r'>", ["/r"]),
        ("<meta http-equiv=refresh content='0;urls'>", ["/a/urls"]),
        ("<meta http-equiv=refresh content='0.5 url = /r '>", ["/r"]),
        ("<meta http-equiv=refresh content='30'><meta http-equiv=refresh content='1;url='>", []),
        ("<meta http-equiv=refresh content='url=/r'><meta http-equiv=refresh content='x;url=/r'>", []),
        ("<meta name=refresh content='0;url=/r'>", []),
        # each page once, in order, and not the page itself
        ("<a href=/x#a><a href=/y><a href=/x#b><a href=/x?utm_source=z><a href=/z>", ["/x", "/y", "/z"]),
        ("<a href=b.html><a href=#><a href=b.html?gclid=1><a href=b.html?>", ["/a/b.html?"]),
        ("<a href=?b=1&a=2><a href=?a=2&b=1>", ["/a/b.html?b=1&a=2"]),
        # nofollow
        ("<a href=/x rel=ugc,nofollow><a href=/y rel='ugc sponsored'><a href=/z rel=nofollowed>", ["/y", "/z"]),
        ("<iframe srcdoc='<meta name=robots content=nofollow><a href=/x>'></iframe><a href=/y>", ["/y"]),
        ("<a href=/x rel='x NOFOLLOW'><area href=/y rel=nofollow><a href=/z rel=noopener>", ["/z"]),
        ("<link rel='next nofollow' href=/x>", []),
        ("<META NAME=Robots CONTENT='NOINDEX , NoFollow'><a href=/x>", []),
        ("<meta name=ExampleBot content=nofollow><a href=/x>", []),
        ("<meta name=otherbot content=nofollow><a href=/x>", ["/x"]),
        ("<a href=/x><meta name=robots content=index><meta name=robots content=none>", []),
    ],
)  # fmt: skip
def test_what_counts_as_a_link(html: str, links: list[str]) -> None:
    assert paths(html) == links


@pytest.mark.case("A12")
@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<base target=_blank><base href=/c/><base href=/d/><a href=p>", ["/c/p"]),
        ("<a href=p><base href=/c/>", ["/c/p"]),
        ("<base href=../x/><a href=p>", ["/x/p"]),
        (
            "<base href=//other.example/y/><a href=p><a href=/q>",
            ["https://other.example/y/p", "https://other.example/q"],
        ),
        ("<base href=javascript:><a href=p>", ["/a/p"]),
        ("<base href='data:text/html,x'><a href=p>", ["/a/p"]),
        ("<base href='http://['><a href=p>", ["/a/p"]),
        ("<base href><base href=/c/><a href=p>", ["/a/p"]),
        ("<base href=/c/><a href=''>", ["/c/"]),
        ("<base href=' /c/ '><a href=p>", ["/c/p"]),
        ("<base href='?x'><a href=p>", ["/a/p"]),
        ("<base href='#x'><a href=p>", ["/a/p"]),
        ("<base href='mailto:x'><a href=p>", ["/a/p"]),
        ("<base href='http://u:p@example.com/x/'><a href=y>", ["http://example.com/x/y"]),
        ("<body><p><base href=/c/><a href=p>", ["/c/p"]),
        ("<noscript><base href=/c/></noscript><a href=p>", ["/c/p"]),
        ("<svg><base href=/s/></svg><template><base href=/t/></template><base href=/c/><a href=p>", ["/c/p"]),
        ("<iframe srcdoc='<base href=/i/>'></iframe><a href=p>", ["/a/p"]),
    ],
)
def test_the_first_base_with_an_href_holds_for_the_whole_page(html: str, links: list[str]) -> None:
    assert paths(html) == links


@pytest.mark.case("A05")
def test_a_bad_link_is_counted_and_costs_no_other() -> None:
    found = page(
        "<a href='http://[x/'><a href='http://example.com]'><a href='http://example.com:99999/'><a href=' tel:1'>"
        "<a href='//a..b/'><a href=/good><a rel=nofollow href='http://['><a href=/good>"
    )
    assert [link.url for link in found.links] == ["https://example.com/good"]
    assert (found.links_found, found.bad_links) == (8, 5)


def test_a_link_carries_the_digest_of_its_page() -> None:
    (link,) = page("<a href='/x?utm_source=y&b=1'>").links
    assert link.url == "https://example.com/x?utm_source=y&b=1"
    assert link.digest == STANDARD.digest("https://example.com/x?b=1")


@pytest.mark.case("A09", "C10")
def test_a_page_of_another_encoding_sends_its_queries_in_it() -> None:
    body = "<meta charset=windows-1251><title>Привет</title><a href='/п?q=при'>".encode("cp1251")
    found = parse(body, "text/html", URL, [], "examplebot")
    assert found.charset == "windows-1251"
    assert found.title == "Привет"
    assert [link.url for link in found.links] == ["https://example.com/%D0%BF?q=%EF%F0%E8"]


@pytest.mark.case("C10")
def test_a_page_in_utf_16_has_links() -> None:
    assert [link.url for link in parse("﻿<a href=/é>".encode("utf-16-be"), "text/html", URL, [], "x").links] == [
        "https://example.com/%C3%A9"
    ]


# ---------------------------------------------------------------- what else a page says


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> A\n  &amp; \t B </title>", "A & B"),
        ("<title></title>", None),
        ("<p>x", None),
        ("<title>one</title><title>two</title>", "one"),
        ("<math><title>formula</title></math><title>page</title>", "page"),
        ("<svg><foreignObject><title>in a drawing</title></foreignObject></svg>", "in a drawing"),
        ("<body><svg><g><title>drawing</title></g></svg><title>page</title>", "page"),
        ("<title>" + " " * 1024 + "a\0b&#0;c&#xD800;d</title>", "a�b�c�d"),
        ("<title>" + "x" * 5000 + "</title>", "x" * MAX_TITLE),
        ("<title>never closed", "never closed"),
    ],
)
def test_the_title_is_one_line(html: str, title: str | None) -> None:
    assert (page(html).title or None) == title


def test_language_and_canonical_url() -> None:
    found = page(
        "<html lang=' de-AT '><base href=/c/><link rel=canonical href='x#y'><link rel=canonical href=/other>"
        "<meta name=robots content=noindex>"
    )
    assert found.lang == "de-AT"
    assert found.canonical_url == "https://example.com/c/x"
    assert found.noindex
    assert not found.nofollow


@pytest.mark.parametrize(
    ("html", "lang"),
    [
        ("<html xml:lang=fr>", "fr"),
        ("<html xml:lang=fr lang=de>", "de"),
        ("<html lang=''><p lang=en>", None),
        ("<meta http-equiv=Content-Language content=' de-CH x'>", None),
        ("<meta http-equiv=Content-Language content=' de-CH '>", "de-CH"),
        ("<meta http-equiv=Content-Language content='de, en'>", None),
        ("<html lang=fr><meta http-equiv=Content-Language content=de>", "fr"),
        ("<html lang='" + "x" * 1000 + "'>", "x" * 64),
    ],
)
def test_the_language_of_a_page(html: str, lang: str | None) -> None:
    assert page(html).lang == lang


@pytest.mark.parametrize("href", ["", "http://[", "javascript:x", "/" + "x" * 9000])
def test_a_canonical_url_of_no_use_is_none(href: str) -> None:
    assert page(f"<link rel=canonical href='{href}'>").canonical_url is None


def test_header_and_tags_add_up() -> None:
    found = parse(b"<meta name=robots content=noindex><a href=/x>", None, URL, ["nofollow"], "x")
    assert (found.noindex, found.nofollow, found.links, found.links_found) == (True, True, (), 1)


@pytest.mark.case("C15")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"%PDF-1.4 <a href=/x>", "text/html"), (b"<a href=/x>", "text/plain"), (b"<p>\0<a href=/x>", "text/html")],
)
def test_what_is_not_html_has_no_links_but_its_headers_count(body: bytes, content_type: str) -> None:
    assert parse(body, content_type, URL, ["noindex"], "x") == ParsedPage(noindex=True)


def test_xhtml_may_close_any_element_by_a_slash() -> None:
    html = (
        "<html xmlns='http://www.w3.org/1999/xhtml'><head><title/><script src='x'/></head><body><a href='/x'/></body>"
    )
    assert [link.url for link in page(html, "application/xhtml+xml").links] == ["https://example.com/x"]


@pytest.mark.parametrize(
    ("body", "links"),
    [
        ("<p><![CDATA[ <b> <a href='/no'>x</a> ]]></p><a href='/x?a=1&amp;b=2'>x</a>", ["/x?a=1&b=2"]),
        ("<script>//<![CDATA[\n if (a<b) write('<a href=/no>') //]]></script><a href='/x'>x</a>", ["/x"]),
        (
            "<div/><p/><iframe src='/i'/><textarea/><a href='/x'>x</a><br/><a xml:base='/b/' href='y'/>",
            ["/i", "/x", "/a/y"],
        ),
    ],
)
def test_xhtml_has_sections_of_text_and_empty_elements(body: str, links: list[str]) -> None:
    html = f"<html xmlns='http://www.w3.org/1999/xhtml'><title>A <![CDATA[& B]]></title><body>{body}</body></html>"
    found = page(html, "Application/XHTML+XML; charset=utf-8")
    assert [link.url.removeprefix("https://example.com") for link in found.links] == links
    assert found.title == "A & B"


# ---------------------------------------------------------------- hostile pages


MARKUP = (
    *(
        "<a href=",
        "<a href='",
        "<base href=",
        "<svg>",
        "<template>",
        "<iframe srcdoc='",
        "&lt;",
        "<title>",
        "<!--",
        "'",
    ),
    *("<meta name=robots content=", "<meta http-equiv=refresh content='1;", "url=", ">", "/", "http://[", "\0", "é"),
    *("<select><option>", "<table>", "</p>", "<frameset><frame src=x>", "<html lang=x>", "<math><a href=y>"),
)


@given(st.one_of(st.binary(), st.lists(st.sampled_from(MARKUP)).map(lambda parts: "".join(parts).encode("latin-1"))))
def test_parsing_never_raises(body: bytes) -> None:
    found = parse(body, "text/html", URL, [], "x")
    assert not found.failed
    assert len({link.digest for link in found.links}) == len(found.links) <= found.links_found


@pytest.mark.case("D01")
@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 40_000 + "<a href=/x>",
        "<div>" * 40_000 + "<a href=/x>" + "</div>" * 40_000,
        "</div>" * 10_000 + "<div>" * 40_000 + "<a href=/x>",
        "".join(f"<b x{n}>" for n in range(2000)) + "<i>" * 2000 + "t</b>" * 2000 + "<a href=/x>",
    ],
)  # fmt: skip
def test_a_page_nested_without_end_is_flattened_and_keeps_its_links(html: str) -> None:
    assert len(re.findall("<(?:div|b|i)[ >]", capped(html))) <= LIMIT
    assert paths(html) == ["/x"]


@pytest.mark.parametrize(
    "html",
    [
        "<p>x<br>" * 5000,
        "<ul>" + "<li>x" * 5000 + "</ul>",
        "<table>" + "<tr><td>x" * 5000 + "</table>",
        "<div><span>x</span></div>" * 5000,
        "<div>" * 500 + "x" + "</div>" * 500 + "<img>" * 2000,
        "<script>" + "'<div>'" * 5000 + "</script>" + "<p>" * 600,
        "<!--" + "<div>" * 5000 + "-->" + "<p>" * 600,
        "<a name=x>" * 5000,
    ],
)
def test_a_long_page_that_nests_little_is_left_as_it_is(html: str) -> None:
    assert capped(html) is html


def test_a_page_cannot_multiply_its_size_by_a_long_base() -> None:
    found = page(f"<base href='/{'b' * 7000}/'>" + "".join(f"<a href={n}>" for n in range(2000)))
    assert found.links_found == 2000
    assert sum(len(link.url) for link in found.links) < MAX_LINKS_SIZE + 8000


def test_a_link_that_no_state_could_hold_is_a_bad_link() -> None:
    found = page(f"<a href='/{'x' * 9000}'><a href='/{'y' * 100_000}'>")
    assert [len(link.url) for link in found.links] == [9020]
    assert found.bad_links == 1
