"""Encodings of documents, and which bodies are documents at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.charset import decode
from crawler.sniff import is_html

RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Привет, мир, это обычный русский текст. " * 3
FRENCH = "L'été dernier, nous sommes allés à la plage où les élèves étaient déjà présents. C'était très agréable. " * 3
POLISH = "Zażółć gęślą jaźń. Wszyscy ludzie rodzą się wolni i równi w swojej godności i prawach. Są obdarzeni. " * 3
JAPANESE = "これは日本語の文章です。今日はとても良い天気ですね。明日も晴れるといいのですが。" * 4


def meta(label: str) -> bytes:
    return f"<!doctype html><meta charset={label}>".encode()


@pytest.mark.case("C09", "C10")
@pytest.mark.parametrize(
    ("body", "content_type", "name", "text"),
    [
        # byte order mark > header > page
        (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=iso-8859-1", "utf-8", "é"),
        (b"\xff\xfeh\0i\0", "text/html; charset=utf-8", "utf-16le", "hi"),
        (b"\xfe\xff\0h\0i", None, "utf-16be", "hi"),
        (b"\xff\xfeh\0i", None, "utf-16le", "h�"),
        (meta("utf-8") + b"\xef", "text/html; charset=windows-1251", "windows-1251", "п"),
        (meta("windows-1251") + b"\xef", "text/html", "windows-1251", "п"),
        (meta("windows-1251") + b"\xef", None, "windows-1251", "п"),
        # labels of the standard
        (b"\x93x\x94", "text/html; charset=iso-8859-1", "windows-1252", "“x”"),
        (b"\x93x\x94", 'text/html; charset="ISO-8859-1"', "windows-1252", "“x”"),
        (b"\xc3\xa9", "text/html;charset='utf-8'", "utf-8", "é"),
        (b"\xc3\xa9", "text/html; Charset = UTF8", "utf-8", "é"),
        (b"\xa4\xa2", "text/html; charset=x-sjis", "shift_jis", "､｢"),
        (b"\xc4\xe3", "text/html; charset=gb2312", "gbk", "你"),
        (b"\xff", "text/html; charset=utf-8", "utf-8", "�"),
        # labels that say nothing: on to the next source
        *[
            (meta("windows-1251") + b"\xef", f"text/html; charset={label}", "windows-1251", "п")
            for label in ("ISO-88509-1", "utf-8,gbk", "uft-8", "hex", "undefined", "", '""', '"', "none", "é", "idna")
        ],
        (meta("hex") + meta("koi8-r") + b"\xc1", None, "koi8-r", "а"),
        (meta("undefined") + b"\xc3\xa9", None, "utf-8", "é"),
        # the page's own words
        (b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>\xc1", None, "koi8-r", "а"),
        (b'<META CONTENT="text/html; charset=koi8-r" HTTP-EQUIV="content-type">\xc1', None, "koi8-r", "а"),
        (b"<meta content='text/html; charset=koi8-r'>\xc3\xa9", None, "utf-8", "é"),
        (b"<meta charset='koi8-r' charset=utf-8 />\xc1", None, "koi8-r", "а"),
        (b"<meta name=x charset = koi8-r>\xc1", None, "koi8-r", "а"),
        (b"<meta/charset=koi8-r>\xc1", None, "koi8-r", "а"),
        (b"<meta charset=utf-16>\xc3\xa9", None, "utf-8", "é"),
        (b"<meta charset=x-user-defined>\xe9", None, "windows-1252", "é"),
        (b"<!-- <meta charset=koi8-r> -->\xc3\xa9", None, "utf-8", "é"),
        (b"<p title='<meta charset=koi8-r>'>\xc3\xa9", None, "utf-8", "é"),
        (b"<!--><meta charset=koi8-r>\xc1", None, "koi8-r", "а"),
        (b"<metal charset=koi8-r>\xc3\xa9", None, "utf-8", "é"),
        (b"<meta charset='koi8-r>\xc3\xa9", None, "utf-8", "é"),
        (b'<?xml version="1.0" encoding="koi8-r"?><html>\xc1', "application/xhtml+xml", "koi8-r", "а"),
        (b" " * 1024 + meta("koi8-r") + b"\xc3\xa9", None, "utf-8", "é"),
        (b" " * 1002 + b"<meta charset=iso-8859-15>\xc3\xa9", None, "utf-8", "é"),  # cut at 1024
        # nothing said: UTF-8 where the bytes allow it, even if the body was cut
        (b"plain", None, "utf-8", "plain"),
        (b"", None, "utf-8", ""),
        ("é€".encode()[:-1], None, "utf-8", "é"),
        (b"caf\xe9", None, "windows-1252", "café"),
    ],
)
def test_the_encoding_is_what_the_strongest_source_says(
    body: bytes, content_type: str | None, name: str, text: str
) -> None:
    decoded, used = decode(body, content_type)
    assert used == name
    assert decoded.endswith(text)


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        (RUSSIAN, "cp1251", "windows-1251"),
        (RUSSIAN, "koi8_r", "koi8-r"),
        (JAPANESE, "shift_jis", "shift_jis"),
        (FRENCH, "cp1252", "windows-1252"),
        (POLISH, "cp1250", "windows-1250"),
    ],
)
def test_a_page_that_says_nothing_is_guessed_from_a_sample(text: str, encoding: str, name: str) -> None:
    body = b"<html>" + b" " * 20_000 + text.encode(encoding)
    assert decode(body, "text/html") == ("<html>" + " " * 20_000 + text, name)


@pytest.mark.case("C09")
@given(
    st.binary(),
    st.one_of(
        st.none(),
        st.text(),
        st.sampled_from(
            ("utf-8", "utf-16", "hex", "iso-2022-jp", "hz-gb-2312", "replacement", "big5", "x-user-defined", "gb18030")
        ).map(lambda label: f"text/html; charset={label}"),
    ),
)
def test_decoding_never_raises(body: bytes, content_type: str | None) -> None:
    text, name = decode(body, content_type)
    assert name
    text.encode()  # no lone surrogates


@pytest.mark.case("C15")
@pytest.mark.parametrize(
    ("content_type", "body", "html"),
    [
        ("text/html", b"<p>x", True),
        ("text/html", b"", True),
        ("TEXT/HTML ;;;x", b"x", True),
        ("text/html;charset=utf-8", b"plain words", True),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html/>", True),
        ("text/plain", b"<html>", False),
        ("application/json", b"<html>", False),
        ("application/octet-stream", b"<!doctype html>", False),
        ("image/png", b"<html>", False),
        # absent or unknown: by the first bytes
        (None, b"<!DOCTYPE html><p>x", True),
        ("", b"  \n<HTML lang=en>", True),
        ("unknown/unknown", b"<!-- x --><body>", True),
        (None, b"\xef\xbb\xbf<html>", True),
        (None, b"<?xml version='1.0'?>\n<html xmlns='x'>", True),
        (None, "﻿<html>".encode("utf-16-le"), True),
        (None, b"<abbr>", False),
        (None, b"plain words", False),
        (None, b"{}", False),
        (None, b"<?xml version='1.0'?><rss>", False),
        # several in one field: the first
        ("text/html, text/html", b"<p>", True),
        ("text/plain, text/html; charset=utf-8", b"<p>", False),
        ("Text/HTML;;;x", b"<p>", True),
        # binary under a false name
        ("text/html", b"%PDF-1.7\n<html>", False),
        ("text/html", b"PK\x03\x04<html>", False),
        ("text/html", b"\x89PNG\r\n\x1a\n", False),
        ("text/html", b"GIF89a<html>", False),
        ("text/html", b"\xff\xd8\xff\xe0<html>", False),
        ("text/html", b"\x1f\x8b\x08<html>", False),
        ("application/xhtml+xml", b"\x7fELF", False),
        ("text/html", b"<p>" + b"x" * 1000 + b"\0", False),
        ("text/html", b"<p>" + b"x" * 1100 + b"\0", True),
        ("text/html", "﻿<p>".encode("utf-16-le"), True),
        ("text/html", "﻿<p>".encode("utf-16-be"), True),
        ("text/html; charset=utf-16le", "<p>".encode("utf-16-le"), True),
    ],
)
def test_html_is_told_from_what_is_not(content_type: str | None, body: bytes, html: bool) -> None:
    assert is_html(content_type, body) is html
