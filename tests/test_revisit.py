"""Revisits: whole crawls of one small server, one after the other, by a worker in this process."""

from __future__ import annotations

import gzip
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from crawler.archive.folder import WARC, crawl_folder, parquet_name, validators_name
from crawler.archive.merge import merge
from crawler.archive.stores import open_store
from crawler.archive.verify import verify
from crawler.config import crawl_settings
from crawler.entrypoints.seeds import add_seeds, crawl_to_seed
from crawler.errors import UsageError
from crawler.loop import Exit, Worker
from crawler.model import CrawlRecord
from crawler.revisit import Revisits
from tests.archive.conftest import bucket  # noqa: F401 - a fixture
from tests.archive.making import response
from tests.faults.crawls import state_in
from tests.manners.crawls import HTML, redirect, site
from tests.servers import Server, reply, serve

Rows = dict[str, dict[str, Any]]
PAGE = b'<html lang=de><title>One</title><link rel=canonical href=/c><a href=/two>2</a><a href="/three?b=1">3</a>'
PAGES = {"/": PAGE, "/two": b"<title>Two</title><a href=/>1</a>", "/three?b=1": b"<title>Three</title>"}


class Pages:
    """A site with entity tags: its pages by target, and what is peculiar about some."""

    def __init__(self, pages: dict[str, bytes] | None = None) -> None:
        self.pages = dict(pages or PAGES)
        self.tags: dict[str, str] = {}
        self.special: dict[str, Callable[[bytes], bytes | None]] = {}

    def tag(self, target: str) -> str:
        return self.tags.get(target, f'"{len(self.pages[target])}"')

    def __call__(self, target: str, head: bytes) -> bytes:
        if target in self.special and (answer := self.special[target](head)) is not None:
            return answer
        if target not in self.pages:
            return reply(b"no", HTML, status="404 Not Found")
        tag = self.tag(target)
        if tag and condition(head) == tag:
            return not_modified(f"ETag: {tag}")
        return reply(self.pages[target], "Content-Type: text/html; charset=utf-8", *([f"ETag: {tag}"] if tag else []))


def not_modified(*fields: str) -> bytes:
    return "".join(("HTTP/1.1 304 Not Modified\r\n", *(f"{field}\r\n" for field in fields), "\r\n")).encode("latin-1")


def field(head: bytes, name: str) -> str | None:
    found = re.search(rb"\r\n" + name.encode() + rb": ([^\r]*)", head, re.IGNORECASE)
    return found[1].decode("latin-1") if found else None


def condition(head: bytes) -> str | None:
    return field(head, "If-None-Match")


def asked(server: Server) -> list[str]:
    """Targets of the requests for pages; what robots.txt says is still known to a later crawl."""
    return [target for target in server.targets if target != "/robots.txt"]


def conditional(server: Server) -> list[str]:
    """Targets of the requests that had a condition."""
    heads = [head for head in server.requests if condition(head) or field(head, "If-Modified-Since")]
    return [head.split(b" ", 2)[1].decode() for head in heads]


async def crawled(folder: Path, name: str, *seeds: str, store: str = "", **settings: Any) -> Rows:
    """The merged rows, by URL, of a crawl that ended sound."""
    address = store or str(folder)
    async with state_in(folder, f"w-{name}") as state:
        given = {"rate": 0.0, "allow_private": True, "lease": 5.0, **settings}
        record = await crawl_to_seed(state, name, given, address)
        await add_seeds(state, record, seeds, print)
        worker = Worker(state, address, name=f"w-{name}", crawl=name, until_complete=True)
        assert await worker.run() is Exit.COMPLETE
        archive = open_store(address)
        merged = await merge(archive, record)
        report = await verify(state, archive, record)
        assert report.faults == []
        assert (await state.counts(name)).dead == 0
        async with archive.existing(parquet_name(record)) as path:
            assert path is not None
            rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        assert merged.unchanged == sum(row["original_file"] is not None for row in rows)
    return {row["url"]: row for row in rows}


async def types(folder: Path, name: str, store: str = "") -> dict[str, str]:
    """What kind of record a crawl has of each URL, read by an independent reader: the end of a revisit's profile."""
    found: dict[str, str] = {}
    archive = open_store(store or str(folder))
    record = await record_of(folder, name)
    where = crawl_folder(record)
    async for file in archive.read(where, await archive.files(where, WARC)):
        with file.path.open("rb") as stream:
            for each in ArchiveIterator(stream, check_digests="raise"):
                header = each.rec_headers.get_header
                profile = header("WARC-Profile") or each.rec_type
                assert not each.raw_stream.read() or each.rec_type != "revisit", profile
                if each.rec_type != "warcinfo":
                    found[header("WARC-Target-URI")] = profile.rpartition("/")[2]
    return found


