"""What holds for any input at all: nothing raises, nothing grows beyond its bound."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler import charset, head, robots, sitemap, sniff, urls
from crawler.decode import STEP, Decoder
from crawler.errors import FetchFailure
from crawler.parse import parse
from crawler.retry import http_date, retry_after
from crawler.url_key import STANDARD

settings.register_profile("fuzz", deadline=None, derandomize=True, max_examples=300, database=None)
fuzz = settings(settings.get_profile("fuzz"))

BASE = "http://host.example/folder/page?q"
NAMES = st.sampled_from(
    ["gzip", "x-gzip", "deflate", "br", "zstd", "identity", "none", "", "compress", "\xff", "gzip, br", " , ,gzip"]
)
PACKED = st.builds(
    lambda data, pack, cut, junk: pack(data)[: len(pack(data)) - cut] + junk,
    st.binary(max_size=300),
    st.sampled_from([bytes, gzip.compress, zlib.compress, brotli.compress, zstandard.compress]),
    st.integers(0, 12),
    st.binary(max_size=20),
)
WORDS = re.split(
    r"\s+",
    r"""
<a href=" " > </a> <base href= <meta charset= http-equiv=refresh content="0;url= <title> </title> <!-- --> <script>
</script> <template> <svg> xlink:href= <iframe srcdoc=" <link rel=canonical <![CDATA[ ]]> <p &amp; &#x110000; &#0;
http:// //x [ ] ' ` %zz é <frameset> <html lang= / = data: javascript: .. <urlset> <url> <loc> </loc> <lastmod>
2020-13-45 <sitemapindex> <?xml encoding= ?> <rss> <item> <entry> User-agent: * Disallow: Allow: /*$ Crawl-delay:
Sitemap: #
""".strip(),
)
MARKUP = st.lists(
    st.one_of(st.sampled_from([*WORDS, " ", "\r", "\n", "\t", "\0", "\ud800"]), st.text(max_size=8)), max_size=40
).map("".join)
BODY = st.one_of(st.binary(max_size=400), MARKUP.map(lambda text: text.encode("utf-8", "surrogatepass")))
CONTENT_TYPE = st.one_of(
    st.none(),
    st.text(max_size=40),
    st.sampled_from(["text/html", "application/xhtml+xml", 'text/html; charset="', "text/html;;;charset=hex", "*/*"]),
    st.text(max_size=12).map(lambda label: f"text/html; charset={label}"),
)


@fuzz
@given(
    st.lists(NAMES, max_size=6), st.lists(st.one_of(PACKED, st.binary(max_size=200)), max_size=6), st.integers(1, 500)
)
@example(["gzip", "gzip"], [gzip.compress(gzip.compress(bytes(100_000)))], 10)
def test_the_decoder_takes_anything_and_keeps_its_bound(names: list[str], chunks: list[bytes], limit: int) -> None:
    decoder = Decoder(", ".join(names), limit)
    size = 0
    for chunk in chunks:
        piece = decoder.feed(chunk)
        assert len(piece) <= limit + STEP
        size += len(piece)
    size += len(decoder.finish())
    assert size <= limit
    assert decoder.truncated in ("", "length", "disconnect")
    assert decoder.decoded in (True, False)


@fuzz
@given(
    st.sampled_from(
        [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", brotli.compress), ("zstd", zstandard.compress)]
    ),
    st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda data: data * 1000)),
    st.binary(max_size=20),
    st.integers(1, 50),
)
def test_how_a_body_is_cut_into_chunks_does_not_matter_to_the_decoder(
    coding: tuple[str, Callable[[bytes], bytes]], body: bytes, junk: bytes, size: int
) -> None:
    name, pack = coding
    wire = pack(body) + junk
    for step in (size, len(wire)):
        decoder = Decoder(name, 100_000)
        assert (
            b"".join(decoder.feed(wire[at : at + step]) for at in range(0, len(wire), step)) + decoder.finish() == body
        )


HEADER_LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"Content-Length: 5", b"Content-Length: 6", b"Transfer-Encoding: chunked", b"X: \0", b" fold", b":", b"\r"]
        ),
        st.binary(max_size=30),
    ),
    max_size=8,
)


