"""Markup made to keep a pattern busy: what would cost the square of its size costs its size."""

from __future__ import annotations

import pytest

from crawler.parse import parse

URL = "https://example.com/"

HOSTILE = {
    "digits of a refresh": "<meta http-equiv=refresh content='" + "1" * 500_000 + "x'>",
    "dots of a refresh": "<meta http-equiv=refresh content='" + "." * 500_000 + "'>",
    "blanks of a refresh": "<meta http-equiv=refresh content='"
    + " " * 500_000
    + "5"
    + " " * 500_000
    + "url"
    + " " * 500_000
    + "'>",
    "sections never closed": "<p>" + "<![CDATA[" * 100_000,
    "elements never closed": "<a " * 200_000,
    "slashes": "<a " + "/" * 500_000,
    "rel of many words": "<a href=/x rel='" + "x " * 500_000 + "'>",
    "robots of many rules": "<meta name=robots content='" + "x:," * 300_000 + "'>",
    "agents of one rule": "<meta name=robots content='" + "x" * 500_000 + ":" * 500_000 + "'>",
    "comments never closed": "<!--" * 300_000,
    "titles never closed": "<title>" * 200_000,
    "scripts never closed": "<script>" * 200_000,
    "entities": "&#x10FFFF;" * 200_000 + "&amp" * 200_000,
    "a base that changes nothing": "<base href=x>" * 100_000,
    "links to one page": "<a href=x>" * 200_000,
    "srcdocs in each other": "<iframe srcdoc='&lt;a href=x>'></iframe>" * 20_000,
}


@pytest.mark.case("D01")
@pytest.mark.parametrize("html", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("content_type", ["text/html", "application/xhtml+xml"])
@pytest.mark.timeout(30)
def test_a_page_made_to_take_long_is_done_in_time(html: str, content_type: str) -> None:
    found = parse(html.encode(), content_type, URL, [], "bot")
    assert not found.failed
    assert len(found.links) <= 1
