"""Pages that end because the queue gave them up have a row in the archive before they end, whoever ends them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from crawler.archive.deaths import DeathRows
from crawler.archive.folder import PAGES, crawl_folder, parquet_name
from crawler.archive.merge import merge
from crawler.archive.stores import Store, open_store
from crawler.archive.verify import verify
from crawler.config import CrawlSettings
from crawler.errors import StoreUnavailable
from crawler.loop import Worker
from crawler.model import CrawlRecord, Lease, Phase, Verdict, done
from crawler.state.aws.state import AwsState
from tests import command
from tests.aws.conftest import Open
from tests.aws.places import Place, copy_of, page, pages
from tests.aws.proxy import Answer, Dropped, Forward, Proxy
from tests.emulator import Emulator
from tests.servers import Peer, reply, serve

pytestmark = pytest.mark.usefixtures("impatient")

LEASE = 3
"""Seconds that a message is out of sight once somebody received it."""


@pytest.fixture
def bucket(place: Place, emulator: Emulator) -> str:
    """A bucket that is the stack's, as the address names it."""
    emulator.client("s3").create_bucket(Bucket=place.table)
    return place.table


@pytest.fixture
def address(place: Place, bucket: str) -> str:
    return f"aws:{place.address.replace('bucket=shelf', f'bucket={bucket}')}"


def brief(place: Place) -> None:
    """Messages come back soon after those who received them died."""
    place.sqs.set_queue_attributes(QueueUrl=place.url(place.normal), Attributes={"VisibilityTimeout": str(LEASE)})


async def given_up(state: AwsState, place: Place) -> str:
    """A page, found on another one, whose message is among the dead letters; its URL."""
    (parent,) = pages(1)
    (poison,) = pages(1, parent)
    await state.add("c", [parent])
    (lease,) = await state.claim(5)
    await state.add("c", [poison])
    (message,) = place.sqs.receive_message(QueueUrl=place.url(place.normal))["Messages"]
    place.sqs.delete_message(QueueUrl=place.url(place.normal), ReceiptHandle=message["ReceiptHandle"])
    place.send(message["Body"], place.dead)
    await state.settle([(lease, done())])
    return poison.url


async def rows_of(store: Store, crawl: CrawlRecord) -> list[dict[str, Any]]:
    """The merged rows."""
    await merge(store, crawl)
    async with store.existing(parquet_name(crawl)) as path:
        assert path is not None
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows


async def faults_of(state: AwsState, store: Store) -> list[str]:
    """What verify finds, but for the parent, of which no test here writes a row."""
    record = next(crawl for crawl in await state.crawls() if crawl.id == "c")
    report = await verify(state, store, record)
    return [fault for fault in report.faults if "/0 is done but has no row" not in fault]


async def dead_of(state: AwsState, crawl: str = "c") -> list[str]:
    return [page.url async for page in state.ledger(crawl) if page.phase is Phase.DEAD]


@pytest.mark.parametrize(
    "arguments",
    [("dead", "list", "--crawl", "c", "--store"), ("sweep",), ("work", "--until-complete")],
    ids=["dead list", "sweep", "work"],
)
async def test_a_command_that_ends_dead_letters_writes_their_rows(
    opening: Open, place: Place, emulator: Emulator, address: str, bucket: str, arguments: tuple[str, ...]
) -> None:
    home = f"s3://{bucket}"
    if arguments[-1] == "--store":
        home += "/elsewhere"
        arguments = (*arguments, home)
    state = await opening()
    url = await given_up(state, place)
    ended = await asyncio.to_thread(command.run, *arguments, env={**emulator.environment, "CRAWLER_STATE": address})
    assert ended.returncode == 0, ended.stderr
    assert await dead_of(state) == [url]
    (record,) = await state.crawls()
    store = open_store(home)
    (row,) = await rows_of(store, record)
    assert (row["url"], row["url_key"], row["host"]) == (url, url, "site.example")
    assert (row["outcome"], row["reason"], row["attempts"], row["status"]) == ("dead", "crash", 1, None)
    assert (row["depth"], row["parent_url"]) == (1, "https://site.example/0")
    assert row["error"].startswith("received 1 times")
    assert row["discovered_at"] is not None
    assert row["fetched_at"] is not None
    assert await faults_of(state, store) == []


