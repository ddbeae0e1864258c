"""Complete crawls: merged, summed up and announced, once for each completion."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from crawler.archive.folder import parquet_name, summary_name, summary_text_name
from crawler.archive.rowless import merge_whole
from crawler.archive.stores import reaches
from crawler.archive.summary import Summary, moment, read_summary
from crawler.errors import CrawlerError
from crawler.janitor import closing, look, memory
from crawler.model import CrawlRecord, dead
from crawler.state.sqlite import SqliteState
from tests.contract.words import page, pages
from tests.janitor.looking import Fleet, Watched


async def completed(fleet: Fleet, janitor: Watched, **settings: Any) -> CrawlRecord:
    """A crawl of three pages, at the look before the one that completes it."""
    record = await fleet.begin(pages=pages(3), **settings)
    await fleet.finish(record)
    await janitor.look()
    return record


async def summary_of(fleet: Fleet, record: CrawlRecord) -> Summary:
    found = await read_summary(fleet.store, record)
    assert found is not None
    return found


async def test_a_complete_crawl_is_merged_summed_up_and_announced(fleet: Fleet, janitor: Watched) -> None:
    record = await completed(fleet, janitor)
    found = await janitor.look()
    assert (found.completed, found.closed, found.faults) == (["c1"], ["c1"], [])
    async with fleet.store.existing(parquet_name(record)) as path:
        assert path is not None
        rows, size = pq.read_table(path).to_pylist(), path.stat().st_size
    summary = await summary_of(fleet, record)
    assert summary.files.parquet == parquet_name(record)
    assert (summary.files.parquet_bytes, summary.files.warc, summary.files.pages) == (size, 1, 1)
    assert summary.totals is not None
    assert (summary.totals.rows, summary.counts.done, len(rows)) == (3, 3, 3)
    assert summary.faults == ()
    async with fleet.store.existing(summary_text_name(record)) as path:
        assert path is not None
        assert "3 pages done" in path.read_text()
    now = moment(janitor.clock.now)
    assert janitor.events == [
        {
            "stack": "Stack",
            "crawl": "c1",
            "bucket": "",
            "prefix": "crawls/2026/09/21/c1/",
            "parquet": "crawls/2026/09/21/c1.parquet",
            "summary": "crawls/2026/09/21/c1.summary.json",
            "started_at": "2026-09-21T14:13:20.000000Z",
            "completed_at": now,
            "counts": {"discovered": 3, "done": 3, "skipped": 0, "dead": 0, "bytes": 300, "hosts": 1},
            "note": "",
        }
    ]
    assert (summary.completed_at, summary.announced_at) == (now, now)
    assert janitor.lines[-1]["CrawlsCompleted"] == 1


async def test_what_is_closed_stays_closed_also_where_no_look_remembers(fleet: Fleet, janitor: Watched) -> None:
    record = await completed(fleet, janitor)
    await janitor.look()
    before = await summary_of(fleet, record)
    await janitor.look()
    await janitor.state.remember(memory.FACT, b"", 0)
    await janitor.look()
    await janitor.look()
    assert len(janitor.events) == 1
    assert await summary_of(fleet, record) == before


async def test_a_crawl_that_workers_completed_is_closed(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin()
    await fleet.finish(record)
    assert await fleet.state.complete("c1")
    found = await janitor.look()
    assert (found.completed, found.closed) == ([], ["c1"])


async def test_a_crawl_that_went_on_and_is_complete_again_is_announced_again(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin(pages=pages(2))
    (lost, _) = leases = await fleet.state.claim(2)
    await fleet.state.settle([(lease, dead("dns", "no such host")) for lease in leases])
    for _ in range(2):
        await janitor.look()
    await fleet.state.revive("c1", [(lost.digest, 0.0)])
    await fleet.finish(record)
    for _ in range(3):
        await janitor.look()
    first, second = janitor.events
    assert (first["counts"]["dead"], second["counts"]["dead"], second["counts"]["done"]) == (2, 1, 1)
    assert first["completed_at"] < second["completed_at"] == (await summary_of(fleet, record)).completed_at


async def test_what_listeners_are_told_can_be_read_when_they_are_told(fleet: Fleet, janitor: Watched) -> None:
    record = await completed(fleet, janitor)
    read = []

    async def announce(detail: str) -> None:
        told = msgspec.json.decode(detail)
        async with fleet.store.existing(told["parquet"]) as parquet, fleet.store.existing(told["summary"]) as summary:
            read.append((parquet is not None, summary is not None))

    janitor.announce = announce  # type: ignore[method-assign]
    await janitor.look()
    assert read == [(True, True)]
    assert (await summary_of(fleet, record)).announced_at


async def test_an_event_that_fails_is_repeated_and_nothing_is_merged_again(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await completed(fleet, janitor)
    announce = janitor.announce

    async def fail(detail: str) -> None:
        raise CrawlerError("no bus")

    janitor.announce = fail  # type: ignore[method-assign]
    found = await janitor.look()
    assert (found.completed, found.closed, found.faults) == (["c1"], [], ["crawl c1: no bus"])
    assert (await summary_of(fleet, record)).announced_at is None
    janitor.announce = announce  # type: ignore[method-assign]
    monkeypatch.setattr(closing, "merge_whole", None)
    assert (await janitor.look()).closed == ["c1"]
    assert len(janitor.events) == 1


async def test_a_crawl_that_goes_on_just_as_it_is_closed_is_told_of_when_it_is_complete_again(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await completed(fleet, janitor)
    more = pages(2, "b.example")

    async def meanwhile(*given: Any) -> Any:
        while more:
            await fleet.state.add("c1", [more.pop()])
        return await read_summary(*given)

    monkeypatch.setattr(closing, "read_summary", meanwhile)
    found = await janitor.look()
    assert (found.completed, found.closed, janitor.events) == (["c1"], [], [])
    await fleet.finish(record)
    for _ in range(2):
        await janitor.look()
    (event,) = janitor.events
    assert (event["counts"]["discovered"], event["counts"]["done"]) == (5, 5)


async def test_dead_letters_without_end_keep_no_crawl_from_being_closed(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)

    async def endless(_: object) -> int:
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(SqliteState, "drain_dead_letters", endless)
    monkeypatch.setattr(look, "DRAINING", 0.0001)
    found = await janitor.look()
    assert (found.closed, found.faults) == (["c1"], [])


def test_so_many_closed_crawls_are_remembered_that_they_fit_into_a_fact() -> None:
    closed = {f"2026{number:08}-{'x' * 50}": float(number) for number in range(10_000)}
    kept = memory.Memory(at=10_000.0, closed=closed).after(10_300.0, 1e6)
    assert len(kept.closed) == memory.MOST
    assert kept.closed_until == 10_000 - memory.MOST - 1
    assert len(msgspec.json.encode(kept)) < 300_000
    assert kept.after(10_600.0, 1e6) == memory.Memory(at=10_600.0, closed=kept.closed, closed_until=kept.closed_until)


async def test_crawls_that_were_closed_before_those_are_left_alone(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin()
    await fleet.finish(record)
    assert await fleet.state.complete("c1")
    await memory.keep(janitor.state, memory.Memory(at=janitor.clock.now, closed_until=janitor.clock.now))
    assert (await janitor.look()).closed == []
    assert janitor.events == []


async def test_what_a_look_remembers_is_not_undone_by_one_that_took_longer(
    fleet: Fleet, janitor: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await completed(fleet, janitor)
    other = Watched(janitor.state, janitor.clock)

    async def meanwhile(*given: Any) -> Any:
        await other.look()
        return await merge_whole(*given)

    monkeypatch.setattr(closing, "merge_whole", meanwhile)
    begun = janitor.clock.now
    assert (await janitor.look()).closed == ["c1"]
    kept = await memory.recall(janitor.state)
    assert (kept.at - begun, list(kept.closed)) == (600, ["c1"])


async def test_a_look_with_little_time_left_closes_nothing(fleet: Fleet, janitor: Watched) -> None:
    await completed(fleet, janitor)
    found = await janitor.look(seconds=59)
    assert (found.completed, found.closed) == (["c1"], [])
    assert (await janitor.look()).closed == ["c1"]


async def test_a_crawl_of_long_ago_is_left_alone(fleet: Fleet, janitor: Watched) -> None:
    record = await fleet.begin()
    await fleet.finish(record)
    assert await fleet.state.complete("c1")
    assert (await janitor.look(15 * 24 * 60)).closed == []
    assert janitor.events == []


async def test_a_crawl_that_cannot_be_closed_keeps_no_other_from_it(fleet: Fleet, janitor: Watched) -> None:
    await completed(fleet, janitor)
    other = await fleet.begin("c2", pages=[page(host="b.example")])
    await fleet.finish(other)
    await fleet.state.complete("c2")
    async with fleet.store.replace(parquet_name(other)) as path:
        path.write_bytes(b"x")
    broken = Path(fleet.store.address) / summary_text_name(other)
    broken.mkdir()  # nothing can be written under this name
    found = await janitor.look()
    assert found.closed == ["c1"]
    (fault,) = found.faults
    assert fault.startswith("crawl c2: cannot write to ")
    broken.rmdir()
    assert (await janitor.look()).closed == ["c2"]


def test_an_archive_in_another_place_than_the_stacks_bucket_is_not_reached_for() -> None:
    places = ("s3://ours", "s3://ours/a", "s3://oursnot", "/home/me")
    reached = {address: reaches("s3://ours", address) for address in places}
    assert reached == {"s3://ours": True, "s3://ours/a": True, "s3://oursnot": False, "/home/me": False}
    assert reaches("/home/me", "/elsewhere")


def test_of_a_bucket_the_event_tells_keys() -> None:
    assert closing._place("s3://b/some/prefix/") == ("b", "some/prefix/")
    assert closing._place("s3://b") == ("b", "")
    assert closing._place("/folder") == ("", "")


async def test_the_summary_is_gone_with_the_crawls_output(fleet: Fleet, janitor: Watched) -> None:
    record = await completed(fleet, janitor)
    await janitor.look()
    await fleet.store.drop(parquet_name(record).removesuffix(".parquet"))
    async with fleet.store.existing(summary_name(record)) as path:
        assert path is None
