"""Wire URLs, keys and names of hosts: tables of what pages contain, and properties over what they might."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler import urls
from crawler.resolver import Resolver
from crawler.url_key import STANDARD
from crawler.urls import gate_name, hostname, origin, resolve, site_name, too_long

key, digest = STANDARD.key, STANDARD.digest
BASE = "https://example.com/a/b.html?q#f"


@pytest.mark.case("A01", "A03", "A04", "A08", "A10", "A11")
@pytest.mark.parametrize(
    ("href", "wire"),
    [
        ("c", "https://example.com/a/c"),
        ("", "https://example.com/a/b.html?q"),
        ("#top", "https://example.com/a/b.html?q"),
        ("?x", "https://example.com/a/b.html?x"),
        ("?", "https://example.com/a/b.html?"),
        ("//other.example/x", "https://other.example/x"),
        ("HTTPS://EXAMPLE.com:443", "https://example.com/"),
        ("http://example.com:443/", "http://example.com:443/"),
        # blanks and line breaks
        (" https://example.com/x ", "https://example.com/x"),
        ("\n/x\n", "https://example.com/x"),
        ("/a\n b", "https://example.com/a%20b"),
        ("\x01/x\x1f", "https://example.com/x"),
        ("ht\ttps://example.com/y", "https://example.com/y"),
        # the spelling that was found is kept
        ("/p%28q%29?sig=a%2Fb%3D&b=1&a=2", "https://example.com/p%28q%29?sig=a%2Fb%3D&b=1&a=2"),
        ("/a%2fb%7e%zz", "https://example.com/a%2fb%7e%zz"),
        ("/100%", "https://example.com/100%"),
        ("/?a&b=&&", "https://example.com/?a&b=&&"),
        ("/x?utm_source=y", "https://example.com/x?utm_source=y"),
        # dot segments
        ("/a/%2e%2E/b", "https://example.com/b"),
        ("/a/..b", "https://example.com/a/..b"),
        ("/../x", "https://example.com/x"),
        ("..\\..\\x", "https://example.com/x"),
        # hosts
        ("http://bücher.example:8080/", "http://xn--bcher-kva.example:8080/"),
        ("http://straße.example/", "http://xn--strae-oqa.example/"),
        ("http://a_b.example/", "http://a_b.example/"),
        ("https://exa%6Dple.com/", "https://example.com/"),
        ("https://example.com./x", "https://example.com./x"),
        ("http://0x7f.1:81/", "http://127.0.0.1:81/"),
        ("http://[::FFFF:10.0.0.1]/", "http://[::ffff:a00:1]/"),
        ("http://" + "a" * 63 + ".example/", "http://" + "a" * 63 + ".example/"),
        # user info
        ("http://u:p@example.com/a@b", "http://example.com/a@b"),
        ("http://u@x:p@example.com:81/", "http://example.com:81/"),
        # scalar values only
        ("/\ud800", "https://example.com/%EF%BF%BD"),
        ("/é?é", "https://example.com/%C3%A9?%C3%A9"),
    ],
)
def test_a_link_becomes_the_url_on_the_wire(href: str, wire: str) -> None:
    assert resolve(href, BASE) == wire


@pytest.mark.case("A03", "A05", "A06", "A15", "A16")
@pytest.mark.parametrize(
    "href",
    [
        *(
            "http://[x/",
            "http://example.com]",
            "http://example.com:99999/",
            "http://",
            "https://?x",
            "http://exa mple/",
        ),
        *("tel:1", "Tel:1", "mailto:a@b", " JavaScript:x()", "java\tscript:x()", "\x01javascript:x()", "data:,x"),
        *("ftp://example.com/", "about:blank", "exampleapp://x", "file:///etc/passwd", "ws://example.com/"),
        *("http://" + "a" * 64 + ".example/", "http://a..example/", "http://‥/", "http://./", "http://a.example../"),
        *("http://bücher.example.../", "http://" + ".".join(["a" * 60] * 5) + "/", "http://1.2.3.4.5/", "http://%00/"),
        "data:text/html," + "x" * 200_000,
    ],
)
def test_a_link_that_leads_nowhere_is_none(href: str) -> None:
    assert resolve(href, BASE) is None


@pytest.mark.case("A05")
def test_a_base_that_cannot_be_parsed_spoils_only_relative_links() -> None:
    assert resolve("/x", "http://[") is None
    assert resolve("/x", "") is None


SAME = [
    ("https://example.com", "https://example.com/"),
    ("HTTPS://EXAMPLE.com:443/", "https://example.com/"),
    ("https://example.com./", "https://example.com/"),
    ("https://exa%6Dple.com/", "https://example.com/"),
    ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://0x7f.1/", "http://127.0.0.1/"),
    ("http://u:p@example.com/#x", "http://example.com/"),
    ("https://example.com/a/%2e%2E/b", "https://example.com/b"),
    ("https://example.com/a/./../b", "https://example.com/b"),
    ("https://example.com/%7euser/%41", "https://example.com/~user/A"),
    ("https://example.com/?q=%e9", "https://example.com/?q=%E9"),
    ("https://example.com/a%2fb", "https://example.com/a%2Fb"),
    ("https://example.com/?b=2&a=1", "https://example.com/?a=1&b=2"),
    ("https://example.com/?utm_source=x", "https://example.com/"),
    ("https://example.com/?%75tm_source=x", "https://example.com/"),
    ("https://example.com/?a=1&fbclid=x&UTM_Medium=y&gclid", "https://example.com/?a=1"),
    ("https://example.com/p?&utm_source=x", "https://example.com/p"),
    ("https://example.com/\t x#y", "https://example.com/%20x"),
    # session ids
    ("https://example.com/p;jsessionid=0A1b!-12~3.node:-1", "https://example.com/p"),
    ("https://example.com/;JSESSIONID=1", "https://example.com/"),
    ("https://example.com/p.do;jsessionid=1?b=2&a=1", "https://example.com/p.do?a=1&b=2"),
    ("https://example.com/p;v=1;jsessionid=1;w=2/q", "https://example.com/p;v=1;w=2/q"),
    ("https://example.com/a;jsessionid=1/b;jsessionid=2/", "https://example.com/a/b/"),
    ("https://example.com/?PHPSESSID=x&a=1", "https://example.com/?a=1"),
    ("https://example.com/?jsessionid=1&ASPSESSIONIDQQ=x&zenid=1&osCsid=2", "https://example.com/"),
    ("https://example.com/p?CFID=1&x=2&CFTOKEN=3", "https://example.com/p?x=2"),
    ("https://example.com/p?cfid=1&cftoken=3", "https://example.com/p"),
    ("https://example.com/t?sid=0123456789abcdef01234567", "https://example.com/t"),
    (
        "https://example.com/?session_id=Z9Z9Z9Z9Z9Z9Z9Z9Z9Z9Z9Z9&SessionID=a1a1a1a1a1a1a1a1a1a1a1a1",
        "https://example.com/",
    ),
]


@pytest.mark.case("A02", "A10", "A11", "H01")
@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_page_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other) == other
    assert digest(one) == digest(other)


DIFFERENT = [
    ("https://example.com/Product/AbC", "https://example.com/product/abc"),
    ("https://example.com/x", "https://example.com/x/"),
    ("https://example.com/x", "https://example.com//x"),
    ("https://example.com/x", "http://example.com/x"),
    ("https://example.com/x", "https://www.example.com/x"),
    ("https://example.com/x", "https://example.com:8443/x"),
    ("https://example.com/?token=Ab", "https://example.com/?token=ab"),
    ("https://example.com/", "https://example.com/?"),
    ("https://example.com/?a", "https://example.com/?a="),
    ("https://example.com/?a=1", "https://example.com/?a=1&a=1"),
    ("https://example.com/?a=1&a=2", "https://example.com/?a=2&a=1"),
    ("https://example.com/a%23b", "https://example.com/a#b"),
    ("https://example.com/a%2Fb", "https://example.com/a/b"),
    ("https://example.com/Dia%25", "https://example.com/Dia%"),
    ("https://example.com/?a=x%26y", "https://example.com/?a=x&y"),
    ("https://example.com/?q=a%20b", "https://example.com/?q=a+b"),
    ("https://example.com/?q=a%2Bb", "https://example.com/?q=a+b"),
    ("https://example.com/%2541", "https://example.com/%41"),
    ("https://example.com/%4%31", "https://example.com/A"),
    ("https://example.com/%%32e", "https://example.com/."),
    ("https://example.com/?utm=x", "https://example.com/"),
    ("https://example.com/?q=utm_source", "https://example.com/?q="),
    ("http://straße.example/", "http://strasse.example/"),
    ("https://example.com/p;v=1", "https://example.com/p"),
    ("https://example.com/p;jsessionidx=1", "https://example.com/p"),
    ("https://example.com/p;jsessionid=a%2Fb", "https://example.com/p"),
    ("https://example.com/a/.;jsessionid=1", "https://example.com/a/"),
    ("https://example.com/?q=;jsessionid=1", "https://example.com/?q="),
    ("https://example.com/?phpsessid", "https://example.com/"),
    ("https://example.com/?cfid=1", "https://example.com/"),
    ("https://example.com/?cftoken=1&a=1", "https://example.com/?a=1"),
    ("https://example.com/?sid=42", "https://example.com/"),
    ("https://example.com/?sid=0123456789abcdef0123456", "https://example.com/"),
    ("https://example.com/?sid=averyveryverylongsinglewordindeed", "https://example.com/"),
    ("https://example.com/?sid=2026-11-29-and-something-else", "https://example.com/"),
    ("https://example.com/?s=0123456789abcdef0123456789abcdef", "https://example.com/"),
    ("https://example.com/?" + "a" * 9000, "https://example.com/?" + "a" * 8999 + "b"),
]


@pytest.mark.case("A01", "A03", "A07", "A09", "A16")
@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_pages_that_may_differ_have_different_keys(one: str, other: str) -> None:
    assert key(one) != key(other)
    assert digest(one) != digest(other)


def test_a_digest_is_half_of_sha_256_of_the_key() -> None:
    assert digest("https://EXAMPLE.com").hex() == "0f115db062b7c0dd030b16878c99dea5"


ESCAPES = ("%", "2", "e", "E", "%2e", "%32", "%65", "%41", "%7E", "%2F", "%25", "%zz", "%27")
DELIMITERS = ("/", ".", "..", "?", "&", "=", "#", "@", ":", ";", "//", "\\")
OTHERS = ("a", "A", "utm_x=1", "gclid", "b=1", "a=2", " ", "\t", "é", "'", "|", "+", "\ud800")
SESSIONS = (";jsessionid=", ";JSESSIONID=a1.b", "&PHPSESSID=1", "&cfid=1", "&CFTOKEN=2", "sid=0123456789abcdef01234567")
HOSTS = (
    *("example.com", "EXAMPLE.com.", "a.", "a..", ".", "", "http.", "a_b.example", "bücher.example", "u:p@h.example"),
    *(
        "h.example:80",
        "h.example:443",
        "h.example:8080",
        "xn--bcher-kva.example",
        "xn--a",
        "[::1]",
        "0x7f.1",
        "1.2.3.4.",
        "a;jsessionid=1",
    ),
)
PIECE = st.sampled_from((*ESCAPES, *DELIMITERS, *OTHERS, *SESSIONS))
URL = st.builds(
    lambda scheme, host, pieces: f"{scheme}://{host}{''.join(pieces)}",
    st.sampled_from(["http", "https", "HTTPS", "ftp"]),
    st.sampled_from(HOSTS),
    st.lists(PIECE, max_size=12),
)


@pytest.mark.case("A02", "H02")
@settings(max_examples=1500, deadline=None)
@given(st.one_of(URL, st.text()))
@example("http://example.com/?utm_source=x")
@example("http://example.com/a/..;jsessionid=1")
@example("http://a;jsessionid=1/b;jsessionid=2")
@example("http://example.com/a%2E%2e;jsessionid=1;jsessionid=2")
@example("http://example.com/;jsession;jsessionid=1;id=2;jsessionid=/")
@example("http://example.com/%%32%65/%4%31")
@example("http://example.com/%%%34%31")
def test_the_key_of_a_key_is_itself(url: str) -> None:
    once = key(url)
    assert key(once) == once
    assert len(digest(url)) == 16


@pytest.mark.case("A02", "A14", "A15")
@settings(max_examples=1500, deadline=None)
@given(st.one_of(URL, st.text(), st.lists(PIECE).map("".join)))
def test_what_goes_on_the_wire_is_stable_ascii_http(href: str) -> None:
    wire = resolve(href, BASE)
    if wire is not None:
        assert wire.isascii()
        assert wire.isprintable()
        assert " " not in wire
        assert wire.startswith(("http://", "https://"))
        assert "#" not in wire
        assert resolve(wire, BASE) == resolve(wire, "http://elsewhere.example/x") == wire
        assert key(wire) == key(key(wire))
        assert resolve(key(wire), BASE) == key(wire)
        assert "/" not in hostname(wire)
        assert wire.startswith(origin(wire).split("://", maxsplit=1)[0])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(URL, st.lists(PIECE).map("".join)), min_size=1, max_size=20))
def test_a_resolver_remembers_what_resolve_says(hrefs: list[str]) -> None:
    resolver = Resolver(limit=10)
    for base in (BASE, "https://example.com/a/c?x", "https://example.com/d/", "http://example.com/a/b.html", BASE):
        link_at = resolver.at(base)
        # Twice, and a third time: what was made anew, what was guessed, and what was remembered by its href.
        for links in (resolver.links(hrefs, base), [link_at(href) for href in hrefs], resolver.links(hrefs, base)):
            for href, link in zip(hrefs, links, strict=True):
                assert (link.url if link else None) == resolve(href, base)
                assert link is None or link.digest == digest(link.url)


def test_a_resolver_keeps_no_more_than_its_limit() -> None:
    resolver = Resolver(limit=100)
    for host in range(1000):
        for _ in range(3):
            resolver.links([f"/{host}", f"/{host}#here"], f"https://h{host}.example/")
    assert len(resolver._links) <= 100
    assert sum(1 + len(menu) for menu in resolver._menus.values()) <= 101


def test_a_resolver_keeps_no_more_than_its_limit_of_one_page() -> None:
    resolver = Resolver(limit=100)
    for _ in range(3):
        resolver.links((f"/x#{number}" for number in range(1000)), "https://example.com/")
    assert sum(1 + len(menu) for menu in resolver._menus.values()) <= 101


def test_an_href_that_means_something_else_elsewhere_is_resolved_there() -> None:
    resolver = Resolver()
    for base in ("https://a.example/x/", "https://a.example/y/", "http://a.example/x/", "https://b.example/x/") * 3:
        for href in (
            "/p",
            "//c.example/p",
            "p",
            "../p",
            "http/p",
            "?p",
            "#p",
            "https:/p",
            "/p#q",
            "mailto:a@b.c",
            "tel:1",
        ):
            (link,) = resolver.links([href], base)
            assert (link.url if link else None) == resolve(href, base)


@pytest.mark.case("A09")
@pytest.mark.parametrize(
    ("encoding", "href", "wire"),
    [
        ("windows-1251", "/?q=при", "/?q=%EF%F0%E8"),
        ("windows-1251", "/при?q=при#при", "/%D0%BF%D1%80%D0%B8?q=%EF%F0%E8"),
        ("windows-1252", "/?q=é&r=при", "/?q=%E9&r=%26%231087%3B%26%231088%3B%26%231080%3B"),
        ("shift_jis", "/?q=ソ", "/?q=%83\\"),
        ("utf-8", "/?q=é", "/?q=%C3%A9"),
        ("utf-16le", "/?q=é", "/?q=%C3%A9"),
        ("windows-1251", "/?q=%D0%BF", "/?q=%D0%BF"),
        ("windows-1251", "/x#?при", "/x"),
    ],
)
def test_a_query_is_sent_in_the_encoding_of_its_document(encoding: str, href: str, wire: str) -> None:
    resolver = Resolver()
    resolver.at("https://example.com/")(href)  # the same href elsewhere, in UTF-8
    link = resolver.at("https://example.com/", encoding)(href)
    assert link is not None
    assert link.url == "https://example.com" + wire


@pytest.mark.case("A11")
@pytest.mark.parametrize(
    ("url", "host", "start"),
    [
        ("https://example.com/x:y@z", "example.com", "https://example.com"),
        ("https://example.com./x", "example.com", "https://example.com"),
        ("http://example.com.:81/x", "example.com", "http://example.com:81"),
        ("http://[::1]/", "::1", "http://[::1]"),
        ("http://[::1]:8080/", "::1", "http://[::1]:8080"),
        ("http://127.0.0.1:8080/a", "127.0.0.1", "http://127.0.0.1:8080"),
    ],
)
def test_host_and_origin(url: str, host: str, start: str) -> None:
    assert hostname(url) == host
    assert origin(url) == start


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"),
        ("user.github.io", "user.github.io"),
        ("x.user.github.io", "user.github.io"),
        ("www.xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a.xn--55qx5d.cn", "a.xn--55qx5d.cn"),
        ("localhost", "localhost"),
        ("a.localhost", "a.localhost"),
        ("b.a.localhost", "a.localhost"),
        ("h00.test", "h00.test"),
        ("127.0.0.1", "127.0.0.1"),
        ("10.0.127.0", "10.0.127.0"),
        ("::1", "::1"),
        ("a..b", "a..b"),
        ("", ""),
    ],
)
def test_a_gate_is_a_registrable_domain_or_a_host(host: str, domain: str) -> None:
    assert gate_name(host, "domain") == site_name(host, "domain") == domain
    assert gate_name(host, "host") == host


def test_a_site_by_host_ignores_www_and_anything_goes_by_any() -> None:
    assert site_name("www.example.com", "host") == site_name("example.com", "host") == "example.com"
    assert site_name("blog.example.com", "host") == "blog.example.com"
    assert site_name("www.example.com", "any") == ""


def test_a_url_over_the_limit_is_too_long() -> None:
    url = "https://example.com/?"
    assert not too_long(url + "a" * (urls.MAX_URL - len(url)))
    assert too_long(url + "a" * (urls.MAX_URL - len(url) + 1))
