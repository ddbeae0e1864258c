"""Lines and groups (RFC 9309 2.1, 2.2.1), on the facts of its examples and of the reference parser's public tests.

Where search engines go beyond the RFC, and this crawler does not follow, the row says so.
"""

from __future__ import annotations

import pytest

from tests.robots.reading import allowed

SEVERAL = """\
allow: /before/any/group/

user-agent: FooBot
disallow: /
allow: /x/
user-agent: BarBot
disallow: /
allow: /y/


allow: /w/
user-agent: BazBot

user-agent: FooBot
allow: /z/
disallow: /
"""


@pytest.mark.parametrize(
    ("token", "path", "open_"),
    [
        ("FooBot", "/x/b", True),
        ("FooBot", "/z/d", True),
        ("FooBot", "/y/c", False),
        ("FooBot", "/w/a", False),
        ("BarBot", "/y/c", True),
        ("BarBot", "/w/a", True),
        ("BarBot", "/z/d", False),
        ("BarBot", "/x/b", False),
        ("BazBot", "/z/d", True),
        ("BazBot", "/y/c", False),
        ("FooBot", "/before/any/group/", False),
        ("BarBot", "/before/any/group/", False),
        ("BazBot", "/before/any/group/", False),
        ("QuxBot", "/", True),
        ("QuxBot", "/before/any/group/", True),
    ],
)
def test_groups_of_one_name_are_one_and_rules_outside_any_are_nothing(token: str, path: str, open_: bool) -> None:
    assert allowed(SEVERAL, path, token) is open_


