"""Which rule decides (RFC 9309 2.2.2, 2.2.3), on the facts of its tables and of the reference parser's public tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from crawler.robots import ALLOW_ALL, HEAVY
from tests.robots.reading import SITE, allowed, parse

FISH = ("/fish", "/fish.html", "/fish/salmon.html", "/fishheads", "/fishheads/yummy.html", "/fish.html?id=anything")
NO_FISH = ("/bar", "/Fish.asp", "/catfish", "/?id=fish", "/desert/fish")
PHP = ("/f.php", "/folder/f.php", "/folder/f.php?p", "//folder/any.php.file.html", "/f.php/", "/index?f=f.php/")

# A rule, and the paths that it is about; then those that it is not about.
ABOUT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "/": (("/", "/x", "/?q", "//"), ()),
    "/fish": (FISH, NO_FISH),
    "/fish*": (FISH, NO_FISH),
    "/fish***": (FISH, NO_FISH),
    "/fish/": (
        ("/fish/", "/fish/salmon", "/fish/?salmon", "/fish/?id=anything"),
        ("/fish", "/fish.html", "/Fish/Salmon"),
    ),
    "/*.php": (PHP, ("/bar", "/php/", "/index?php", "/windows.PHP")),
    "*.php": (PHP, ("/bar", "/php/", "/windows.PHP")),
    "/*.php$": (("/f.php", "/folder/f.php", "/a?b=c.php"), ("/f.php?p", "/f.php/", "/f.php5", "/aaaphpaaa", "/w.PHP")),
    "/fish*.php": (("/fish.php", "/fishheads/catfish.php?parameters"), ("/Fish.PHP", "/catfish.php", "/fish")),
    "/foo/*/qux": (("/foo/bar/qux", "/foo//qux", "/foo/a/b/quxx"), ("/foo/qux", "/foo/bar/quz")),
    "/foo/bar$": (("/foo/bar",), ("/foo/bar/", "/foo/bar/qux", "/foo/bar?", "/foo/bar$", "/foo/bar$x")),
    "/$": (("/",), ("/x", "/?", "//", "/$", "/$x")),
    "$": ((), ("/", "/x", "/$")),
    "*$": (("/", "/x", "/x?y"), ()),
    "*": (("/", "/x", "/x?y"), ()),
    "/*$": (("/", "/x"), ()),
    "/a$b": (("/a$b", "/a$bc", "/a%24b"), ("/a", "/ab")),
    "/a$$": (("/a$", "/a%24"), ("/a", "/a$$", "/a$b")),
    "/a$*": (("/a$", "/a$b"), ("/a", "/ab")),
    "/a%24": (("/a$", "/a%24", "/a$b"), ("/a", "/ab")),
    "/a%24$": (("/a$", "/a%24"), ("/a", "/a$b")),
    "/a%2A": (("/a*", "/a%2A", "/a%2a", "/a*b"), ("/ab", "/a")),
    "/path/file-with-a-%2A.html": (("/path/file-with-a-*.html",), ("/path/file-with-a-x.html",)),
    "/path/foo-%24": (("/path/foo-$",), ("/path/foo-", "/path/foo-x")),
    "/a*b*c": (("/abc", "/a1b2c", "/aXbXcX", "/abbcc"), ("/acb", "/ab", "/bac")),
    "/a*b*c$": (("/abc", "/abcbc", "/a-b-c-c"), ("/abcd", "/acb")),
    "/*ab*ab$": (("/abab", "/abxab", "/ababab"), ("/ab", "/aba", "/abxabx")),
    "/aa*aa$": (("/aaaa", "/aaxaa", "/aaaaa"), ("/aaa", "/aa")),
    "/*?": (("/x?", "/x?y=1", "/?"), ("/x", "/x%3F", "/x%3Fy")),
    "/*%3F": (("/who%3F", "/who%3f/x"), ("/who?", "/who")),
    "/*?*sid=": (("/x?sid=1", "/x?a=1&sid=2"), ("/x/sid=1", "/x?ssid")),
    "/*&b": (("/x?a&b", "/x&b"), ("/x?a%26b", "/x?b")),
    "/q?a=1": (("/q?a=1", "/q?a=12", "/q?a=1&b"), ("/q?b&a=1", "/q", "/q?a=2")),
    # no path begins like these
    "fish": ((), ("/fish", "fish", "/x/fish")),
    "https://site.example/x": ((), ("/x", "/https://site.example/y")),
    "?x": ((), ("/?x",)),
    # octets beyond ASCII, and escapes of any case
    "/foo/bar/ツ": (("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84x"), ("/foo/bar/%E3%83",)),
    "/foo/bar/%E3%83%84": (("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84"), ("/foo/bar/", "/foo/bar/%E3%83%85")),
    "/foo/bar/%e3%83%84": (("/foo/bar/%E3%83%84",), ("/foo/bar/",)),
    "/foo/bar/%62%61%7A": (("/foo/bar/baz", "/foo/bar/%62az", "/foo/bar/%62%61%7a"), ("/foo/bar/ba",)),
    "/foo/bar/baz": (("/foo/bar/%62%61%7A",), ()),
    "/%7ejoe/": (("/~joe/", "/%7Ejoe/", "/%7ejoe/"), ("/joe/",)),
    "/~joe/": (("/~joe/", "/%7Ejoe/", "/%7ejoe/"), ()),
    "/a%3cd.html": (("/a%3cd.html", "/a%3Cd.html"), ("/acd.html",)),
    "/a<d.html": (("/a%3cd.html", "/a%3Cd.html"), ()),
    "/a%3Cd.html": (("/a%3cd.html",), ()),
    "/a%2fb.html": (("/a%2fb.html", "/a%2Fb.html"), ("/a/b.html",)),
    "/a/b.html": (("/a/b.html",), ("/a%2fb.html", "/a%2Fb.html")),
    "/*%2F*": (("/a%2Fb", "/x/a%2fb", "/q?u=a%2Fb"), ("/a/b", "/a/b/c", "/q?u=a/b")),
    "/a b": (("/a%20b",), ("/a+b", "/a")),
    "/a+b": (("/a+b",), ("/a%20b", "/a%2Bb")),
    "/a%2Bb": (("/a%2bb",), ("/a+b",)),
    "/a|b": (("/a|b", "/a%7Cb", "/a%7cb"), ()),
    "/a%2Cb": (("/a,b", "/a%2cb"), ()),
    "/it's": (("/it's", "/it%27s"), ()),
    "/%41%2D%5F": (("/A-_", "/%41-_"), ("/a-_",)),
    "/100%": (("/100%", "/100%x", "/100%/"), ("/100",)),
    "/100%25": (("/100%25", "/100%2541"), ("/100", "/100A")),
    "/%zz": (("/%zz",), ("/zz",)),
    "/%C3%A9": (("/%c3%a9",), ("/e", "/%E9")),
    # the RFC's table of encoded paths
    "/foo/bar?baz=quz": (("/foo/bar?baz=quz",), ("/foo/bar", "/foo/bar%3Fbaz=quz")),
    "/foo/bar?baz=https://foo.bar": (
        ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https%3a//foo.bar"),
        ("/foo/bar?baz=http://foo.bar",),
    ),
    "/foo/bar?baz=https%3A%2F%2Ffoo.bar": (("/foo/bar?baz=https://foo.bar",), ()),
    "/*http://": (("/p?u=http://x", "/p?u=http%3A%2F%2Fx", "/http://x"), ("/http%3A%2F%2Fx", "/p?u=https://x")),
    "/foo/bar?qux=taz&baz=http://foo.bar?tar&par": (("/foo/bar?qux=taz&baz=http://foo.bar?tar&par",), ()),
}


@pytest.mark.case("B05", "B06")
@pytest.mark.parametrize(
    ("rule", "path", "about"),
    [
        (rule, path, about)
        for rule, both in ABOUT.items()
        for about, paths in zip((True, False), both, strict=True)
        for path in paths
    ],
)
def test_what_a_rule_is_about(rule: str, path: str, about: bool) -> None:
    assert allowed(f"user-agent: *\ndisallow: {rule}\n", path) is not about
    assert allowed(f"user-agent: *\ndisallow: /\ndisallow: *\nallow: {rule}\n", path) is (
        about and (len(rule) > 1 or rule in "/*")
    )


@pytest.mark.case("B05")
@pytest.mark.parametrize(
    ("rules", "path", "open_"),
    [
        ("disallow: /x/page.html|allow: /x/", "/x/page.html", False),
        ("allow: /x/page.html|disallow: /x/", "/x/page.html", True),
        ("allow: /x/page.html|disallow: /x/", "/x/", False),
        ("disallow: |allow: ", "/x", True),
        ("disallow: /|allow: /", "/x", True),
        ("allow: /|disallow: /", "/x", True),
        ("disallow: /x|allow: /x/", "/x", False),
        ("disallow: /x|allow: /x/", "/x/", True),
        ("disallow: /x/page.html|allow: /x/page.html", "/x/page.html", True),
        ("allow: /page|disallow: /*.html", "/page.html", False),
        ("allow: /page|disallow: /*.html", "/page", True),
        ("allow: /x/page.|disallow: /*.html", "/x/page.html", True),
        ("allow: /x/page.|disallow: /*.html", "/x/y.html", False),
        ("allow: /p|disallow: /", "/page", True),
        ("allow: /folder|disallow: /folder", "/folder/page", True),
        ("allow: /page|disallow: /*.htm", "/page.htm", False),
        ("allow: /page|disallow: /*.ph", "/page.php5", True),
        ("allow: /$|disallow: /", "/", True),
        ("allow: /$|disallow: /", "/page.html", False),
        ("allow: /$|disallow: /", "/$page", False),
        ("disallow: /*?|allow: /abc", "/abc?x", True),  # four octets against three
        ("disallow: /*?|allow: /a", "/abc?x", False),
        ("disallow: /*?$|allow: /abc", "/abc?", True),
        ("disallow: /a/*/c|allow: /a/b/", "/a/b/c", False),
        ("disallow: /a*c|allow: /a/b/", "/a/b/c", True),
        ("disallow: /a****c|allow: /a/b/", "/a/b/c", False),  # octets as they are written
        ("disallow: /ü|allow: /%C3%BC", "/%C3%BC", True),
        ("disallow: /üx|allow: /%C3%BC", "/%C3%BCx", False),
        ("disallow: /ü|allow: /ab*", "/%C3%BC", False),
        ("disallow: /foo/quz#qux|allow: /", "/foo/quz", False),
        ("#disallow: /|disallow: /foo/quz#qux|allow: /", "/foo/bar", True),
        ("disallow: /a|disallow: /a|allow: /a/", "/a/", True),
        ("allow: /a/b|disallow: /a/b$", "/a/b", False),
        ("allow: /a/b$|disallow: /a/b", "/a/b", True),
        ("allow: /a/b$|disallow: /a/b", "/a/bc", False),
        # an index page is what its folder shows
        ("allow: /slash/index.html|disallow: /", "/slash/", True),
        ("allow: /slash/index.html|disallow: /", "/slash/index.html", True),
        ("allow: /slash/index.html|disallow: /", "/slash/index.htm", False),
        ("allow: /slash/index.html|disallow: /", "/slash/other", False),
        ("allow: /slash/index.html|disallow: /", "/slash", False),
        ("allow: /index.html|disallow: /", "/", True),
        ("allow: /*/index.html|disallow: /", "/any/", True),
        ("disallow: /slash/index.html", "/slash/", True),
        ("allow: /slash/myindex.html|disallow: /", "/slash/", False),
        # the file itself
        ("disallow: /|disallow: /robots.txt", "/robots.txt", True),
        ("disallow: /", "/robots.txt.bak", False),
        ("disallow: /", "/sub/robots.txt", False),
        ("disallow: /", "/Robots.txt", False),
    ],
)
def test_the_longest_rule_decides(rules: str, path: str, open_: bool) -> None:
    assert allowed("user-agent: *\n" + rules.replace("|", "\n"), path) is open_


@pytest.mark.parametrize(
    ("url", "open_"),
    [
        ("https://site.example", False),
        ("https://site.example/", False),
        ("https://site.example?a=/b", True),
        ("http://[::1]:8080", False),
        ("http://[::1]:8080/", False),
        ("https://site.example:444/x", True),
    ],
)
def test_path_and_query_are_what_rules_see(url: str, open_: bool) -> None:
    assert parse("user-agent: *\ndisallow: /$").allowed(url) is open_


def test_a_path_in_another_encoding_keeps_its_octets() -> None:
    body = "user-agent: *\ndisallow: /caf\xe9/\n".encode("latin-1")
    assert not allowed(body, "/caf%E9/")
    assert not allowed(body, "/caf%e9/x")
    assert allowed(body, "/caf%C3%A9/")
    assert allowed(body, "/caf/")


def test_a_rule_of_any_length_is_read_whole() -> None:
    """The reference parser cuts lines at 16,664 bytes, which makes rules mean more than they say."""
    long = "/x/" + "a" * 20_000
    assert not allowed(f"user-agent: *\ndisallow: {long}/qux\n", f"{long}/qux")
    assert allowed(f"user-agent: *\ndisallow: {long}/qux\n", f"{long}/fux")


_segments = st.lists(st.sampled_from(["a", "b", "ab", "/", "*", "."]), max_size=8).map("".join)


@given(st.lists(st.tuples(st.booleans(), _segments), max_size=6), _segments)
def test_another_implementation_agrees_where_both_follow_the_rfc(rules: list[tuple[bool, str]], path: str) -> None:
    """That is without `$`, queries and escapes, in which they differ."""
    lines = [f"{'allow' if allow else 'disallow'}: /{rule}" for allow, rule in rules]
    text = "\n".join(["user-agent: *", *lines])
    url = f"{SITE}/{path.replace('*', '')}"
    assert parse(text).allowed(url) is Protego.parse(text).can_fetch(url, "FooBot")


@given(st.lists(st.sampled_from("/aB=%2?&;~'ü\\ "), max_size=12).map("".join))
def test_a_path_disallowed_as_it_is_written_is_disallowed(path: str) -> None:
    plain = "/" + "".join(c for c in path if c not in "%ü\\ ")
    assert not allowed(f"user-agent: *\ndisallow: {plain}", plain)


def test_without_rules_everything_is_allowed() -> None:
    assert ALLOW_ALL.allowed(SITE + "/x")


def test_robots_txt_itself_is_allowed_where_nothing_is() -> None:
    assert not allowed("user-agent: *\ndisallow: /", "/x")
    assert allowed("user-agent: *\ndisallow: /", "/robots.txt")


def test_a_file_with_very_many_rules_is_heavy_and_as_right_as_any() -> None:
    many = "".join(f"disallow: /*{n}/x\nallow: /{n}\n" for n in range(HEAVY))
    robots = parse(f"user-agent: *\n{many}")
    assert robots.heavy
    assert not robots.allowed(SITE + "/a/777/x")
    assert robots.allowed(SITE + "/777")
    assert not parse("user-agent: *\ndisallow: /x").heavy
