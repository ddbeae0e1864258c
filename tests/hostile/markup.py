"""Documents that are hard on a reader. Each says `<title>TITLE</title>` early on, in ASCII."""

from __future__ import annotations

import random
from collections.abc import Callable

Made = tuple[str, bytes]
"""Content-Type (without the field's name; "" for none) and body."""

Maker = Callable[[random.Random, str, str], Made]
"""From a random source, a title and the origin of good pages to a document."""


def _page(title: str, body: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode()


def _with(body: Callable[[random.Random, str], str], head: str = "") -> Maker:
    return lambda rng, title, good: ("text/html; charset=utf-8", _page(title, body(rng, good), head))


def _typed(content_type: str) -> Maker:
    return lambda rng, title, good: (content_type, _page(title, "<p>text</p>"))


def _raw(content_type: str, body: Callable[[str], bytes]) -> Maker:
    return lambda rng, title, good: (content_type, body(title))


def _bytes(rng: random.Random, title: str, good: str) -> Made:
    return "text/html", _page(title, "") + bytes(byte for byte in rng.randbytes(20_000) if byte)


def _links(*hrefs: str) -> Maker:
    return _with(lambda rng, good: "".join(f'<a href="{href}">x</a>' for href in hrefs))


MARKUP: list[Maker] = [
    _with(lambda rng, good: f'<a href="{good}/good/{rng.randrange(5)}">back</a>'),
    _with(lambda rng, good: "<div>" * 50_000),
    _with(lambda rng, good: "<b><i><p>" * 5_000),
    _with(lambda rng, good: "<table>" * 3_000 + "<a href='x'>" * 10),
    _with(lambda rng, good: "<p a=" + "x" * 200_000 + ">"),
    _with(lambda rng, good: "<p " + " ".join(f"a{n}=1" for n in range(4_000)) + ">"),
    _with(lambda rng, good: "<!-- never closed " + "-" * 100_000),
    _with(lambda rng, good: "<script>" + "</scrip" * 20_000),
    _with(lambda rng, good: "<textarea>" + "<" * 50_000),
    _with(lambda rng, good: "&amp" * 50_000 + "&#x" + "9" * 50_000 + ";"),
    _with(lambda rng, good: "<svg><foreignObject><math><annotation-xml>" * 2_000),
    _with(lambda rng, good: "<template><a href=/never></template><noscript><a href='/good'></noscript>"),
    _with(lambda rng, good: "<select><option>" * 10_000),
    _with(lambda rng, good: "<frameset><frame src='http://['>" * 1_000),
    _with(lambda rng, good: "<iframe srcdoc='" + "&lt;iframe srcdoc=&apos;" * 200 + "'></iframe>"),
    _with(lambda rng, good: "text " * 300 + "<a href='\0javascript:x'>\0</a>" * 100),
    _with(lambda rng, good: "".join(f'<a href="{good}/good/1#{n}">{n}</a>' for n in range(5_000))),
    _with(lambda rng, good: "<plaintext>" + "</plaintext>" * 1_000),
    _with(lambda rng, good: "<font>" * 200 + "<p>" * 500 + "</font>" * 200),
    _with(lambda rng, good: "text", "<base href='http://['><base href='javascript:'>"),
    _with(lambda rng, good: "text", "<meta http-equiv=refresh content='0;url=http://169.254.169.254/latest/'>"),
    _with(lambda rng, good: "text", "<meta charset=hex><meta charset=utf-7><meta charset=x-user-defined>"),
    _with(lambda rng, good: "text", "<meta name=robots content=',,;:\"'><link rel=canonical href='http://a:b:c/'>"),
    _links("http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/", "http://[::ffff:a9fe:a9fe]/x"),
    _links("http://0xa9fea9fe/", "http://2852039166/y", "http://169.254.43518/z", "http://[64:ff9b::a9fe:a9fe]/"),
    _links(
        "http://[x/", "http://a]b/", "http://x:99999/", "//", "http:", "tel:1", " JavaScript:x()", "\n", "http://\n"
    ),
    _links("http://" + "a" * 64 + ".invalid/", "http://a..b/", "http://xn--a/", "http://‥/", "http://a b/"),
    _links("data:text/html," + "x" * 100_000, "mailto:a@b", "ftp://x/", "http://u:p@169.254.169.254/"),
    _links("http://127.0.0.1:1/closed", "http://closed.localhost:1/closed"),
    _bytes,
    _typed(""),
    _typed("text/html;;;charset"),
    _typed("TEXT/HTML; CHARSET=uft-8"),
    _typed("text/html; charset=hex"),
    _typed("text/html; charset=undefined"),
    _typed('text/html; charset="utf-8,gbk'),
    _typed("text/html; charset=ISO-88509-1"),
    _typed("application/xhtml+xml"),
    _typed("*/*"),
    _raw("text/html; charset=utf-16", lambda title: b"\xff\xfe" + _page(title, "é").decode().encode("utf-16-le")),
    _raw("text/html; charset=utf-8", lambda title: b"\xfe\xff" + _page(title, "é").decode().encode("utf-16-be")),
    _raw("text/html; charset=iso-8859-1", lambda title: b"\xef\xbb\xbf" + _page(title, "é")),
    _raw("text/html; charset=windows-1251", lambda title: _page(title, "") + "при".encode("cp1251")),
    _raw("text/html; charset=iso-2022-jp", lambda title: _page(title, "") + b"\x1b$B\x1b(J\xff\x1b"),
    _raw("text/html; charset=gb18030", lambda title: _page(title, "") + b"\x81\x30\x81\xff" * 1000),
    _raw("text/html; charset=shift_jis", lambda title: _page(title, "") + b"\x81\xff\xfc" * 1000),
    _raw("text/html", lambda title: _page(title, "") + b"\xc3" * 5_000),
]
"""Documents with a title that any browser shows."""

NO_MARKUP: list[Made] = [
    ("text/html", b"%PDF-1.7\n" + b"\xff\x00" * 1000),
    ("text/html", b"PK\x03\x04" + b"<a href=/never>" * 100),
    ("text/html", b"\x00" * 5_000),
    ("application/octet-stream", b"<a href=/never>"),
    ("text/html", b""),
    ("text/plain", b"<a href=/never>"),
    ("image/png", b"\x89PNG\r\n"),
]
"""Bodies without a title."""