async def record_of(folder: Path, name: str) -> CrawlRecord:
    async with state_in(folder, "reader") as state:
        return next(record for record in await state.crawls() if record.id == name)


SAME, UNCHANGED, STORED = "identical-payload-digest", "server-not-modified", "response"


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


# ---------------------------------------------------------------- servers that do not keep to the rules


@pytest.mark.case("C16")
async def test_a_304_that_nobody_asked_for_is_an_answer_like_others(tmp_path: Path) -> None:
    async with serve(site(lambda _target, _head: not_modified('ETag: "x"'))) as server:
        for name, earlier in (("one", None), ("two", "one")):
            (row,) = (await crawled(tmp_path, name, server.url(), from_crawl=earlier)).values()
            assert (row["outcome"], row["status"], row["bytes"], row["original_file"]) == ("done", 304, 0, None)
        assert conditional(server) == []


async def test_a_server_that_answers_304_to_everything_changes_nothing(tmp_path: Path) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url())
        pages.special = dict.fromkeys(PAGES, lambda _: not_modified())
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    assert {url: row["digest"] for url, row in second.items()} == {url: row["digest"] for url, row in first.items()}


async def test_a_304_with_a_body_is_taken_without_it(tmp_path: Path) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        first = await crawled(tmp_path, "one", server.url())
        body = reply(b"<title>Lies</title>", HTML, status="304 Not Modified")
        pages.special = dict.fromkeys(PAGES, lambda head: body if condition(head) else None)
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    assert {url: row["digest"] for url, row in second.items()} == {url: row["digest"] for url, row in first.items()}
    assert set((await types(tmp_path, "two")).values()) == {UNCHANGED}


@pytest.mark.parametrize(
    "refusal",
    [reply(b"no", status="412 Precondition Failed"), reply(b"what?", status="400 Bad Request"),
     not_modified('ETag: "another"')],
    ids=["412", "400", "another-tag"],
)  # fmt: skip
async def test_a_page_that_is_refused_on_conditions_is_asked_for_without(tmp_path: Path, refusal: bytes) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        pages.special = dict.fromkeys(PAGES, lambda head: refusal if condition(head) else None)
        server.requests.clear()
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
        assert sorted(asked(server)) == sorted([*PAGES, *PAGES])
    assert {row["status"] for row in second.values()} == {200}
    assert set(second) == {server.url(target) for target in PAGES}
    assert set((await types(tmp_path, "two")).values()) == {SAME}


async def test_asking_again_waits_for_its_turn(tmp_path: Path) -> None:
    pages = Pages({"/": b"<p>1"})
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        pages.special["/"] = lambda head: reply(b"", status="412 Precondition Failed") if condition(head) else None
        server.requests.clear()
        server.times.clear()
        await crawled(tmp_path, "two", server.url(), from_crawl="one", rate=4.0)
    assert server.targets == ["/", "/"]
    assert server.times[1] - server.times[0] > 0.2


async def test_a_server_that_stumbles_over_conditions_does_not_cost_the_page(tmp_path: Path) -> None:
    pages = Pages({"/": b"<p>1"})
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        broken = reply(b"", "Retry-After: 0", status="503 Service Unavailable")
        pages.special["/"] = lambda head: broken if condition(head) else None
        (row,) = (await crawled(tmp_path, "two", server.url(), from_crawl="one")).values()
    assert (row["status"], row["attempts"]) == (200, 2)


# ---------------------------------------------------------------- an earlier crawl that is not all there


async def lose_records(folder: Path, name: str) -> None:
    for file in folder.glob(f"crawls/*/*/*/{name}/warc/*.warc.gz"):
        file.unlink()


async def damage_records(folder: Path, name: str) -> None:
    for file in folder.glob(f"crawls/*/*/*/{name}/warc/*.warc.gz"):
        file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize("lose", [lose_records, damage_records])