async def test_whoever_is_killed_between_row_and_end_leaves_a_row_too_many(
    opening: Open, place: Place, address: str, bucket: str, proxy: Proxy, emulator: Emulator
) -> None:
    brief(place)
    state = await opening(write_rows=DeathRows(f"s3://{bucket}"))
    url = await given_up(state, place)
    ending, gone = asyncio.Event(), asyncio.Event()

    async def never(_: dict[str, Any], __: Forward) -> Answer:
        ending.set()
        await gone.wait()
        raise Dropped

    proxy.on("BatchExecuteStatement", never)
    env = {**emulator.environment, "CRAWLER_STATE": address, "AWS_ENDPOINT_URL_DYNAMODB": proxy.endpoint}
    killed = await asyncio.to_thread(command.start, "dead", "list", env=env)
    await asyncio.wait_for(ending.wait(), 60)
    killed.kill()
    await asyncio.to_thread(killed.communicate)
    gone.set()
    (record,) = await state.crawls()
    store = open_store(f"s3://{bucket}")
    assert len(await store.files(crawl_folder(record), PAGES)) == 1
    assert await dead_of(state) == []
    await until_drained(state, 1)
    assert await dead_of(state) == [url]
    assert len(await store.files(crawl_folder(record), PAGES)) == 2
    (row,) = await rows_of(store, record)
    assert (row["url"], row["error"].split(",")[0]) == (url, "received 2 times")
    assert await faults_of(state, store) == []


async def until_drained(state: AwsState, count: int) -> None:
    """Drain until so many pages have ended: their messages come back when they do."""
    deadline = time.monotonic() + 30
    ended = 0
    while ended < count:
        assert time.monotonic() < deadline
        ended += await state.drain_dead_letters()


async def test_the_row_is_durable_before_the_page_has_ended_and_its_message_goes_last(
    opening: Open, place: Place, tmp_path: Path
) -> None:
    seen: list[tuple[list[str], tuple[int, int, int]]] = []
    write = DeathRows(str(tmp_path))

    async def watched(crawl: CrawlRecord, home: str, endings: Sequence[tuple[Lease, Verdict]]) -> None:
        await write(crawl, home, endings)
        seen.append((await dead_of(state), place.depth(place.dead)))

    state = await opening(write_rows=watched)
    url = await given_up(state, place)
    assert await state.drain_dead_letters() == 1
    assert seen == [([], (0, 1, 0))]
    assert (await dead_of(state), place.depth(place.dead)) == ([url], (0, 0, 0))


async def test_many_dead_letters_make_few_files_and_two_processes_at_once_each_their_own(
    opening: Open, place: Place, tmp_path: Path
) -> None:
    states = [await opening(name, write_rows=DeathRows(str(tmp_path))) for name in ("one", "two")]
    added = pages(60)
    await states[0].add("c", added)
    for each in added:
        place.send(copy_of(place, each.url), place.dead)
    assert sum(await asyncio.gather(*(state.drain_dead_letters() for state in states))) == 60
    (record,) = await states[0].crawls()
    store = open_store(str(tmp_path))
    assert 1 <= len(await store.files(crawl_folder(record), PAGES)) <= 4
    assert not list(tmp_path.rglob("*.open"))
    assert {row["url"] for row in await rows_of(store, record)} == {page.url for page in added}
    assert await faults_of(states[0], store) == []


