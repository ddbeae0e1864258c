"""Files as servers send them: marks, line ends, bytes that are no text, pages instead of files, and the size limit."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.robots import ALLOW_ALL, MAX_DELAY, MAX_FILE, Robots
from crawler.robots_explain import explain
from tests.robots.reading import SITE, allowed, parse

LINES = ["User-Agent: foobot", "Disallow: /secret", "Allow: /secret/not", "", "", "Disallow: /late"]


@pytest.mark.case("B11")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_lines_end_by_lf_cr_or_both(end: str, last: bool) -> None:
    text = end.join(LINES) + (end if last else "")
    assert not allowed(text, "/secret")
    assert allowed(text, "/secret/not")
    assert not allowed(text, "/late")


def test_line_ends_may_be_mixed() -> None:
    text = "user-agent: a\nallow: /a\r\nuser-agent: foobot\n\r\n\ndisallow: /x\rdisallow: /y"
    assert not allowed(text, "/x")
    assert not allowed(text, "/y")


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\0"])
def test_nothing_else_ends_a_line(separator: str) -> None:
    assert allowed(f"user-agent: foobot\nallow: /a{separator}disallow: /x\n", "/x")
    assert allowed(f"user-agent: foobot{separator}disallow: /x\n", "/x")


@pytest.mark.case("B01")
@pytest.mark.parametrize(
    ("start", "read"),
    [
        (codecs.BOM_UTF8, True),
        (codecs.BOM_UTF8[:2], True),  # damaged marks, which the reference parser skips too
        (codecs.BOM_UTF8[:1], True),
        (codecs.BOM_UTF8 + b"\n", True),
        (codecs.BOM_UTF8 + b"  ", True),
        (b"\xef\x11\xbf", False),  # then the first line is no record
        (codecs.BOM_UTF8 * 2, False),
        (b"\n" + codecs.BOM_UTF8, False),
        (b"\xbf", False),
    ],
)
def test_one_byte_order_mark_is_no_part_of_the_first_line(start: bytes, read: bool) -> None:
    assert allowed(start + b"user-agent: foobot\ndisallow: /x\n", "/x") is not read
    # whichever way, the lines behind are read
    assert not allowed(start + b"#\nuser-agent: foobot\ndisallow: /x\n", "/x")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_mark_of_utf_16_says_how_to_read(encoding: str) -> None:
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}.get(encoding, b"")
    assert not allowed(mark + "user-agent: foobot\ndisallow: /ü".encode(encoding), "/%C3%BC")


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    "noise",
    [
        b"# \xe4\xf6\xfc \xff\xfe",
        b"\xc3\x28: \xa0\xa1",
        b"\0\0\0\0",
        b"disallow: /\0",
        b"\x1b[31m",
        b"user-agent\xa0: foobot",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"# " + b"\xf0\x9f\xa4\x96" * 30,
        bytes(range(0x80, 0x100)),
        b"x" * 100_000,
        b":" * 1000,
        b"<p>\n</p>",
    ],
)
def test_lines_that_are_no_text_harm_nobody(noise: bytes) -> None:
    text = b"user-agent: foobot\n" + noise + b"\ndisallow: /x\n" + noise + b"\n"
    assert not allowed(text, "/x")
    assert allowed(text, "/y")


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    "page",
    [
        b"<!DOCTYPE HTML>\n<title>Not found</title>\nUser-agent: *\nDisallow: /\n",
        b"<!doctype html><pre>\nUser-agent: *\nDisallow: /\n</pre>",
        b"\r\n\t<HTML lang=en>\nUser-agent: *\nDisallow: /\n",
        b"<head>\nUser-agent: *\nDisallow: /\n",
        b"<body>\rUser-agent: *\rDisallow: /\r",
        codecs.BOM_UTF8 + b"<html>\nUser-agent: *\nDisallow: /\n",
        b"<!-- cached -->\nUser-agent: *\nDisallow: /\n",
        b'<?xml version="1.0"?>\nUser-agent: *\nDisallow: /\n',
        b"<p>User-agent: *</p>\n<p>Disallow: /</p>\n",
        b"{}",
        b"\x1f\x8b\x08\0\0\0\0\0",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        b" \n\t\r\n",
        codecs.BOM_UTF8,
        b"#",
    ],
)
def test_what_is_no_robots_file_has_no_rules(page: bytes) -> None:
    assert parse(page) is ALLOW_ALL


def filled(size: int) -> bytes:
    """A group that is open, and comments up to a size in bytes."""
    head = b"user-agent: foobot\n"
    return head + b"#" * (size - len(head) - 1) + b"\n"


@pytest.mark.case("B11")
@pytest.mark.parametrize(
    ("at", "read"),
    [
        (100_000, True),
        (499 * 1024, True),
        (MAX_FILE - len(b"disallow: /x\n"), True),
        (MAX_FILE - len(b"disallow: /x\n") + 1, False),  # its end is beyond: it could mean more than it says
        (MAX_FILE - 1, False),
        (MAX_FILE, False),
        (MAX_FILE + 100_000, False),
    ],
)
def test_five_hundred_kibibytes_are_read(at: int, read: bool) -> None:
    text = filled(at) + b"disallow: /x\n" + b"#" * 300_000
    assert allowed(text, "/x") is not read


def test_a_file_of_just_the_limit_is_whole() -> None:
    text = filled(MAX_FILE - len(b"disallow: /x")) + b"disallow: /x"
    assert len(text) == MAX_FILE
    assert not allowed(text, "/x")


@pytest.mark.case("B10")
@pytest.mark.parametrize(
    ("value", "delay", "capped"),
    [
        ("1", 1.0, False),
        ("10", 10.0, False),
        ("2.5", 2.5, False),
        ("0.25", 0.25, False),
        ("00007", 7.0, False),
        ("7.", 7.0, False),
        ("1e1", 10.0, False),
        ("1E-1", 0.1, False),
        ("0", 0.0, False),
        ("0.0", 0.0, False),
        ("0.00001", 0.001, False),  # rounded up, to milliseconds
        ("3.0001", 3.001, False),
        ("0.3", 0.3, False),
        ("3599.9999", MAX_DELAY, False),
        ("7200", MAX_DELAY, True),
        ("604800", MAX_DELAY, True),
        ("1e300", MAX_DELAY, True),
        ("9" * 400, None, False),
        ("-0", None, False),
        ("-5", None, False),
        ("+5", None, False),
        ("5 s", None, False),
        ("5sec", None, False),
        ("5,5", None, False),
        ("1:30", None, False),
        ("0x10", None, False),
        ("Infinity", None, False),
        ("NaN", None, False),
        ("1e", None, False),
        (".", None, False),
        ("٥", None, False),
        ("five", None, False),
    ],
)
def test_a_crawl_delay_is_a_number_of_seconds(value: str, delay: float | None, capped: bool) -> None:
    robots = parse(f"user-agent: foobot\ncrawl-delay: {value}\ndisallow: /x")
    assert (robots.crawl_delay, robots.delay_capped) == (delay, capped)
    assert not robots.allowed(SITE + "/x")


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("user-agent: foobot\nCRAWL-DELAY: 4", 4.0),
        ("user-agent: foobot\ncrawl delay 4", 4.0),
        ("user-agent: *\ncrawl-delay: 4", 4.0),
        ("user-agent: *\ncrawl-delay: 4\nuser-agent: foobot\nallow: /", None),  # it holds for the names before it
        ("user-agent: *\ncrawl-delay: 4\nallow: /\nuser-agent: foobot\nallow: /", None),
        ("user-agent: barbot\ncrawl-delay: 4\nallow: /", None),
        ("crawl-delay: 4\nuser-agent: foobot", None),
        ("user-agent: foobot\nallow: /\ncrawl-delay: 4", 4.0),
        (
            "user-agent: foobot\ncrawl-delay: 2\nallow: /\nuser-agent: x\nallow: /\nuser-agent: foobot\ncrawl-delay: 3",
            3.0,
        ),
        ("user-agent: foobot\ncrawl-delay: 9\ncrawl-delay: soon\ncrawl-delay: 3", 9.0),
    ],
)
def test_the_longest_delay_of_the_own_group_counts(text: str, delay: float | None) -> None:
    assert parse(text).crawl_delay == delay


@pytest.mark.case("E07")
def test_sitemaps_stand_anywhere_and_belong_to_all() -> None:
    text = (
        "sitemap: https://site.example/1.xml\nuser-agent: barbot\nallow: /\nSiteMap : /2.xml # two\n"
        "user-agent: foobot\nsite-map: 3.xml\nsitemaps: https://site.example/4.xml\nsitemap: /2.xml\n\n"
        "SITEMAP:/5.xml?a#b"
    )
    expected = ("https://site.example/1.xml", "/2.xml", "3.xml", "https://site.example/4.xml", "/5.xml?a")
    assert parse(text).sitemaps == expected
    assert parse(text, "other").sitemaps == expected
    (broken,) = parse(b"sitemap: /caf\xe9.xml").sitemaps
    broken.encode()  # no half characters that nobody can write down


@given(st.binary(max_size=400), st.text(max_size=20))
def test_no_file_is_too_strange(body: bytes, token: str) -> None:
    robots = Robots.parse(b"User-agent: *\nDisallow: " + body, token)
    assert isinstance(robots.allowed(SITE + "/x?y"), bool)
    assert robots.allowed(SITE + "/robots.txt")
    assert explain(body, SITE + "/x?y", token).allowed is Robots.parse(body, token).allowed(SITE + "/x?y")
