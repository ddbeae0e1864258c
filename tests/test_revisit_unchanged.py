"""Revisits: what is asked for conditionally, and what a page keeps that has not changed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.archive.conftest import bucket  # noqa: F401 - a fixture
from tests.manners.crawls import HTML, redirect, site
from tests.revisit_site import (
    PAGE,
    PAGES,
    SAME,
    STORED,
    UNCHANGED,
    Pages,
    asked,
    condition,
    conditional,
    crawled,
    field,
    not_modified,
    types,
)
from tests.servers import reply, serve


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.emulator)])
def address(request: pytest.FixtureRequest) -> str:
    """Each kind of store: "" for the crawl's folder, or a bucket's address."""
    return "" if request.param == "directory" else f"s3://{request.getfixturevalue('bucket')}/prefix"


# ---------------------------------------------------------------- what has not changed


KEPT = ("title", "lang", "charset", "canonical_url", "noindex", "links_found", "content_type", "bytes", "truncated",
        "digest", "etag", "depth", "outcome", "duplicate_of", "redirect_to")  # fmt: skip


@pytest.mark.case("C16")
async def test_unchanged_pages_keep_what_is_known_and_their_links(tmp_path: Path, address: str) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url(), store=address)
        server.requests.clear()
        second = await crawled(tmp_path, "two", server.url(), store=address, from_crawl="one")
        assert sorted(asked(server)) == ["/", "/three?b=1", "/two"]
        assert sorted(conditional(server)) == ["/", "/three?b=1", "/two"]
    assert set(second) == set(first) == {server.url(target) for target in PAGES}
    for url, row in second.items():
        assert row["status"] == 304
        assert {name: row[name] for name in KEPT} == {name: first[url][name] for name in KEPT}
        original = (row["original_file"].rpartition("/one/")[2], row["original_offset"], row["original_length"])
        assert original == tuple(first[url][f"warc_{name}"] for name in ("file", "offset", "length"))
        assert row["fetched_at"] > first[url]["fetched_at"]
    assert sum(row["links_new"] for row in second.values()) == 2
    assert await types(tmp_path, "two", address) == dict.fromkeys(second, UNCHANGED)


async def test_crawls_from_crawls_refer_to_the_record_that_has_the_body(tmp_path: Path, address: str) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url(), store=address)
        pages.pages["/two"] += b"<p>news"
        await crawled(tmp_path, "two", server.url(), store=address, from_crawl="one")
        third = await crawled(tmp_path, "three", server.url(), store=address, from_crawl="two")
        fourth = await crawled(tmp_path, "four", server.url(), store=address, from_crawl="three")
    assert await types(tmp_path, "two", address) == {
        server.url(): UNCHANGED, server.url("/two"): STORED, server.url("/three?b=1"): UNCHANGED,
    }  # fmt: skip
    for rows, name in ((third, "three"), (fourth, "four")):
        assert set(rows) == {server.url(target) for target in PAGES}
        where = {url: row["original_file"].split("/")[4] for url, row in rows.items()}
        assert where == {server.url(): "one", server.url("/two"): "two", server.url("/three?b=1"): "one"}
        assert set((await types(tmp_path, name, address)).values()) == {UNCHANGED}


async def test_the_same_bytes_are_not_stored_twice(tmp_path: Path) -> None:
    pages = Pages()
    pages.tags = {"/": "", "/two": '"old"'}
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url())
        pages.tags["/two"] = '"new"'
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
        assert conditional(server) == ["/two", "/three?b=1"]
    assert await types(tmp_path, "two") == {
        server.url(): SAME, server.url("/two"): SAME, server.url("/three?b=1"): UNCHANGED,
    }  # fmt: skip
    assert {url: row["digest"] for url, row in second.items()} == {url: row["digest"] for url, row in first.items()}
    assert second[server.url("/two")]["etag"] == '"new"'
    assert [second[server.url(target)]["status"] for target in PAGES] == [200, 200, 304]
    assert second[server.url()]["links_new"] == 2


async def test_a_body_in_another_coding_is_stored(tmp_path: Path) -> None:
    pages = Pages({"/": PAGE})
    pages.special["/two"] = pages.special["/three?b=1"] = lambda _: reply(b"", status="404 Not Found")
    pages.tags["/"] = ""
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url())
        pages.special["/"] = lambda _: reply(gzip.compress(PAGE), HTML, "Content-Encoding: gzip")
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    assert second[server.url()]["digest"] == first[server.url()]["digest"]
    assert (await types(tmp_path, "two"))[server.url()] == STORED


async def test_duplicates_are_found_among_unchanged_pages(tmp_path: Path) -> None:
    twin = b"<title>Twin</title>"
    pages = Pages({"/": b"<a href=/a>a</a><a href=/b>b</a>", "/a": twin, "/b": twin})
    async with serve(site(pages)) as server:
        for name, earlier in (("one", None), ("two", "one")):
            rows = await crawled(tmp_path, name, server.url(), from_crawl=earlier)
            twins = sorted((rows[server.url("/a")], rows[server.url("/b")]), key=lambda row: row["fetched_at"])
            assert [row["duplicate_of"] for row in twins] == [None, twins[0]["url"]]
            assert {row["status"] for row in rows.values()} == {304 if earlier else 200}


@pytest.mark.case("C16")
async def test_fields_of_a_304_bring_the_page_up_to_date(tmp_path: Path) -> None:
    pages = Pages()
    pages.tags["/"] = 'W/"1"'

    def answer(head: bytes) -> bytes | None:
        fields = ('ETag: W/"1"', "Content-Type: application/pdf", "Content-Length: 99", "Last-Modified: x")
        return not_modified(*fields, "X-Robots-Tag: nofollow") if condition(head) == 'W/"1"' else None

    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        pages.special["/"] = answer
        rows = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    (row,) = rows.values()
    assert (row["content_type"], row["last_modified"], row["title"]) == ("text/html; charset=utf-8", "x", "One")
    assert row["links_new"] == 0, "nofollow is obeyed from now on"


# ---------------------------------------------------------------- what is asked, and of whom


async def test_validators_go_out_as_they_came(tmp_path: Path) -> None:
    date = "Sunday, 06-Nov-94 08:49:37 GMT"
    fields = {"/a": ('ETag: W/"x\u00c3\u00a9 y"', f"Last-Modified: {date}"), "/b": ("ETag: bare", "Last-Modified: 0"),
              "/c": ("ETag: *",), "/d": (f"Last-Modified: {date}",)}  # fmt: skip
    pages = Pages({"/": b"".join(b"<a href=%b>x</a>" % target.encode() for target in fields)})
    for target, those in fields.items():
        pages.special[target] = lambda _, those=those: reply(b"<p>x", HTML, *those)  # type: ignore[misc]
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        server.requests.clear()
        await crawled(tmp_path, "two", server.url(), from_crawl="one")
    heads = {head.split(b" ", 2)[1].decode(): head for head in server.requests}
    sent = {target: (condition(heads[target]), field(heads[target], "If-Modified-Since")) for target in fields}
    assert sent == {"/a": ('W/"x\u00c3\u00a9 y"', date), "/b": ("bare", None), "/c": (None, None), "/d": (None, date)}


async def test_no_validator_reaches_another_host_or_another_spelling(tmp_path: Path) -> None:
    pages = Pages({"/": b"<a href='/x?a=1&b=2'>x</a>", "/x?a=1&b=2": b"x1", "/x?b=2&a=1": b"x2"})
    pages.special["/"] = lambda _: reply(pages.pages["/"], HTML)
    async with serve(site(pages)) as server:
        elsewhere = server.url().replace("127.0.0.1", "localhost")
        first = await crawled(tmp_path, "one", server.url())
        pages.pages["/"] = b"<a href='/x?b=2&a=1'>x</a>"
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
        await crawled(tmp_path, "three", elsewhere, from_crawl="one", scope="any")
        assert conditional(server) == []
    assert {row["url_key"] for row in second.values()} == {row["url_key"] for row in first.values()}
    assert second[server.url("/x?b=2&a=1")]["digest"] != first[server.url("/x?a=1&b=2")]["digest"]


async def test_only_the_first_request_of_a_page_is_conditional(tmp_path: Path) -> None:
    def answer(head: bytes) -> bytes | None:
        return None if b"seen=1" in head else redirect("/two", "Set-Cookie: seen=1")

    pages = Pages()
    pages.special["/two"] = answer
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url())
        server.requests.clear()
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    heads = [head for head in server.requests if head.startswith(b"GET /two ")]
    assert [condition(head) for head in heads] == [pages.tag("/two"), None]
    assert second[server.url("/two")]["digest"] == first[server.url("/two")]["digest"]
    assert (await types(tmp_path, "two"))[server.url("/two")] == SAME


async def test_only_what_was_a_whole_page_is_asked_for_conditionally(tmp_path: Path) -> None:
    long = b"<title>Long</title>" + b"x" * 5000
    links = b"".join(b"<a href=/%b>x</a>" % name for name in (b"gone", b"moved", b"long", b"two"))
    pages = Pages({"/": links, "/two": b"<p>2", "/long": long})
    pages.special["/gone"] = lambda _: reply(b"", 'ETag: "g"', status="410 Gone")
    pages.special["/moved"] = lambda _: redirect("/two", 'ETag: "m"')
    async with serve(site(pages)) as server:
        cut = await crawled(tmp_path, "one", server.url(), max_body=4000)
        assert cut[server.url("/long")]["truncated"]
        await crawled(tmp_path, "two", server.url(), from_crawl="one")
        assert sorted(conditional(server)) == ["/", "/two"]
        server.requests.clear()
        again = await crawled(tmp_path, "three", server.url(), from_crawl="two", max_body=4000)
        assert sorted(conditional(server)) == ["/", "/two"], "what is to be cut now must come again"
    assert again[server.url("/long")]["bytes"] == 4000