async def test_where_the_earlier_record_is_gone_the_page_is_fetched_anew(
    tmp_path: Path, lose: Callable[[Path, str], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        await lose(tmp_path, "one")
        server.requests.clear()
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
        assert asked(server)[:2] == ["/", "/"]
        assert sorted(asked(server)[2:]) == ["/three?b=1", "/two"], "a lost file is tried once"
        third = await crawled(tmp_path, "three", server.url(), from_crawl="two")
    assert {row["status"] for row in second.values()} == {200}
    assert set(second) == set(third) == {server.url(target) for target in PAGES}
    assert set((await types(tmp_path, "two")).values()) == {STORED}
    assert set((await types(tmp_path, "three")).values()) == {UNCHANGED}
    assert len([line for line in caplog.messages if "cannot be read of an earlier crawl" in line]) == 1


async def test_what_was_refused_once_is_not_made_conditional_again(tmp_path: Path) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        await crawled(tmp_path, "two", server.url(), from_crawl="one")
    revisits = await Revisits.open(open_store(str(tmp_path)), await record_of(tmp_path, "one"), 10_000)
    assert revisits is not None
    try:
        url = server.url("/two")
        assert revisits.conditions(url) == (("If-None-Match", pages.tag("/two")),)
        assert await revisits.not_modified(url, response(url=url, status=412)) is None
        assert revisits.conditions(url) == ()
        assert revisits.conditions(server.url()) != ()
    finally:
        await revisits.close()
        await revisits.close()


async def unwell(folder: Path, spoil: Callable[[Path], object]) -> tuple[Sequence[str], Rows, Server]:
    """Crawl, spoil the validators after the second crawl was begun, and let it run: its conditional requests."""
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(folder, "one", server.url())
        async with state_in(folder, "seeder") as state:
            given = {"rate": 0.0, "allow_private": True, "from_crawl": "one", "lease": 5.0}
            await crawl_to_seed(state, "two", given, str(folder))
        spoil(folder / validators_name(await record_of(folder, "one")))
        server.requests.clear()
        rows = await crawled(folder, "two", server.url())
    return conditional(server), rows, server


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 10_000),
     lambda path: path.write_bytes(path.read_bytes()[:9000])],
    ids=["missing", "empty", "other", "cut"],
)  # fmt: skip
async def test_without_sound_validators_the_crawl_is_like_any_other(
    tmp_path: Path, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    conditions, rows, server = await unwell(tmp_path, spoil)
    assert conditions == []
    assert set(rows) == {server.url(target) for target in PAGES}
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING and "as if new" in r.getMessage()]
    assert len(told) == 1


async def test_an_earlier_crawl_that_left_the_state_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pages = Pages()
    async with serve(site(pages)) as server:
        await crawled(tmp_path, "one", server.url())
        async with state_in(tmp_path, "seeder") as state:
            settings = {"rate": 0.0, "allow_private": True, "from_crawl": "one", "lease": 5.0}
            await crawl_to_seed(state, "two", settings, str(tmp_path))
            await state.purge("one")
        rows = await crawled(tmp_path, "two", server.url())
    assert conditional(server) == []
    assert len(rows) == len(PAGES)
    assert "crawl one is not on this state any more" in caplog.text


async def test_an_earlier_crawl_is_merged_first_where_it_was_not(tmp_path: Path) -> None:
    async with serve(site(Pages())) as server:
        await crawled(tmp_path, "one", server.url())
        parquet = tmp_path / parquet_name(await record_of(tmp_path, "one"))
        parquet.unlink()
        second = await crawled(tmp_path, "two", server.url(), from_crawl="one")
    assert {row["status"] for row in second.values()} == {304}
    assert parquet.exists()


async def test_what_cannot_be_revisited_is_refused_and_nothing_is_begun(tmp_path: Path) -> None:
    async with state_in(tmp_path, "w") as state:
        one = crawl_settings({})
        await state.create(CrawlRecord(id="one", started_at=1.0, settings=one, store=str(tmp_path)))
        elsewhere = str(tmp_path / "elsewhere")
        for name, earlier, store, says in (
            ("two", "none", str(tmp_path), r"there is no such crawl on this state \(it has: one\)"),
            ("one", "one", str(tmp_path), "a crawl cannot revisit itself"),
            ("two", "one", elsewhere, "the new crawl needs the same --store"),
        ):
            with pytest.raises(UsageError, match=says):
                await crawl_to_seed(state, name, {"from_crawl": earlier}, store)
        assert [(record.id, record.settings) for record in await state.crawls()] == [("one", one)]


async def test_without_a_name_the_crawl_that_revisits_is_begun_and_then_resumed(tmp_path: Path) -> None:
    async with state_in(tmp_path, "w") as state:
        store = str(tmp_path)
        await state.create(CrawlRecord(id="one", started_at=1.0, settings=crawl_settings({}), store=store))
        begun = await crawl_to_seed(state, None, {"from_crawl": "one"}, store)
        assert begun.id != "one"
        assert (await crawl_to_seed(state, None, {"from_crawl": "one", "rate": 2.0}, store)).id == begun.id
        assert (await crawl_to_seed(state, None, {}, store)).settings.from_crawl == "one"
        assert [record.settings.from_crawl for record in await state.crawls()] == [None, "one"]
