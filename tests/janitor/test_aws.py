"""The janitor's function against the services it uses, in the emulator: one crawl from its seeds to its event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from crawler.archive.stores import open_store
from crawler.archive.summary import Summary
from crawler.archive.verify import verify
from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.entrypoints import functions
from crawler.entrypoints.janitor_function import handler
from crawler.errors import CrawlerError
from crawler.janitor import aws
from crawler.loop import Worker
from crawler.model import Beat, CrawlRecord, Phase, done
from crawler.state.aws.state import AwsState
from crawler.telemetry.names import Ledger, Watch
from tests.aws.places import copy_of, pages
from tests.aws.proxy import Answer, Forward, Proxy
from tests.contract.words import page, parent
from tests.faults.site import Site, small_site
from tests.janitor.account import Account

pytestmark = pytest.mark.emulator


@pytest.fixture
async def state(account: Account) -> AsyncIterator[AwsState]:
    state = await AwsState.open(account.address.removeprefix("aws:"), worker="w")
    yield state
    await state.close()


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 900_000


async def call() -> dict[str, Any]:
    """One call of the function; what it answers fits into JSON."""
    answer = await asyncio.to_thread(handler, {"source": "aws.events"}, Context())
    found: dict[str, Any] = json.loads(json.dumps(answer))
    return found


async def crawl(state: AwsState, site: Site, **more: Any) -> CrawlRecord:
    """Crawl the site with one worker, which leaves when there is nothing left."""
    settings = CrawlSettings(rate=0.0, allow_private=True)
    record = await state.create(CrawlRecord(id="c", started_at=time.time(), settings=settings, **more))
    await state.add("c", [page for seed in site.seeds if (page := seed_page(seed, settings)) is not None])
    worker = Worker(state, state.home, name="w", concurrency=4)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        while (await state.counts("c")).outstanding:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    worker.stop()
    await working
    return record


async def test_a_crawl_from_its_seeds_to_its_event_and_no_workers(
    account: Account, state: AwsState, capsys: pytest.CaptureFixture[str]
) -> None:
    async with small_site() as site:
        record = await crawl(state, site)
        expected = len(site.done), len(site.skipped)
    assert (await call())["running"] == ["c"]
    await state.beat(Beat(worker="another", at=time.time()))
    found = await call()
    assert (found["completed"], found["closed"], found["workers"], found["stopped"]) == (["c"], ["c"], 1, False)
    (event,) = account.events()
    assert (event["source"], event["detail-type"]) == ("crawler", "CrawlCompleted")
    told = event["detail"]
    assert (told["crawl"], told["bucket"]) == ("c", account.bucket)
    assert (told["counts"]["done"], told["counts"]["skipped"]) == expected
    summary = msgspec.json.decode(account.object(told["summary"]), type=Summary)
    rows = pq.read_table(_file(account.object(told["parquet"]))).to_pylist()
    assert summary.totals is not None
    assert summary.totals.rows == len(rows) == sum(expected)
    assert summary.totals.outcomes == {"done": expected[0], "skipped": expected[1]}
    by_status = {str(status) for row in rows if (status := row["status"]) is not None}
    assert set(summary.totals.statuses) == by_status
    assert summary.totals.bytes == sum(row["bytes"] or 0 for row in rows)
    assert [link.url for link in summary.totals.broken_links] == [row["url"] for row in rows if row["status"] == 404]
    assert (summary.faults, summary.counts.exact) == ((), True)
    names = {entry["Key"] for entry in account.s3.list_objects_v2(Bucket=account.bucket)["Contents"]}
    assert told["summary"].replace(".json", ".txt") in names
    assert sum(name.startswith(f"{told['prefix']}warc/") for name in names) == summary.files.warc
    assert account.desired() == 2
    found = await call()
    assert (found["closed"], found["stopped"], account.desired()) == ([], True, 0)
    assert account.events() == []
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stack = {name for line in lines if "Crawl" not in line for name in line}
    assert stack >= {*Ledger, *Watch}
    assert {name for line in lines if line.get("Crawl") == record.id for name in line} >= set(Ledger)


def _file(data: bytes) -> Any:
    import pyarrow as pa

    return pa.BufferReader(data)


async def test_pages_that_no_queue_has_are_queued_again_once_nothing_else_is_there(
    account: Account, state: AwsState, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = CrawlSettings(rate=0.0)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=settings))
    await state.add("c", pages(3))
    account.sqs.purge_queue(QueueUrl=account.place.url(account.place.normal))
    assert (await call())["swept"] == 0
    found = await call()
    assert (found["swept"], found["completed"], found["stalled"]) == (3, [], [])
    assert any(json.loads(line).get("Swept") == 3 for line in capsys.readouterr().out.splitlines())
    assert account.place.depth() == (3, 0, 0)
    account.sqs.purge_queue(QueueUrl=account.place.url(account.place.normal))
    for _ in range(2):  # within an hour all records are not read again
        found = await call()
    assert (found["swept"], found["completed"], found["stalled"]) == (0, [], ["c"])


async def test_counters_that_a_dying_worker_left_short_do_not_keep_a_crawl_open(
    account: Account, state: AwsState
) -> None:
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    await state.add("c", pages(1))
    key = {"pk": {"S": "#crawl#c"}}
    account.place.dynamodb.update_item(
        TableName=account.place.control,
        Key=key,
        UpdateExpression="ADD discovered :n",
        ExpressionAttributeValues={":n": {"N": "2"}},
    )
    account.place.dynamodb.update_item(
        TableName=account.place.table,
        Key={"pk": {"S": account.place.items()[0]["pk"]["S"]}},
        UpdateExpression="SET phase = :p",
        ExpressionAttributeValues={":p": {"S": "d"}},
    )
    account.sqs.purge_queue(QueueUrl=account.place.url(account.place.normal))
    await call()
    assert (await call())["completed"] == ["c"]
    counts = await state.counts("c")
    assert (counts.discovered, counts.done, counts.exact) == (1, 1, True)


async def test_counters_left_short_do_not_keep_a_crawl_open_while_another_is_busy(
    account: Account, state: AwsState, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("c", "busy"):
        await state.create(CrawlRecord(id=name, started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    (page,) = pages(1)
    await state.add("c", [page])
    await state.settle([(lease, done(1)) for lease in await state.claim(10, "c")])
    account.place.dynamodb.update_item(
        TableName=account.place.control,
        Key={"pk": {"S": "#crawl#c"}},
        UpdateExpression="ADD discovered :n",
        ExpressionAttributeValues={":n": {"N": "2"}},
    )
    await state.add("busy", pages(3, host="busy.example"))
    await call()
    found = await call()
    assert (found["completed"], found["stalled"]) == ([], ["busy"])
    ((_, kept),) = functions._opened.items()
    assert isinstance(kept, AwsState)
    monkeypatch.setattr(kept._completion, "_clock", lambda: time.monotonic() + 1_000)
    assert (await call())["completed"] == ["c"]


async def test_the_queues_dead_letters_are_dead_pages_after_a_look(account: Account, state: AwsState) -> None:
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    (poison,) = pages(1)
    await state.add("c", [poison])
    account.sqs.purge_queue(QueueUrl=account.place.url(account.place.normal))
    account.place.send(copy_of(account.place, poison.url), account.place.dead)
    assert (await call())["dead"] == 1
    assert [line.reason async for line in state.ledger("c", Phase.DEAD)] == ["crash"]
    found = await call()
    assert (found["completed"], found["closed"]) == (["c"], ["c"])
    (event,) = account.events()
    (row,) = pq.read_table(_file(account.object(event["detail"]["parquet"]))).to_pylist()
    assert (row["url"], row["outcome"], row["reason"]) == (poison.url, "dead", "crash")
    (record,) = await state.crawls()
    assert (await verify(state, open_store(state.home), record)).faults == []


async def test_links_skipped_on_a_page_that_killed_all_its_workers_have_their_rows(
    account: Account, state: AwsState
) -> None:
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    (poison,) = pages(1)
    await state.add("c", [poison])
    await state.add("c", [page("/deep", parent=parent(poison), depth=1, skip="max-depth")])  # and nobody wrote its row
    account.sqs.purge_queue(QueueUrl=account.place.url(account.place.normal))
    account.place.send(copy_of(account.place, poison.url), account.place.dead)
    await call()
    assert (await call())["closed"] == ["c"]
    (event,) = account.events()
    rows = pq.read_table(_file(account.object(event["detail"]["parquet"]))).to_pylist()
    assert {(row["url"], row["outcome"], row["reason"], row["parent_url"]) for row in rows} == {
        (poison.url, "dead", "crash", None),
        ("http://a.example/deep", "skipped", "max-depth", poison.url),
    }
    summary = msgspec.json.decode(account.object(event["detail"]["summary"]), type=Summary)
    assert summary.faults == ()
    (record,) = await state.crawls()
    assert (await verify(state, open_store(state.home), record)).faults == []


async def test_dead_letters_whose_archive_is_elsewhere_stay_for_whoever_has_it(
    account: Account, state: AwsState, tmp_path: Path
) -> None:
    settings = CrawlSettings(rate=0.0)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=settings, store=str(tmp_path)))
    account.place.send(copy_of(account.place, pages(1)[0].url), account.place.dead)
    with pytest.raises(CrawlerError, match=f"^dead letters: crawl c has its archive in {tmp_path}, out of reach"):
        await call()
    assert account.place.depth(account.place.dead) == (0, 1, 0)
    assert list(tmp_path.iterdir()) == []


async def test_an_archive_elsewhere_is_left_to_whoever_has_it(account: Account, state: AwsState) -> None:
    settings = CrawlSettings(rate=0.0)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=settings, store="/home/me/crawl"))
    for _ in range(2):
        await call()
    (event,) = account.events()
    assert event["detail"]["parquet"] is None
    assert event["detail"]["note"] == (
        f"not merged: its archive is in /home/me/crawl; run crawler merge --state {account.address} --crawl c"
    )
    assert (await open_store(state.home).files("crawls", "")) == []
    assert json.loads(account.object(event["detail"]["summary"]))["note"] == event["detail"]["note"]


async def test_an_event_that_is_refused_is_emitted_by_the_next_look(
    account: Account, state: AwsState, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(_: dict[str, Any], __: Forward) -> Answer:
        return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException", "ErrorMessage": "slow down"}]}

    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings()))
    proxy.on("PutEvents", refused)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EVENTBRIDGE", proxy.endpoint)
    await call()
    with pytest.raises(CrawlerError, match="crawl c: EventBridge refused an event: ThrottlingException slow down"):
        await call()
    assert account.events() == []
    assert (await call())["closed"] == ["c"]
    assert len(account.events()) == 1


async def test_what_aws_does_not_do_is_one_line(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(aws.NotDone, match=r"^AWS did not do it: .*Service not found"):
        await aws.stop(account.service, "nothing")
    monkeypatch.setattr(aws, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(aws.NotDone, match=r"^AWS did not do it: Could not connect"):
        await aws.announce("{}")
