"""Cookies: which are taken, where they are sent, what can never happen."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from crawler.cookies import HEADER_BYTES, LONGEST, MOST_BYTES, MOST_COOKIES, Cookie, Jar, parse
from crawler.fetched import Response

NOW = 1_800_000_000.0
PAGE = "https://www.example.com/shop/cart"


class Clock:
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def answer(*fields: str | bytes, url: str = PAGE) -> Response:
    headers = tuple((b"Set-Cookie", field if isinstance(field, bytes) else field.encode()) for field in fields)
    return Response(
        url=url,
        status=200,
        reason="OK",
        version="HTTP/1.1",
        headers=headers,
        stored=b"",
        body=b"",
        fetched_at=NOW,
        elapsed=0.0,
    )


def jar_of(*fields: str | bytes, url: str = PAGE, clock: Clock | None = None) -> Jar:
    jar = Jar(clock or Clock())
    jar.read(url, answer(*fields, url=url))
    return jar


@pytest.mark.case("C14")
@pytest.mark.parametrize(
    ("field", "sent"),
    [
        ("a=1", "a=1"),
        (" a = 1 ; Path=/", "a=1"),
        ("a=1; HttpOnly; SameSite=Strict; Priority=High", "a=1"),
        ("a=", "a="),
        ("a=b=c==", "a=b=c=="),
        ('a="quoted, kept"', 'a="quoted, kept"'),
        ("a=x/y+z@{1}", "a=x/y+z@{1}"),
        ("a{b}=1", "a{b}=1"),
        ("[k]=1", "[k]=1"),
        ("path=1", "path=1"),
        ("a=ü", "a=ü"),
        ("a=1; path", "a=1"),
        ("a=1; Max-Age=" + "9" * 400, "a=1"),
        ("a=1; Max-Age=soon", "a=1"),
        ("a=1; Max-Age=0; Max-Age=9", "a=1"),
        ("a=1; Expires=never", "a=1"),
        ("a=1; Expires=Fri, 31-Dec-9999 23:59:59 GMT", "a=1"),
        ("a=1; Expires=1 Jan 99999 00:00:00 GMT", "a=1"),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60", "a=1"),
        ("a=1; Path=" + "/p" * 600, None),
        ("a=1; Domain=", "a=1"),
        ("a=1; Domain=www.example.com", "a=1"),
        ("a=1; Domain=.EXAMPLE.com", "a=1"),
        ("a=1; Secure", "a=1"),
        ("__Host-a=1; Secure; Path=/", "__Host-a=1"),
        ("__Secure-a=1; Secure", "__Secure-a=1"),
        # ignored whole
        ("", None),
        ("a", None),
        ("=1", None),
        ("; a=1", None),
        ("a=1; Domain=com", None),
        ("a=1; Domain=other.com", None),
        ("a=1; Domain=ample.com", None),
        ("a=1; Domain=shop.www.example.com", None),
        ("a=1; Domain=münchen.example", None),
        ("__Host-a=1; Secure; Path=/shop", None),
        ("__Host-a=1; Secure; Path=/; Domain=www.example.com", None),
        ("__Host-a=1; Path=/", None),
        ("__secure-a=1", None),
        (b"\xe9=1", None),
        (b"a=\xe9", None),
        ("a=1\r\nX: y", None),
        ("a=1\x00", None),
        ("a=1\tb", None),
        ("a=" + "1" * 4096, None),
        # removed
        ("a=1; Max-Age=0", None),
        ("a=1; Max-Age=-1", None),
        ("a=1; Max-Age=-" + "9" * 400, None),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("a=1; Expires=Sunday, 06-Nov-94 08:49:37 GMT", None),
        ("a=1; Expires=Sun Nov  6 08:49:37 1994", None),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT+0000 (UTC)", None),
        # somewhere else
        ("a=1; Path=/other", None),
        ("a=1; Path=/shop/car", None),
        ("a=1; Path=/shop/cart/", None),
        ("a=1; Path=/shop", "a=1"),
        ("a=1; Path=/shop/cart", "a=1"),
        ("a=1; Path=relative", "a=1"),
    ],
)
def test_a_field_and_what_is_sent_back_to_the_same_page(field: str | bytes, sent: str | None) -> None:
    expected = sent
    if isinstance(field, str) and field.startswith("a=1; Path=/p/p"):
        expected = "a=1"  # an attribute that long is ignored: the default path counts
    assert jar_of(field).header(PAGE) == expected


@pytest.mark.parametrize(
    ("field", "set_at", "asked", "sent"),
    [
        ("a=1", "http://example.com/x/y", "http://example.com/x/z?q=/", True),
        ("a=1", "http://example.com/x/y", "http://example.com/x", True),
        ("a=1", "http://example.com/x/y", "http://example.com/xy", False),
        ("a=1", "http://example.com/x/y", "http://example.com/", False),
        ("a=1", "http://example.com/x?y=/z/", "http://example.com/q", True),
        ("a=1", "http://example.com/", "http://www.example.com/", False),
        ("a=1", "http://example.com/", "http://example.com:8080/", True),
        ("a=1", "http://example.com./", "http://example.com/", True),
        ("a=1; Domain=example.com", "http://example.com/", "http://www.example.com/", True),
        ("a=1; Domain=example.com", "http://www.example.com/", "http://a.b.example.com/", True),
        ("a=1; Domain=example.com", "http://example.com/", "http://notexample.com/", False),
        ("a=1; Domain=co.uk", "http://shop.co.uk/", "http://shop.co.uk/", False),
        ("a=1; Domain=github.io", "http://me.github.io/", "http://me.github.io/", False),
        ("a=1; Domain=github.io", "http://github.io/", "http://github.io/", True),
        ("a=1; Domain=github.io", "http://github.io/", "http://me.github.io/", False),
        ("a=1; Domain=localhost", "http://localhost:81/", "http://localhost:82/", True),
        ("a=1; Domain=localhost", "http://localhost/", "http://a.localhost/", False),
        ("a=1", "http://127.0.0.1:81/", "http://127.0.0.1:82/", True),
        ("a=1; Domain=127.0.0.1", "http://127.0.0.1/", "http://127.0.0.1/", True),
        ("a=1; Domain=0.0.1", "http://127.0.0.1/", "http://127.0.0.1/", False),
        ("a=1", "http://[::1]:81/", "http://[::1]:82/", True),
        ("a=1", "http://[::1]/", "http://[::2]/", False),
        ("a=1; Secure", "https://example.com/", "https://example.com/", True),
        ("a=1; Secure", "https://example.com/", "http://example.com/", False),
        ("a=1; Secure", "http://example.com/", "https://example.com/", False),
        ("a=1", "https://example.com/", "http://example.com/", True),
    ],
)
def test_where_a_cookie_goes(field: str, set_at: str, asked: str, sent: bool) -> None:
    assert jar_of(field, url=set_at).header(asked) == ("a=1" if sent else None)


@pytest.mark.parametrize("domain", ["com", "co.uk", "github.io", "example.org", "s.com", "0.0.1", "example.com."])
def test_a_cookie_for_a_public_suffix_or_a_foreign_domain_takes_no_room(domain: str) -> None:
    for host in ("shop.co.uk", "me.github.io", "cats.com", "127.0.0.1"):
        assert len(jar_of(f"a=1; Domain={domain}", url=f"https://{host}/")) == 0


def test_a_cookie_set_again_replaces_the_first_and_one_of_another_path_stands_beside_it() -> None:
    jar = jar_of("a=1; Path=/", "a=2; Path=/", "a=3; Path=/shop", "b=4; Path=/")
    assert jar.header(PAGE) == "a=3; a=2; b=4"


def test_plain_http_cannot_touch_a_secure_cookie() -> None:
    jar = jar_of("a=1; Secure; Path=/")
    plain = "http://www.example.com/"
    assert not jar.read(plain, answer("a=2; Path=/", "a=; Path=/; Max-Age=0", url=plain))
    assert jar.header(PAGE) == "a=1"


def test_expired_cookies_are_neither_sent_nor_dumped() -> None:
    clock = Clock()
    jar = jar_of("a=1; Max-Age=60", "b=2", clock=clock)
    clock.now += 60
    assert jar.header(PAGE) == "b=2"
    assert Jar.load(jar.dump(), clock=lambda: NOW).header(PAGE) == "b=2"
    assert jar.read(PAGE, answer("a=1; Max-Age=60"))
    assert jar.header(PAGE) == "b=2; a=1"


def test_nobody_keeps_a_cookie_for_longer_than_400_days() -> None:
    for attribute in ("Max-Age=" + "9" * 400, "Expires=Fri, 31-Dec-9999 23:59:59 GMT"):
        cookie = parse(f"a=1; {attribute}".encode(), PAGE, NOW)
        assert cookie is not None
        assert cookie.expires == NOW + LONGEST


def test_read_says_whether_something_changed() -> None:
    clock = Clock()
    jar = Jar(clock)
    changes = [
        jar.read(PAGE, answer(*fields))
        for fields in [(), ("a=1",), ("a=1",), ("a=2",), ("b=; Max-Age=0",), ("a=; Max-Age=0",), ("a=; Max-Age=0",)]
    ]
    assert changes == [False, True, False, True, False, True, False]
    assert jar.changes == {("www.example.com", "/shop", "a"): None}


def test_a_renewal_counts_once_a_quarter_of_the_life_is_over() -> None:
    clock = Clock()
    jar = jar_of("a=1; Max-Age=1000", clock=clock)
    clock.now += 240
    assert not jar.read(PAGE, answer("a=1; Max-Age=1000"))
    clock.now += 20
    assert jar.read(PAGE, answer("a=1; Max-Age=1000"))
    clock.now += 900
    assert jar.header(PAGE) == "a=1"
    assert jar.read(PAGE, answer("a=1; Max-Age=1")), "a shorter life always counts"
    assert jar.read(PAGE, answer("a=1")), "so does one without an end"
    assert jar.read(PAGE, answer("a=1; Max-Age=1000"))


def test_a_jar_has_a_limit_and_what_was_set_longest_ago_makes_room() -> None:
    jar = Jar(Clock())
    for number in range(3000):
        jar.read(PAGE, answer(f"n{number}=1; Path=/"))
    assert len(jar) == MOST_COOKIES
    assert jar.header(PAGE) == "; ".join(f"n{number}=1" for number in range(2950, 3000))
    for number in range(20):
        jar.read(PAGE, answer(f"big{number}={'v' * 4000}; Path=/"))
    assert len(jar.dump()) < MOST_BYTES + 16
    assert [key[2] for key in list(jar.changes)[-1:]] == ["big19"]


def test_one_answer_sets_no_more_cookies_than_a_jar_holds() -> None:
    jar = jar_of(*(f"n{number}=1; Path=/" for number in range(1000)))
    assert jar.header(PAGE) == "; ".join(f"n{number}=1" for number in range(MOST_COOKIES))


def test_more_cookies_than_a_server_takes_are_cut_at_a_cookie_and_the_closest_paths_win() -> None:
    jar = jar_of(*(f"far{number}={'v' * 1900}; Path=/" for number in range(6)), f"near={'v' * 1900}; Path=/shop/cart")
    header = jar.header(PAGE)
    assert header is not None
    assert len(header) <= HEADER_BYTES
    names = [pair.partition("=")[0] for pair in header.split("; ")]
    assert names == ["near", "far0", "far1", "far2"]


@given(st.lists(st.binary(max_size=300) | st.text(alphabet='aA =;,"\\\t\r\n\0éMaxgePthDominxprsu0-19/.', max_size=80)))
def test_whatever_a_server_sends_nothing_is_raised_and_the_header_is_one_field(fields: list[bytes | str]) -> None:
    clock = Clock()
    jar = jar_of(*fields, clock=clock)
    header = jar.header(PAGE)
    assert header is None or not set(header) & set(map(chr, [*range(32), 127]))
    (header or "").encode()  # a lone surrogate would raise
    again = Jar.load(jar.dump(), clock)
    assert again.header(PAGE) == header
    assert again.dump() == jar.dump()


@given(st.binary(max_size=200))
def test_junk_loads_as_an_empty_jar(data: bytes) -> None:
    jar = Jar.load(data, Clock())
    assert jar.header(PAGE) is None
    assert jar.dump() == b""


def test_a_dump_with_a_poisoned_cookie_or_of_another_version_is_not_sent() -> None:
    good = jar_of("a=1").dump()
    assert Jar.load(good, Clock()).header(PAGE) == "a=1"
    assert Jar.load(good.replace(b"\xa11", b"\xa1\n"), Clock()).header(PAGE) is None
    assert Jar.load(b"\x92\x02" + good[2:], Clock()).header(PAGE) is None
    assert Jar.load(good[:-3], Clock()).header(PAGE) is None


def test_no_text_of_a_cookie_shows_its_value() -> None:
    cookie = Cookie("name", "secret-value", "example.com")
    assert "secret-value" not in f"{cookie} {cookie!r} {[cookie]}"


_HOSTS = st.sampled_from(["example.com", "www.example.com", "a.www.example.com", "example.org", "127.0.0.1"])
_PATHS = st.sampled_from(["/", "/a", "/a/", "/a/b", "/ab", "/a/b/c"])
_SCHEMES = st.sampled_from(["http", "https"])


@given(
    st.tuples(_SCHEMES, _HOSTS, _PATHS),
    st.tuples(_SCHEMES, _HOSTS, _PATHS),
    st.sampled_from(["", "example.com", ".www.example.com", "example.org", "127.0.0.1"]),
    st.sampled_from(["", *["/", "/a", "/a/b", "b"]]),
    st.sampled_from(["", "0", "-5", "60"]),
)
def test_where_cookies_go_agrees_with_the_http_library(
    set_at: tuple[str, str, str], asked: tuple[str, str, str], domain: str, path: str, age: str
) -> None:
    """An independent implementation of RFC 6265, asked about hosts below no public suffix, where both are the same."""
    origin, target = ("{}://{}{}".format(*parts) for parts in (set_at, asked))
    field = f"n=v; Domain={domain}; Path={path}" + (f"; Max-Age={age}" if age else "")
    other = _headers_of_the_library(field, origin, target)
    assert jar_of(field, url=origin).header(target) == other


def _headers_of_the_library(field: str, origin: str, target: str) -> str | None:
    async def ask() -> str | None:
        jar = aiohttp.CookieJar(unsafe=True)
        jar.update_cookies_from_headers([field], URL(origin))
        return "; ".join(f"{name}={morsel.coded_value}" for name, morsel in jar.filter_cookies(URL(target)).items())

    return asyncio.run(ask()) or None
