"""Pages in other encodings than UTF-8: what is resolved with a query is resolved in the page's own (HTML 2.4.2)."""

from __future__ import annotations

import pytest

from crawler.parse import parse

URL = "https://example.com/a/b.html"


def links(html: str, encoding: str, content_type: str = "text/html") -> list[str]:
    found = parse(html.encode(encoding), content_type, URL, [], "bot")
    return [link.url.removeprefix("https://example.com") for link in found.links]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<a href='/?q=п#п'>", ["/?q=%EF"]),
        ("<meta http-equiv=refresh content='0;url=/?q=п'>", ["/?q=%EF"]),
        ("<base href='/x?q=п'><a href=''><a href='#y'><a href='?r=п'>", ["/x?q=%EF", "/x?r=%EF"]),
        ("<iframe src='/?q=п' srcdoc='<a href=?r=п>'></iframe>", ["/?q=%EF", "/a/b.html?r=%D0%BF"]),
        ("<a href='/?q=&#1087;&#8364;&#20013;'>", ["/?q=%EF%88%26%2320013%3B"]),
        ("<a href='https://пример.example/п?п'>", ["https://xn--e1afmkfd.example/%D0%BF?%EF"]),
    ],
)
def test_a_query_is_in_the_encoding_of_its_document(html: str, found: list[str]) -> None:
    assert links("<meta charset=windows-1251>" + html, "cp1251") == found


def test_a_canonical_url_is_in_the_encoding_of_its_document() -> None:
    html = "<meta charset=windows-1251><link rel=canonical href='?q=п'>".encode("cp1251")
    assert parse(html, "text/html", URL, [], "bot").canonical_url == f"{URL}?q=%EF"


@pytest.mark.parametrize("encoding", ["utf-16le", "utf-16be"])
def test_utf_16_sends_queries_in_utf_8(encoding: str) -> None:
    assert links("\ufeff<a href='/é?é'>", encoding) == ["/%C3%A9?%C3%A9"]
    assert links("<a href='/é?é'>", encoding, f"text/html; charset={encoding}") == ["/%C3%A9?%C3%A9"]


def test_an_xml_declaration_names_the_encoding_of_xhtml() -> None:
    html = "<?xml version='1.0' encoding='windows-1251'?><html xmlns='x'><a href='/?q=п'/></html>"
    assert links(html, "cp1251", "application/xhtml+xml") == ["/?q=%EF"]
