"""What a crawl's options and the list of tracking parameters make of a key; pairs that must stay apart."""

from __future__ import annotations

import random
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.config import CrawlSettings, crawl_settings
from crawler.errors import UsageError
from crawler.tracking import TRACKING
from crawler.url_key import STANDARD, Keys, keys_of

HOST = "https://example.com"

TRACKERS = (
    "utm_source utm_medium utm_campaign utm_term utm_content utm_id utm_whatever_comes gclid gclsrc dclid gbraid "
    "wbraid gad_source srsltid _ga _gl fbclid igshid msclkid yclid ysclid _openstat twclid ttclid li_fat_id epik "
    "mc_cid mc_eid mkt_tok vero_id oly_anon_id oly_enc_id _hsenc _hsmi __hstc __hssc __hsfp hsCtaTracking hsa_acc "
    "hsa_net wickedid rb_clickid irclickid pk_campaign pk_kwd piwik_keyword mtm_source matomo_cid s_kwcid ef_id "
    "_branch_match_id"
)

PAGES = (
    "ref source id s q p page cid sid lang from via src campaign utm ga hs pk pk_id mc kw tag name sort trk spm share "
    "session token sig tracking click var si feature context sr keywords content-id s_cid ncid cmpid"
)


@pytest.mark.parametrize("name", TRACKERS.split())
def test_tracking_parameters_are_no_part_of_a_key(name: str) -> None:
    assert STANDARD.key(f"{HOST}/p?a=1&{name}=x&b=2") == f"{HOST}/p?a=1&b=2"
    assert STANDARD.key(f"{HOST}/p?{name.upper()}") == f"{HOST}/p"


@pytest.mark.parametrize("name", PAGES.split())
def test_names_that_a_site_may_use_for_its_own_are_kept(name: str) -> None:
    assert name not in TRACKING
    assert STANDARD.digest(f"{HOST}/p?{name}=1") != STANDARD.digest(f"{HOST}/p?{name}=2")


@pytest.mark.parametrize(
    ("keep", "drop", "url", "key"),
    [
        (["utm_source"], [], "/?utm_source=a&utm_medium=b", "/?utm_source=a"),
        (["UTM_*"], [], "/?utm_source=a&utm_medium=b&gclid=c", "/?utm_medium=b&utm_source=a"),
        (["phpsessid"], [], "/?PHPSESSID=1&jsessionid=2", "/?PHPSESSID=1"),
        (["sid"], [], "/?sid=0123456789abcdef01234567", "/?sid=0123456789abcdef01234567"),
        (["cfid"], [], "/?cfid=1&cftoken=2", "/?cfid=1"),
        ([], ["ref"], "/?ref=x&a=1&reference=2", "/?a=1&reference=2"),
        ([], ["Ref*"], "/?ref=x&a=1&REFERENCE=2", "/?a=1"),
        ([], ["ref"], "/?ref", "/"),
        ([], ["ref"], "/?%72ef=x", "/"),
        ([], ["filter[a]"], "/?filter%5ba%5D=1&filter[b]=2&filter[a]=3", "/?filter[b]=2"),
        ([], ["filter%5Ba%5D"], "/?filter[a]=1", "/"),
        ([], ["größe"], "/?gr%C3%B6%C3%9Fe=1", "/"),
        (["id"], ["*"], "/?a=1&id=7&b=2", "/?id=7"),
        (["utm_source"], ["utm_source"], "/?utm_source=a", "/?utm_source=a"),
    ],
)
def test_a_crawl_says_what_counts(keep: list[str], drop: list[str], url: str, key: str) -> None:
    keys = keys_of(crawl_settings({"keep_params": keep, "drop_params": drop}))
    assert keys.key(HOST + url) == HOST + key
    assert keys.key(HOST + key) == HOST + key
    assert keys.digest(HOST + url) == keys.digest(HOST + key)


