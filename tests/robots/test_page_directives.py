"""What a page asks of robots in its head, its body and its HTTP fields, seen through the parser."""

from __future__ import annotations

import pytest

from crawler.parse import parse

URL = "https://site.example/dir/page"
LINK = "<a href=/next>next</a>"


def asked(html: str = "", *fields: str, token: str = "ExampleBot", content_type: str = "text/html") -> str:
    """The directives in force: i for noindex, f for nofollow. A nofollow page must not yield its link."""
    page = parse(f"<!doctype html><html>{html}{LINK}".encode(), content_type, URL, fields, token)
    if content_type == "text/html":
        assert [link.url for link in page.links] == ([] if page.nofollow else ["https://site.example/next"])
    return ("i" if page.noindex else "") + ("f" if page.nofollow else "")


@pytest.mark.case("D07")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((), ""),
        (("noindex",), "i"),
        (("nofollow",), "f"),
        (("NoIndex",), "i"),
        (("NONE",), "if"),
        ((" noindex ",), "i"),
        (("noindex,nofollow",), "if"),
        (("noindex , nofollow",), "if"),
        (("noindex\t,\tnofollow",), "if"),
        ((",,noindex,,",), "i"),
        # all fields count, whatever their order
        (("noarchive", "noindex"), "i"),
        (("nofollow", "noindex"), "if"),
        (("index", "noindex"), "i"),
        (("noindex", "all"), "i"),
        (("none", "index, follow"), "if"),
        # fields for one crawler
        (("examplebot: noindex",), "i"),
        (("EXAMPLEBOT:NOINDEX",), "i"),
        (("ExampleBot: nofollow, noindex",), "if"),
        (("otherbot: noindex",), ""),
        (("otherbot: none", "nofollow"), "f"),
        (("nofollow", "otherbot: none"), "f"),
        (("nofollow", "ExampleBot: noindex"), "if"),
        (("otherbot: nofollow", "examplebot: noindex"), "i"),
        (("examplebot-news: noindex",), ""),
        (("example: noindex",), ""),
        (("myexamplebot: noindex",), ""),
        (("otherbot: index, examplebot: none",), "if"),
        # values with commas and colons of their own
        (("unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT",), ""),
        (("unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT", "noindex"), "i"),
        (("unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT, nofollow",), "f"),
        (("noindex, unavailable_after: 1 Jan 2028 15:00:00 PST",), "i"),
        (("examplebot: unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT, noindex",), "i"),
        (("otherbot: unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT, noindex",), ""),
        (("unavailable_after: 2028-01-01T00:00:00+01:00, none",), "if"),
        (("max-snippet:-1, max-image-preview:large, max-video-preview:30, noindex",), "i"),
        (("max-snippet: 10",), ""),
        # what is none of ours
        (("noarchive, nosnippet, notranslate, noimageindex",), ""),
        (("noindexing",), ""),
        (("no-index",), ""),
        (("noindex nofollow",), ""),
        (("",), ""),
        ((":",), ""),
    ],
)
def test_every_field_counts(fields: tuple[str, ...], expected: str) -> None:
    assert asked("", *fields) == expected


@pytest.mark.case("D07")
@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<meta name=robots content=noindex>", "i"),
        ("<META NAME=Robots CONTENT='NOINDEX , NoFollow'>", "if"),
        ("<meta name=' robots ' content=' none '>", "if"),
        ("<meta content=nofollow name=ROBOTS>", "f"),
        ("<meta name='robots' content='noindex'/>", "i"),
        ("<meta name=robots content='noindex&#44;nofollow'>", "if"),
        ("<meta name=examplebot content=noindex>", "i"),
        ("<meta name=ExampleBot content=NONE>", "if"),
        ("<meta name=otherbot content=none>", ""),
        ("<meta name=googlebot content=none>", ""),
        ("<meta name=robots content=nofollow><meta name=examplebot content=noindex>", "if"),
        ("<meta name=examplebot content=index><meta name=robots content=noindex>", "i"),
        ("<meta name=robots content=noindex><meta name=robots content='index,follow'>", "i"),
        ("<meta name=robots content='unavailable_after: Sat, 01 Jan 2028 00:00:00 GMT, noindex'>", "i"),
        ("<meta name=robots content='max-snippet:-1, nofollow'>", "f"),
        ("<meta name=robots content='all'>", ""),
        ("<meta name=robots content=''>", ""),
        ("<meta name=robots>", ""),
        ("<meta property=robots content=none>", ""),
        ("<meta http-equiv=robots content=none>", ""),
        ("<meta name=robot content=none>", ""),
        ("<!-- <meta name=robots content=none> -->", ""),
        ("<script>'<meta name=robots content=none>'</script>", ""),
        ("<textarea><meta name=robots content=none></textarea>", ""),
        # wherever it stands
        ("<body><p>x<meta name=robots content=noindex></p>", "i"),
        ("<body><div><div><meta name=robots content=none></div></div>", "if"),
        ("<table><tr><td><meta name=robots content=nofollow></table>", "f"),
    ],
)
def test_every_tag_counts_wherever_it_stands(html: str, expected: str) -> None:
    assert asked(html) == expected


def test_a_tag_behind_the_links_holds_for_them_too() -> None:
    page = parse(f"{LINK}<meta name=robots content=nofollow>".encode(), "text/html", URL, (), "ExampleBot")
    assert (page.nofollow, page.links) == (True, ())


def test_fields_and_tags_add_up() -> None:
    assert asked("<meta name=robots content=noindex>", "nofollow") == "if"
    assert asked("<meta name=robots content=follow>", "examplebot: nofollow") == "f"


def test_fields_count_for_what_is_no_page() -> None:
    assert asked("", "noindex", "examplebot: nofollow", content_type="application/pdf") == "if"


@pytest.mark.case("D07")
@pytest.mark.parametrize(
    ("link", "followed"),
    [
        ("<a href=/x rel=nofollow>", False),
        ("<a href=/x rel=NOFOLLOW>", False),
        ("<a href=/x rel='x NoFollow'>", False),
        ("<a href=/x rel='nofollow noopener noreferrer'>", False),
        ("<a href=/x rel='ugc\nnofollow\tsponsored'>", False),
        ("<a href=/x rel='&#110;ofollow'>", False),
        ("<area href=/x rel='Nofollow'>", False),
        ("<link rel='next nofollow' href=/x>", False),
        ("<a href=/x rel>", True),
        ("<a href=/x rel=''>", True),
        ("<a href=/x rel=no-follow>", True),
        ("<a href=/x rel=nofollowed>", True),
        ("<a href=/x rel='no follow'>", True),
        ("<a href=/x rel='nofollow,noopener'>", False),  # no blank between link types; search engines read commas, too
        ("<a href=/x rel='ugc sponsored'>", True),
        ("<a href=/x rev=nofollow>", True),
        ("<a href=/x class=nofollow>", True),
        ("<link rel=next href=/x>", True),
    ],
)
def test_a_link_may_say_that_it_is_not_to_be_followed(link: str, followed: bool) -> None:
    page = parse(link.encode(), "text/html", URL, (), "ExampleBot")
    assert [each.url for each in page.links] == (["https://site.example/x"] if followed else [])
    assert page.links_found == 1


def test_a_link_that_is_also_there_without_it_is_followed() -> None:
    page = parse(b"<a rel=nofollow href=/x>1</a><a href=/x>2</a>", "text/html", URL, (), "ExampleBot")
    assert [each.url for each in page.links] == ["https://site.example/x"]
