"""What is sent back to a server as a condition, and what a 304 says."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.conditions import conditions, contradicts, refreshed
from crawler.fetched import Response
from tests.archive.making import START, response

SUNDAY = "Sun, 20 Sep 2026 10:00:00 GMT"


def not_modified(*headers: tuple[bytes, bytes]) -> Response:
    return response(status=304, reason="Not Modified", headers=headers, stored=b"")


@pytest.mark.parametrize(
    "etag",
    ['"abc"', 'W/"abc"', '""', '"a b"', "\"a'b,c\"", '"*"', "abc", "5f3-1a2b", "W/abc", '"\u00c3\u00a9"',
     '"' + "x" * 1000 + '"'],
)  # fmt: skip
def test_an_entity_tag_goes_back_as_it_came(etag: str) -> None:
    ((name, value),) = conditions(etag, None, START)
    assert name == "If-None-Match"
    assert value.encode() == etag.encode("latin-1"), "the client writes UTF-8"


@pytest.mark.parametrize(
    "etag",
    ["", "*", "a,b", '"a", *', '"a"\r\nX-Forged: 1', '"a\x00b"', '"a\tb"', '"a\ufffdb"', '"\u00e9"', '"a', '"a"b"',
     '"' + "x" * 2000 + '"'],
)  # fmt: skip
def test_what_could_mean_something_else_is_not_sent_back(etag: str) -> None:
    assert conditions(etag, None, START) == ()


@pytest.mark.parametrize(
    "date", [SUNDAY, "Sunday, 20-Sep-26 10:00:00 GMT", "Sun Sep 20 10:00:00 2026", "Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_a_date_goes_back_as_it_came(date: str) -> None:
    assert conditions(None, date, START) == (("If-Modified-Since", date),)


@pytest.mark.parametrize(
    "date",
    ["", "0", "-1", "yesterday", "2026-09-20T10:00:00Z", "Sun, 20 Sep 2026 10:00:00 +0200",
     "Sun, 31 Feb 2026 10:00:00 GMT",
     f"{SUNDAY}\r\nX-Forged: 1", f"{SUNDAY}, {SUNDAY}", "Sun, 20 Sep 2026 25:00:00 GMT"],
)  # fmt: skip
def test_what_is_no_http_date_is_not_sent_back(date: str) -> None:
    assert conditions(None, date, START) == ()


def test_a_date_later_than_its_answer_is_no_date_of_a_change() -> None:
    assert conditions(None, "Fri, 01 Jan 2100 00:00:00 GMT", START) == ()
    assert conditions(None, "Tue, 22 Sep 2026 10:00:00 GMT", START) != (), "clocks are off by hours"


def test_both_validators_are_sent_and_one_that_is_unfit_takes_nothing_from_the_other() -> None:
    assert conditions('"e"', SUNDAY, START) == (("If-None-Match", '"e"'), ("If-Modified-Since", SUNDAY))
    assert conditions("*", SUNDAY, START) == (("If-Modified-Since", SUNDAY),)
    assert conditions('"e"', "today", START) == (("If-None-Match", '"e"'),)
    assert conditions(None, None, START) == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "another"),
    [('"a"', b'"a"', False), ('"a"', b'W/"a"', False), ('W/"a"', b'"a"', False), ('"a-gzip"', b'"a"', False),
     ('"a"', b'"a-br"', False), ('"a"', b'"b"', True), ("a", b'"b"', True)],
)  # fmt: skip
def test_a_304_with_the_tag_of_another_page_contradicts(ours: str, theirs: bytes, another: bool) -> None:
    assert contradicts(ours, not_modified((b"ETag", theirs))) is another


def test_a_304_without_a_tag_contradicts_nothing() -> None:
    assert not contradicts('"a"', not_modified())
    assert not contradicts(None, not_modified((b"ETag", b'"a"')))


def test_a_304_brings_fields_up_to_date_but_those_of_the_body() -> None:
    earlier = (
        (b"Content-Type", b"text/html"),
        (b"Content-Encoding", b"gzip"),
        (b"etag", b'"1"'),
        (b"X-Robots-Tag", b"a"),
    )
    news: tuple[Any, ...] = (
        (b"ETag", b'"2"'),
        (b"Content-Type", b"text/plain"),
        (b"content-length", b"0"),
        (b"Age", b"3"),
    )
    assert refreshed(earlier, not_modified(*news)) == (
        (b"Content-Type", b"text/html"),
        (b"Content-Encoding", b"gzip"),
        (b"X-Robots-Tag", b"a"),
        (b"ETag", b'"2"'),
        (b"Age", b"3"),
    )