def test_the_order_and_case_of_options_make_no_other_keys() -> None:
    one = crawl_settings({"keep_params": ["b", "A"], "drop_params": ["x", "x"]})
    other = crawl_settings({"keep_params": ["a", "B"], "drop_params": ["X"]})
    assert one == other
    assert keys_of(one) is keys_of(other)
    assert keys_of(CrawlSettings()) is STANDARD


@pytest.mark.parametrize("name", ["", "a=b", "a&b", "a b", "*a", "a**", "#"])
def test_an_option_that_names_no_parameter_is_refused(name: str) -> None:
    for option in ("keep", "drop"):
        with pytest.raises(UsageError, match=rf"^--{option}-param .*write the name of a query parameter"):
            crawl_settings({f"{option}_params": [name]})


# ---------------------------------------------------------------- properties

NAME = st.sampled_from(["a", "b", "A", "ref", "utm_source", "sid", "cfid", "cftoken", "gclid", "%61", "a[]", "", "%zz"])
VALUE = st.sampled_from(["", "=", "=1", "=2", "=a=b", "=%2F", "=/", "=+", "=%20", "=é", "=0123456789abcdef01234567"])
QUERY = st.lists(st.builds(str.__add__, NAME, VALUE), max_size=6)
RULES = st.builds(
    Keys,
    st.lists(st.sampled_from(["a", "utm_*", "sid", "cfid", "*"]), max_size=2).map(tuple),
    st.lists(st.sampled_from(["b", "a*", "ref", "*", "cftoken"]), max_size=2).map(tuple),
)


@pytest.mark.case("A02")
@settings(max_examples=1000, deadline=None)
@given(RULES, QUERY, st.sampled_from(["/", "/x;jsessionid=1", "/%7e", ""]))
@example(Keys((), ("cfid",)), ["cfid=1", "cftoken=2"], "/")
@example(Keys(("cfid",), ()), ["cfid=1", "cftoken=2", "a=1"], "/")
def test_keys_are_stable_under_any_options(keys: Keys, query: list[str], path: str) -> None:
    key = keys.key(f"{HOST}{path}?{'&'.join(query)}")
    assert keys.key(key) == key
    assert key.isascii()


@settings(max_examples=500, deadline=None)
@given(QUERY, st.randoms(use_true_random=False))
def test_the_order_of_parameters_of_different_names_does_not_count(query: list[str], rng: random.Random) -> None:
    """Equal names keep their order: `a=1&a=2` and `a=2&a=1` are two lists."""
    names = [piece.partition("=")[0].replace("%61", "a") for piece in query]
    pieces = {name: iter([piece for n, piece in zip(names, query, strict=True) if n == name]) for name in names}
    rng.shuffle(names)
    mixed = [next(pieces[name]) for name in names]
    assert STANDARD.key(f"{HOST}/?{'&'.join(query)}") == STANDARD.key(f"{HOST}/?{'&'.join(mixed)}")


PLAIN_NAMES = st.sampled_from(["a", "b", "c"])
PLAIN_QUERY = st.lists(st.builds(lambda name, value: f"{name}={value}", PLAIN_NAMES, st.integers(0, 3)), max_size=5)


@settings(max_examples=500, deadline=None)
@given(PLAIN_QUERY, PLAIN_QUERY)
def test_two_queries_have_one_key_only_when_every_name_has_the_same_values_in_order(
    one: list[str], other: list[str]
) -> None:
    def lists(query: list[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for piece in query:
            found.setdefault(piece[0], []).append(piece)
        return found

    same = STANDARD.digest(f"{HOST}/?{'&'.join(one)}") == STANDARD.digest(f"{HOST}/?{'&'.join(other)}")
    assert same == (lists(one) == lists(other))


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from('aAbB/%;.~-_ é?&=+"<|'), min_size=1, max_size=8), st.integers(0, 7))
def test_another_character_makes_another_page(path: str, at: int) -> None:
    """Of an escaped path, each escape stands for itself: no other path has its key."""
    whole = f"{HOST}/x{quote(path, safe='')}"
    at %= len(path)
    swapped = path[:at] + path[at].swapcase() + path[at + 1 :]
    changed = [path[:at] + "z" + path[at + 1 :], path[:at] + path[at + 1 :], path + "/", path + "%"]
    if swapped != path:
        changed.append(swapped)
    for other in changed:
        assert STANDARD.digest(f"{HOST}/x{quote(other, safe='')}") != STANDARD.digest(whole)