async def test_where_an_archive_refuses_the_messages_stay_and_other_crawls_do_not_wait(
    opening: Open, place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brief(place)
    state = await opening(write_rows=DeathRows())
    fits, refuses = tmp_path / "fits", tmp_path / "refuses"
    refuses.touch()  # no folder can be there
    for name, store in (("fits", fits), ("refuses", refuses)):
        settings = CrawlSettings(rate=0)
        await state.create(CrawlRecord(id=name, started_at=time.time(), settings=settings, store=str(store)))
        (poison,) = pages(1, host=f"{name}.example")
        await state.add(name, [poison])
        place.send(copy_of(place, poison.url, crawl=name, run=place.run(name)), place.dead)
    with pytest.raises(StoreUnavailable, match=rf"^cannot write to {refuses}.*") as error:
        await state.drain_dead_letters()
    assert "\n" not in str(error.value)
    assert await dead_of(state, "fits") == ["https://fits.example/0"]
    assert await dead_of(state, "refuses") == []
    visible, in_flight, _ = place.depth(place.dead)
    assert visible + in_flight == 1
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        deadline = time.monotonic() + 30
        while not caplog.messages:
            assert time.monotonic() < deadline
            assert [page async for page in state.ledger("refuses", Phase.DEAD)] == []
    assert caplog.messages == [f"dead letters stay on their queue: {error.value}"]
    refuses.unlink()
    await until_drained(state, 1)
    record = next(crawl for crawl in await state.crawls() if crawl.id == "refuses")
    (row,) = await rows_of(open_store(str(refuses)), record)
    assert (row["url"], row["outcome"]) == ("https://refuses.example/0", "dead")
    assert not list(tmp_path.rglob("*.open"))


async def test_a_redirect_that_no_message_could_carry_is_no_page_without_a_row(
    opening: Open, place: Place, tmp_path: Path
) -> None:
    async def answer(peer: Peer) -> None:
        while head := await peer.request():
            asked = head.split(b" ")[1].decode().removeprefix("/")
            if asked.isdigit():
                await peer.send(reply(b"", f"Location: /{'x' * int(asked)}", status="301 Moved Permanently"))
            else:
                await peer.send(reply(b"", status="404 Not Found"))

    state = await opening(allow_private=True)
    async with serve(answer) as server:
        seeds = [page(f"{server.address}/{length}") for length in (9_000, 70_000, 150_000)]
        await state.add("c", seeds)
        await Worker(state, str(tmp_path), name="w", until_complete=True).run()
    (record,) = await state.crawls()
    store = open_store(str(tmp_path))
    ended = sorted((len(row["url"]), row["outcome"], row["reason"]) for row in await rows_of(store, record))
    assert [outcome for _, outcome, _ in ended] == ["done", "done", "done", "skipped"]
    assert (ended[-1][0] > 9_000, ended[-1][2]) == (True, "url-too-long")
    assert (await verify(state, store, record)).faults == []


async def test_a_store_that_is_none_or_not_named_is_said() -> None:
    crawl = CrawlRecord(id="c", started_at=0.0, settings=CrawlSettings())
    with pytest.raises(StoreUnavailable, match=r"^crawl c names no store"):
        await DeathRows()(crawl, "", [])
    with pytest.raises(StoreUnavailable, match=r"^crawl c names no store"):
        await DeathRows("/data", "another")(crawl, "", [])
    with pytest.raises(StoreUnavailable, match=r"^crawl c: --store 'ftp://x' is of no known form"):
        await DeathRows("ftp://x")(crawl, "s3://home", [])
    with pytest.raises(StoreUnavailable, match=r"^crawl c has its archive in /data, out of reach"):
        await DeathRows("/data", at_home=True)(crawl, "s3://home", [])


def test_every_entry_point_opens_its_state_so_that_rows_are_written() -> None:
    folder = Path(__file__).parents[2] / "crawler" / "entrypoints"
    opening = {file.name for file in folder.glob("*.py") if "open_state" in file.read_text()}
    assert opening == {"opening.py"}
