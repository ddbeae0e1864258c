"""Revisits where servers do not keep to the rules, or the earlier crawl is not all there."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from crawler.archive.folder import parquet_name, validators_name
from crawler.archive.stores import open_store
from crawler.config import crawl_settings
from crawler.entrypoints.seeds import crawl_to_seed
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.revisit import Revisits
from tests.archive.making import response
from tests.faults.crawls import state_in
from tests.manners.crawls import HTML, site
from tests.revisit_site import (
    PAGES,
    SAME,
    STORED,
    UNCHANGED,
    Pages,
    Rows,
    asked,
    condition,
    conditional,
    crawled,
    not_modified,
    record_of,
    types,
)
from tests.servers import Server, reply, serve

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