@fuzz
@given(st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.0 404", b"http/9 999 x", b"HTTP/"]), HEADER_LINES)
def test_a_header_section_is_read_or_refused(status_line: bytes, lines: list[bytes]) -> None:
    section = b"\r\n".join((status_line, *lines)) + b"\r\n\r\n"
    try:
        found = head.read(section)
    except FetchFailure:
        return
    assert found.status >= 100
    assert found.shown.endswith(b"\r\n\r\n")
    if found.fields is not None:
        # What is shown in its place is framed as it was understood.
        again = head.read(found.shown)
        assert (again.status, again.chunked) == (found.status, found.chunked)
        assert found.shown.count(b"\r\n\r\n") == 1
        assert not found.chunked or b"Content-Length" not in found.shown


@fuzz
@given(
    st.lists(st.one_of(st.sampled_from([b"5\r\n", b"hello", b"\r\n", b"\n", b"0\r\n", b";x"]), st.binary(max_size=9)))
)
def test_chunks_are_the_same_however_they_come(pieces: list[bytes]) -> None:
    def data(shown: bytes) -> bytes:
        """The data in regular chunks up to their end, or to what the parser would refuse."""
        found, at = b"", 0
        while (end := shown.find(b"\r\n", at)) >= 0 and (line := shown[at:end]) not in (b"?", b"0"):
            size = int(line, 16)
            found += shown[end + 2 : end + 2 + size]
            assert shown[end + 2 + size : end + 4 + size] == b"\r\n"
            at = end + size + 4
        return found

    one, many = head.Chunks(), head.Chunks()
    at_once = one.feed(b"".join(pieces))
    assert data(b"".join(many.feed(piece) for piece in pieces if piece)) == data(at_once)


@fuzz
@given(BODY, CONTENT_TYPE)
def test_any_body_has_a_text(body: bytes, content_type: str | None) -> None:
    text, name = charset.decode(body, content_type)
    assert charset.lookup(name) is not None
    assert len(text) <= 4 * len(body) + 4
    text.encode("utf-8")
    assert sniff.is_html(content_type, body) in (True, False)


@fuzz
@given(st.text(max_size=40), st.integers(0, 255))
def test_labels_of_any_kind_are_known_or_not(label: str, byte: int) -> None:
    for content_type in (f"text/html; charset={label}", f"text/html; charset={chr(byte)}{label}"):
        charset.decode(b"caf\xe9", content_type)
    charset.decode(f'<meta charset="{label}">'.encode("utf-8", "replace"), None)


@fuzz
@given(BODY, CONTENT_TYPE, st.lists(st.text(max_size=30), max_size=3))
def test_any_body_is_parsed_and_its_links_go_on_the_wire(body: bytes, content_type: str | None, x: list[str]) -> None:
    page = parse(body, content_type, BASE, x, "crawler")
    assert page.failed == ""
    for link in page.links:
        assert link.url.isascii()
        assert link.url.startswith(("http://", "https://"))
        assert link.digest == STANDARD.digest(link.url)


@fuzz
@given(
    st.one_of(st.text(max_size=60), MARKUP), st.sampled_from([BASE, "https://[2001:db8::1]:8/", "http://é.example/"])
)
@example("http://\u2025/", BASE)
@example("http://[::1]/%", BASE)
def test_any_link_is_resolved_or_not_and_its_key_is_its_own_key(href: str, base: str) -> None:
    url = urls.resolve(href, base)
    if url is None:
        return
    assert url.isascii()
    assert not set(url) & set("\r\n\t \0#")
    key = STANDARD.key(url)
    assert STANDARD.key(key) == key
    assert urls.resolve(key, base) is not None
    assert urls.resolve(url, base) == url
    urls.site_name(urls.hostname(url), "domain")
    urls.gate_name(urls.hostname(url), "domain")


@fuzz
@given(BODY, st.text(max_size=30))
def test_any_robots_txt_decides(body: bytes, path: str) -> None:
    rules = robots.Robots.parse(body, "crawler")
    assert rules.allowed(f"http://host.example/{path}") in (True, False)


@fuzz
@given(st.one_of(BODY, BODY.map(gzip.compress)))
def test_any_body_is_read_as_a_sitemap_or_not(body: bytes) -> None:
    found = sitemap.listing(body, BASE, 0.0)
    assert found.failed == ""
    assert all(link.url.isascii() for link in found.links)


@fuzz
@given(st.one_of(st.text(max_size=40), st.sampled_from(["Wed, 21 Oct 2015 07:28:00 GMT", "1" * 5000, "-1", "1e9"])))
def test_any_time_to_wait_is_bounded(value: str) -> None:
    assert 0 <= (retry_after(value, value, 0.0) or 0.0) <= 3600
    http_date(value)
    sitemap.changed_at(value, 0.0)


@pytest.mark.parametrize(
    "unit",
    ["a*", "*", "$", "%", "Disallow: /*a*b*c$\n", "<", "<!", "<a href=", "&#", "charset=", ';charset="', "<loc>"],
)
def test_repetition_costs_no_more_than_its_length(unit: str) -> None:
    """What would cost a square of it takes minutes here, and meets the test's time limit."""
    text = unit * (400_000 // len(unit))
    body = text.encode()
    rules = robots.Robots.parse(f"User-agent: *\nDisallow: /{text[:50_000]}\n".encode() + body, "crawler")
    rules.allowed(BASE + "a" * 2000)
    charset.decode(b"\xff" + body, f"text/html; {text[:10_000]}")
    sniff.is_html(text[:10_000], body)
    sitemap.read(b"<urlset>" + body, 0.0)
    urls.resolve(text[:60_000], BASE)
    head.Chunks().feed(body)