# The example of the RFC's section 5.1.
EXAMPLE = """\
User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("token", "path", "open_"),
    [
        ("anybot", "/a.gif", False),
        ("anybot", "/a.gif?x", True),
        ("anybot", "/deep/er/a.gif", False),
        ("anybot", "/example/page.html", False),
        ("anybot", "/example", True),
        ("anybot", "/publications/", True),
        ("anybot", "/publications/a.gif", True),  # the longer of two rules that match
        ("anybot", "/", True),
        ("foobot", "/", False),
        ("foobot", "/publications/", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/page.html?x=1", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/example/other.gif", False),
        ("barbot", "/example/page.html", False),
        ("barbot", "/example/allowed.gif", True),
        ("barbot", "/x.gif", True),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/", True),
        ("quxbot", "/example/page.html", True),
        ("quxbot", "/a.gif", True),
        ("FOOBOT", "/", False),
        ("QuxBot", "/example/", True),
    ],
)
def test_the_example_of_the_rfc(token: str, path: str, open_: bool) -> None:
    assert allowed(EXAMPLE, path, token) is open_


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("disallow: /x", True),
        ("DISALLOW: /x", True),
        ("dIsAlLoW: /x", True),
        ("disallow:/x", True),
        ("disallow :/x", True),
        ("disallow\t:\t/x\t", True),
        ("   disallow:   /x   ", True),
        ("disallow /x", True),  # the colon is forgotten; search engines read it too
        ("disallow\t/x", True),
        ("disallow: /x # why", True),
        ("disallow: /x# why", True),
        ("dissallow: /x", True),  # misspelt, as search engines read it
        ("dissalow: /x", True),
        ("disalow: /x", True),
        ("diasllow: /x", True),
        ("disallaw: /x", True),
        ("#disallow: /x", False),
        ("# disallow: /x", False),
        ("disallow: #/x", False),
        ("disallow:", False),
        ("disallow", False),
        ("disallowed: /x", False),
        ("dis allow: /x", False),
        ("nodisallow: /x", False),
        ("noindex: /x", False),
        ("foo: /x", False),
        (": /x", False),
        ("disallow = /x", False),
        ("- disallow: /x", False),
        ("disallow;/x", False),
        ("allow: /x", False),
        ("/x", False),
    ],
)
def test_what_is_a_rule(line: str, counts: bool) -> None:
    assert allowed(f"user-agent: foobot\n{line}\n", "/x/y") is not counts


@pytest.mark.case("B03")
@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("user-agent: FooBot", True),
        ("User-Agent: foobot", True),
        ("USER-AGENT: FOOBOT", True),
        ("uSeR-aGeNt: fOObOT", True),
        ("user-agent:FooBot", True),
        ("user-agent : FooBot", True),
        ("user-agent FooBot", True),
        ("useragent: FooBot", True),
        ("user agent: FooBot", True),
        ("user-agent: FooBot # ours", True),
        ("user-agent: FooBot/2.1", True),
        ("user-agent: FooBot/2.1 (+https://foo.example/bot)", True),
        ("user-agent: FooBot Images", True),  # up to the first blank, as the reference parser reads it
        ("user-agent: FooBot; FooBot-Images", True),
        ("user-agent: FooBot(news)", True),
        ("user-agent: *", True),
        ("user-agent: * # all", True),
        ("user-agent: *\t", True),
        ("user-agent: Foo", False),
        ("user-agent: Bot", False),
        ("user-agent: FooBots", False),
        ("user-agent: FooBot-News", False),
        ("user-agent: FooBot_News", False),
        ("user-agent: MyFooBot", False),
        ("user-agent: Mozilla/5.0 (compatible; FooBot/2.1)", False),
        ("user-agent: FooBot2", False),  # the reference parser reads no digits and would take it for FooBot
        ("user-agent: FooBot*", False),  # no patterns in names
        ("user-agent: Foo*", False),
        ("user-agent: *Bot", False),
        ("user-agent: **", False),
        ("user-agent: ツ", False),
        ("user-agent: 'FooBot'", False),
        ("user-agent:", False),
        ("agent: FooBot", False),
        ("user-agents: FooBot", False),
        ("user--agent: FooBot", False),
    ],
)
def test_names_are_compared_whole_and_in_any_case(line: str, ours: bool) -> None:
    assert allowed(f"{line}\ndisallow: /\n", "/x") is not ours


@pytest.mark.parametrize(
    ("token", "line", "ours"),
    [
        ("Foo-Bar", "user-agent: foo-bar", True),
        ("Foo-Bar", "user-agent: Foo", False),
        ("Foo", "user-agent: Foo-Bar", False),
        ("Foo_Bar", "user-agent: FOO_BAR/1", True),
        ("MJ12bot", "user-agent: mj12bot", True),
        ("MJ12bot", "user-agent: mj", False),
        ("a", "user-agent: a", True),
        ("a", "user-agent: ab", False),
        ("foo bar", "user-agent: Foo Bar", True),
        ("foo bar", "user-agent: Foo", False),
        ("*", "user-agent: *", True),
        ("foo.bot", "user-agent: fooxbot", False),
        ("foo.bot", "user-agent: foo.bot", True),
    ],
)
def test_a_token_is_found_in_its_own_spelling_only(token: str, line: str, ours: bool) -> None:
    assert allowed(f"{line}\ndisallow: /\n", "/x", token) is not ours


@pytest.mark.case("B04")
@pytest.mark.parametrize(
    ("text", "open_"),
    [
        # the own group, wherever it stands, and no other beside it
        ("user-agent: *\ndisallow: /\nuser-agent: foobot\nallow: /", True),
        ("user-agent: foobot\nallow: /\nuser-agent: *\ndisallow: /", True),
        ("user-agent: *\nallow: /\nuser-agent: foobot\ndisallow: /", False),
        ("user-agent: *\ndisallow: /\nuser-agent: foobot\ndisallow: /other", True),
        ("user-agent: foobot\ndisallow: /other\nuser-agent: *\ndisallow: /", True),
        ("user-agent: *\ndisallow: /\nuser-agent: foobot\ncrawl-delay: 1", True),
        ("user-agent: *\ndisallow: /\nuser-agent: foobot", True),
        ("user-agent: *\ndisallow: /\nuser-agent: foobot\nfoo: bar", True),
        ("user-agent: foobot\nuser-agent: *\ndisallow: /", False),
        ("user-agent: *\nuser-agent: foobot\ndisallow: /", False),
        # the group for all, only without an own one
        ("user-agent: *\ndisallow: /\nuser-agent: barbot\nallow: /", False),
        ("user-agent: barbot\nallow: /\nuser-agent: *\ndisallow: /", False),
        ("user-agent: barbot\ndisallow: /", True),
        ("user-agent: *\nallow: /\nuser-agent: barbot\ndisallow: /", True),
        # several of it are one
        ("user-agent: *\ndisallow: /x\nuser-agent: b\nallow: /\nuser-agent: *\ndisallow: /y", False),
        ("user-agent: *\ndisallow: /y\nuser-agent: b\nallow: /\nuser-agent: *\ndisallow: /x", False),
        ("user-agent: *\ndisallow: /\nuser-agent: b\nallow: /\nuser-agent: *\nallow: /x/y", True),
        # named twice in one group
        ("user-agent: foobot\nuser-agent: foobot\ndisallow: /", False),
        ("user-agent: foobot/1\nuser-agent: foobot/2\ndisallow: /x", False),
        # what does not end a group
        ("user-agent: foobot\n\ndisallow: /", False),
        ("user-agent: foobot\n\n\n\n# words\n\ndisallow: /", False),
        ("user-agent: foobot\n\nuser-agent: b\n\ndisallow: /", False),
        ("user-agent: foobot\nsitemap: https://site.example/s.xml\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\nhost: site.example\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\ncrawl-delay: 2\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\nvisit-time: 0200-0400\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\nclean-param: ref\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\nwhat is this\nuser-agent: b\ndisallow: /", False),
        ("user-agent: foobot\ndisallow: /y\nsitemap: /s\ndisallow: /x", False),
        ("user-agent: foobot\ndisallow: /y\n\n\ndisallow: /x", False),
        ("user-agent: foobot\nallow: /y\ncrawl-delay: 1\nfoo: bar\ndisallow: /x", False),
        # what does
        ("user-agent: foobot\nallow: /y\nuser-agent: b\ndisallow: /", True),
        ("user-agent: foobot\ndisallow:\nuser-agent: b\ndisallow: /", True),
        ("user-agent: foobot\nallow:\nuser-agent: b\ndisallow: /", True),
        ("user-agent: foobot\nallow: /y\nuser-agent:\ndisallow: /", True),
        # rules before any user agent
        ("disallow: /\nuser-agent: foobot\nallow: /y", True),
        ("allow: /x\nuser-agent: foobot\ndisallow: /", False),
        ("disallow: /", True),
        ("crawl-delay: 5\ndisallow: /x\nuser-agent: *\nallow: /", True),
    ],
)
def test_which_groups_rules_are_obeyed(text: str, open_: bool) -> None:
    assert allowed(text, "/x/y") is open_