APART = [
    ("/x", "/x?"), ("/x?", "/x?&"), ("/x?a", "/x?a="), ("/x?a&a", "/x?a"), ("/x?a=1&", "/x?a=1"), ("/x?a==1", "/x?a=1"),
    ("/a%2Fb", "/a/b"), ("/a%5Cb", "/a/b"), ("/?q=%2F", "/?q=/"), ("/?q=a%20b", "/?q=a+b"), ("/?q=%2B", "/?q=+"),
    ("/%41%2F", "/A/"), ("/a%3Fb", "/a?b"), ("/a;b", "/a%3Bb"), ("/a:b", "/a%3Ab"), ("/a@b", "/a%40b"),
    ("/a(b)", "/a%28b%29"), ("/a'b", "/a%27b"), ("/a!", "/a%21"), ("/a*", "/a%2A"), ("/a$", "/a%24"),
    ("/a,b", "/a%2Cb"),
    ("/a|b", "/a%7Cb"), ("/a[b]", "/a%5Bb%5D"), ("/100%", "/100%25"), ("/?q=%zz", "/?q=%25zz"),
    ("/caf%E9", "/caf%C3%A9"),
    ("/?q=%E9", "/?q=%C3%A9"), ("//x", "/x"), ("/x//y", "/x/y"), ("/x/", "/x"), ("/X", "/x"), ("/..b", "/b"),
    ("/...", "/"), ("/.x", "/x"), ("/x.", "/x"), ("/%20", "/"), ("/index.html", "/"), ("/?A=1", "/?a=1"),
    ("/?a=B", "/?a=b"),
]  # fmt: skip


@pytest.mark.case("A07", "A09", "A10")
@pytest.mark.parametrize(("one", "other"), APART)
def test_what_a_server_may_tell_apart_is_told_apart(one: str, other: str) -> None:
    assert STANDARD.digest(HOST + one) != STANDARD.digest(HOST + other)


ONE = [
    ("/%7Ejoe", "/~joe"), ("/%7ejoe", "/~joe"), ("/%61", "/a"), ("/a%2fb", "/a%2Fb"), ("/a/%2e%2E/b", "/b"),
    ("/a/.%2e", "/"),
    ("/%2e/x", "/x"), ("/../x", "/x"), ("/a/./b", "/a/b"), ("\\a\\b", "/a/b"), ("/é", "/%C3%A9"), ("/a b", "/a%20b"),
    ("/?q=\"", "/?q=%22"), ("/?q=é", "/?q=%c3%a9"), ("/?b&a", "/?a&b"), ("/x#y", "/x"), ("/x#", "/x"), ("/x?#y", "/x?"),
    ("/\tx", "/x"), ("/x ", "/x"), ("/?gclid=1", "/"), ("/?&utm_id=1", "/"), ("/?a&utm_id=1&&", "/?&&a"),
]  # fmt: skip


@pytest.mark.case("A10")
@pytest.mark.parametrize(("one", "other"), ONE)
def test_what_is_one_page_to_every_server_is_one_page(one: str, other: str) -> None:
    assert STANDARD.digest(HOST + one) == STANDARD.digest(HOST + other)


@pytest.mark.case("A16")
@pytest.mark.parametrize("size", [2_000, 8_000, 200_000])
def test_long_urls_that_differ_in_their_last_byte_are_two_pages(size: int) -> None:
    one, other = (f"{HOST}/?q={'a' * size}{last}" for last in "bc")
    assert STANDARD.digest(one) != STANDARD.digest(other)
    assert STANDARD.key(one) == one
