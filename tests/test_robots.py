"""robots.txt: which group, which rule, and files that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.robots import ALLOW_ALL, DISALLOW_ALL, MAX_DELAY, MAX_FILE, Robots

SITE = "https://site.example"


def parse(text: str | bytes, token: str = "ExampleBot") -> Robots:
    return Robots.parse(text.encode() if isinstance(text, str) else text, token)


def allowed(text: str | bytes, path: str, token: str = "ExampleBot") -> bool:
    return parse(text, token).allowed(SITE + path)


# ---------------------------------------------------------------- which group


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("User-agent: *\nDisallow: /", False),
        ("User-agent: ExampleBot\nDisallow: /", False),
        ("User-agent: examplebot\nDisallow: /", False),
        ("USER-AGENT : EXAMPLEBOT\nDISALLOW : /", False),
        ("User-agent: ExampleBot/1.0\nDisallow: /", False),
        ("User-agent: ExampleBot (a comment)\nDisallow: /", False),
        ("User-agent: Ex\nAllow: /\n\nUser-agent: *\nDisallow: /", False),
        ("User-agent: ExampleBot2\nAllow: /\n\nUser-agent: *\nDisallow: /", False),
        ("User-agent: ExampleBot-News\nDisallow: /", True),
        ("User-agent: MyExampleBot\nDisallow: /", True),
        ("User-agent: Example\nDisallow: /", True),
        ("User-agent: *bot\nDisallow: /", True),
        ("User-agent: ExampleBot\nAllow: /\n\nUser-agent: *\nDisallow: /", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nAllow: /", True),
        ("User-agent: ExampleBot\nDisallow:\n\nUser-agent: *\nDisallow: /", True),
        ("User-agent: ExampleBot\n", True),
        ("User-agent: *\nDisallow: /\nUser-agent: ExampleBot", True),
        ("User-agent: other\nUser-agent: ExampleBot\nDisallow: /", False),
        ("User-agent: other\nDisallow: /\n", True),
        ("Disallow: /\n", True),
        ("", True),
    ],
)
def test_the_own_group_is_obeyed_and_the_one_for_all_only_without_it(text: str, open_: bool) -> None:
    assert allowed(text, "/page") is open_


@pytest.mark.parametrize(
    "text",
    [
        "User-agent: *\n\nDisallow: /a",
        "User-agent: *\n\n\n# comment\n\nDisallow: /a",
        "User-agent: examplebot\nDisallow: /b\n\nUser-agent: x\nDisallow: /\n\nUser-agent: examplebot\nDisallow: /a",
        "User-agent: examplebot\nCrawl-delay: 5\nUser-agent: *\nDisallow: /a",
        "User-agent: x\nSitemap: https://site.example/s.xml\nUser-agent: *\nDisallow: /a",
        "User-agent: *\nNoindex: /x\nHost: y\nUser-agent: x\nDisallow: /a",
        "User-agent: *\nRequest-rate: 1/5\nDisallow: /a",
        "User-agent: *\nDisallow: /b\nSitemap: /s.xml\nunknown: 1\nDisallow: /a",
    ],
)
def test_only_a_user_agent_line_behind_a_rule_ends_a_group(text: str) -> None:
    assert not allowed(text, "/a")
    assert allowed(text, "/c")


def test_a_token_with_digits_or_blanks_matches_its_own_name_only() -> None:
    text = "User-agent: MJ\nDisallow: /\n\nUser-agent: my crawler\nDisallow: /"
    assert allowed(text, "/", "MJ12bot")
    assert not allowed(text, "/", "My Crawler")


# ---------------------------------------------------------------- which rule


@pytest.mark.parametrize(
    ("rules", "path", "open_"),
    [
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("Disallow: /a\nAllow: /a/b", "/a/x", False),
        ("Allow: /a\nDisallow: /a/b", "/a/b", False),
        ("Disallow: /p\nAllow: /p", "/p", True),
        ("Allow: /p\nDisallow: /p", "/page", True),
        ("Disallow: /*?", "/x?", False),
        ("Disallow: /*?", "/x?y=1", False),
        ("Disallow: /*?", "/x", True),
        ("Disallow: /*.json$", "/d.json", False),
        ("Disallow: /*.json$", "/d.json?x", True),
        ("Disallow: /fish", "/Fish", True),
        ("Disallow: /fish", "/fisherman", False),
        ("Disallow: /fish/", "/fish", True),
        ("Disallow: /$", "/", False),
        ("Disallow: /$", "/x", True),
        ("Disallow: *", "/x", False),
        ("Disallow: /a*/b", "/a1/x/b", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /a%2Fb", "/a%2fb", False),
        ("Disallow: /a%2fb", "/a%2Fb", False),
        ("Disallow: /*%2F*", "/a/b", True),
        ("Disallow: /ü/", "/%C3%BC/", False),
        ("Disallow: /%c3%bc/", "/%C3%BC/", False),
        ("Disallow: /~joe", "/%7Ejoe/", False),
        ("Disallow: /%7Ejoe", "/~joe/", False),
        ("Disallow: /a%2Ab", "/aXb", True),
        ("Disallow: /a%2Ab", "/a*b", False),
        ("Disallow: /a%24", "/a$", False),
        ("Disallow: /a b", "/a%20b", False),
        ("Disallow: /q?a=1&b", "/q?a=1&b=2", False),
        ("Disallow: //x", "//x/y", False),
        ("Disallow: /x", "//x/y", True),
        ("Disallow: /x # secret", "/x", False),
        ("Disallow: /x#y", "/x", False),
        ("Disallow:", "/", True),
        ("Dissalow: /x", "/x", False),
        ("Disallow /x", "/x", False),
        ("Disallow:/x", "/x", False),
        ("Allowed: /x\nDisallow: /x", "/x", False),
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /", "/robots.txt2", False),
        ("Disallow: /", "/a/robots.txt", False),
    ],
)
def test_the_longest_rule_wins_and_allow_wins_a_tie(rules: str, path: str, open_: bool) -> None:
    assert allowed(f"User-agent: *\n{rules}\n", path) is open_


def test_a_url_without_a_path_is_the_root() -> None:
    assert not parse("User-agent: *\nDisallow: /$").allowed("https://site.example")
    assert not parse("User-agent: *\nDisallow: /").allowed("https://[::1]:8080")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["/" + "*a" * 30, "/" + "*a" * 30 + "b", "/" + "*" * 2000, "/" + "a*" * 5000 + "$"])
def test_rules_full_of_stars_take_no_time(pattern: str) -> None:
    """A matcher that backtracks would not be done before the time limit, nor before the end of the universe."""
    rules = parse(f"User-agent: *\nDisallow: {pattern}b")
    assert rules.allowed(SITE + "/" + "a" * 8000)


# ---------------------------------------------------------------- files as they are served

RULES = "User-agent: *\nDisallow: /private\n"


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + RULES.encode(),
        RULES.encode("utf-16"),
        RULES.replace("\n", "\r").encode(),
        RULES.replace("\n", "\r\n").encode(),
        b"# caf\xe9\n" + RULES.encode(),
        b"\0\0\n" + RULES.encode() + b"Disallow: /\0x\n",
        b"\n\n  \t " + RULES.encode(),
        RULES.encode() + b"Disallow: /\xe9\n",
        b"<pre>\n" + RULES.encode() + b"</pre>",
        RULES.encode().rstrip(),
        "User-agent: *\u2028x\nDisallow: /private\u2028Allow: /private/a\n".encode(),
    ],
)
def test_rules_are_found_in_files_of_all_sorts(body: bytes) -> None:
    robots = parse(body)
    assert robots.allowed(SITE + "/public")
    assert robots.allowed(SITE + "/private/a") is (b"\xe2\x80\xa8" in body)


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><html>\nUser-agent: *\nDisallow: /\n</html>",
        b"\n\n  <html><body>\nUser-agent: *\nDisallow: /\n",
        b"\xef\xbb\xbf<!-- x -->\nUser-agent: *\nDisallow: /\n",
        b"<?xml version='1.0'?>\nUser-agent: *\nDisallow: /\n",
        b"not found",
        bytes(range(256)) * 10,
        b"",
    ],
)
def test_a_page_instead_of_a_file_gives_no_rules(body: bytes) -> None:
    assert parse(body) is ALLOW_ALL


def test_five_hundred_kibibytes_are_read_and_the_line_that_is_cut_is_dropped() -> None:
    head = "User-agent: *\n"
    filler = "# " + "x" * 97 + "\n"
    fill = head + filler * ((499 * 1024 - len(head)) // len(filler))
    assert not allowed(fill + "Disallow: /late\n" + filler * 3000, "/late")
    exact = head + "#" * (MAX_FILE - len(head) - len("\nDisallow: /pr")) + "\nDisallow: /private\n"
    assert allowed(exact, "/pr")
    assert allowed(exact, "/private")
    assert allowed(b"User-agent: *" + b" " * MAX_FILE, "/")


@given(st.binary(max_size=400), st.text(max_size=20))
def test_no_file_is_too_strange(body: bytes, token: str) -> None:
    robots = Robots.parse(b"User-agent: *\nDisallow: " + body, token)
    assert isinstance(robots.allowed(SITE + "/x?y"), bool)
    assert robots.allowed(SITE + "/robots.txt")


@given(st.lists(st.sampled_from("/aB*$%2?=&;~'ü\\ "), max_size=12).map("".join))
def test_a_path_disallowed_as_it_is_written_is_disallowed(path: str) -> None:
    plain = "/" + "".join(c for c in path if c not in "*$%ü\\ ")
    assert not allowed(f"User-agent: *\nDisallow: {plain}", plain)


# ---------------------------------------------------------------- delay and sitemaps


@pytest.mark.parametrize(
    ("value", "delay", "capped"),
    [
        ("5", 5.0, False),
        ("0.5", 0.5, False),
        (".5", 0.5, False),
        ("0", 0.0, False),
        ("0.1", 0.1, False),
        ("0.0001", 0.001, False),
        ("1.2345", 1.235, False),
        ("2 # seconds", 2.0, False),
        ("3600", MAX_DELAY, False),
        ("3601", MAX_DELAY, True),
        ("1e9", MAX_DELAY, True),
        ("86400", MAX_DELAY, True),
        ("-1", None, False),
        ("10s", None, False),
        ("inf", None, False),
        ("nan", None, False),
        ("1e999", None, False),
        ("1_0", None, False),
        ("٣", None, False),
        ("", None, False),
        ("soon", None, False),
    ],
)
def test_a_crawl_delay_is_a_finite_number_of_seconds_or_nothing(value: str, delay: float | None, capped: bool) -> None:
    robots = parse(f"User-agent: *\nCrawl-delay: {value}\nDisallow: /x")
    assert (robots.crawl_delay, robots.delay_capped) == (delay, capped)
    assert not robots.allowed(SITE + "/x")


def test_the_delay_of_the_own_group_counts_and_of_several_the_longest() -> None:
    text = "User-agent: *\nCrawl-delay: 9\n\nUser-agent: ExampleBot\nCrawl-delay: 2\nDisallow:\nCrawl-delay: 3\n"
    assert parse(text).crawl_delay == 3.0
    assert parse(text, "other").crawl_delay == 9.0
    assert parse("Crawl-delay: 7\n").crawl_delay is None


def test_sitemaps_belong_to_no_group() -> None:
    text = (
        "SITEMAP: https://site.example/a.xml\nUser-agent: other\nDisallow: /\nSitemap: /b.xml # relative\n"
        "sitemap: https://site.example/a.xml\nSitemap:\nSitemap https://site.example/c.xml"
    )
    robots = parse(text)
    assert robots.sitemaps == ("https://site.example/a.xml", "/b.xml", "https://site.example/c.xml")
    assert robots.allowed(SITE + "/x")


def test_the_two_constants() -> None:
    assert ALLOW_ALL.allowed(SITE + "/x")
    assert not DISALLOW_ALL.allowed(SITE + "/x")
    assert DISALLOW_ALL.allowed(SITE + "/robots.txt")
