"""Recurring crawls: begun by a scheduled event, once for each time, however often that is delivered."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from crawler.entrypoints.schedule_function import Unfinished, begin, handler
from crawler.errors import UsageError
from crawler.model import Phase, done
from crawler.state.sqlite import SqliteState
from tests.janitor.account import Account
from tests.janitor.looking import Clock, opened

KEY = "crawls/daily.txt"
SETTINGS = f"{KEY}.settings.json"
AT = 1_790_000_000.0
NAME = "20260921-141320"


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 300_000


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[SqliteState]:
    state = await opened(tmp_path, Clock())
    (tmp_path / "crawls").mkdir()
    yield state
    await state.close()


def put(tmp_path: Path, *lines: str) -> None:
    (tmp_path / KEY).write_text("\n".join(lines) + "\n")


async def urls(state: SqliteState, crawl: str = NAME) -> list[str]:
    return sorted([page.url async for page in state.ledger(crawl)])


async def test_a_crawl_of_the_urls_listed_is_named_after_its_time(state: SqliteState, tmp_path: Path) -> None:
    put(tmp_path, "# daily", "", "https://a.example/", "  https://b.example/x  ")
    assert await begin(state, "", KEY, AT) == {"crawl": NAME, "new": 2, "known": 0, "bad": 0}
    assert await urls(state) == ["https://a.example/", "https://b.example/x"]
    (record,) = await state.crawls()
    assert (record.id, record.started_at, record.settings.rate) == (NAME, AT, 1.0)


async def test_an_event_delivered_twice_begins_no_second_crawl(state: SqliteState, tmp_path: Path) -> None:
    put(tmp_path, "https://a.example/", "https://b.example/")
    await begin(state, "", KEY, AT)
    leases = await state.claim(10)
    await state.settle([(lease, done(1)) for lease in leases])
    assert await state.complete(NAME)
    assert await begin(state, "", KEY, AT) == {"crawl": NAME, "new": 0, "known": 2, "bad": 0}
    (record,) = await state.crawls()
    assert record.completed_at is not None
    assert [page.phase async for page in state.ledger(NAME)] == [Phase.DONE, Phase.DONE]


async def test_a_call_that_was_cut_short_is_made_up_for_by_the_next(state: SqliteState, tmp_path: Path) -> None:
    put(tmp_path, "https://a.example/")
    await begin(state, "", KEY, AT)
    put(tmp_path, "https://a.example/", "https://b.example/")
    assert await begin(state, "", KEY, AT) == {"crawl": NAME, "new": 1, "known": 1, "bad": 0}


async def test_the_next_time_begins_another_crawl_though_the_first_still_runs(
    state: SqliteState, tmp_path: Path
) -> None:
    put(tmp_path, "https://a.example/")
    await begin(state, "", KEY, AT)
    await begin(state, "", KEY, AT + 86_400)
    assert [record.id for record in await state.crawls()] == [NAME, "20260922-141320"]
    first, second = await state.claim(10)
    assert abs(first.start_at - second.start_at) >= 1.0  # one host has one pace, whichever crawl asks it


async def test_a_line_that_is_no_url_is_counted_and_skipped(
    state: SqliteState, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "https://a.example/", "not a url", "ftp://x.example/")
    assert await begin(state, "", KEY, AT) == {"crawl": NAME, "new": 1, "known": 0, "bad": 2}
    assert "not a URL that can be crawled: 'not a url'" in caplog.text


async def test_settings_lie_beside_the_urls(state: SqliteState, tmp_path: Path) -> None:
    put(tmp_path, "https://a.example/")
    (tmp_path / SETTINGS).write_text('{"rate": 0.5, "max_pages": 1000, "include": ["^https://a"]}')
    await begin(state, "", KEY, AT)
    (record,) = await state.crawls()
    assert (record.settings.rate, record.settings.max_pages, record.settings.include) == (0.5, 1000, ("^https://a",))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"rat": 1}', "there is no setting 'rat'"),
        ('{"rate": -1}', "--rate: expected `float` >= 0.0"),
        ('{"include": ["("]}', "--include '(' is not a regular expression"),
        ('{"include": 5}', "a setting is of the wrong type"),
        ('{"user_agent": 5}', "a setting is of the wrong type"),
        ('{"from_crawl": "c"}', "from_crawl: a scheduled crawl revisits no other"),
    ],
)
async def test_settings_that_make_no_sense_begin_nothing(
    state: SqliteState, tmp_path: Path, settings: str, error: str
) -> None:
    put(tmp_path, "https://a.example/")
    (tmp_path / SETTINGS).write_text(settings)
    with pytest.raises(UsageError) as raised:
        await begin(state, "", KEY, AT)
    assert str(raised.value).startswith(f"{SETTINGS}: ")
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)
    assert await state.crawls() == []


async def test_a_list_that_begins_with_a_byte_order_mark_loses_no_url(state: SqliteState, tmp_path: Path) -> None:
    (tmp_path / KEY).write_bytes(b"\xef\xbb\xbfhttps://a.example/\r\nhttps://b.example/\r\n")
    (tmp_path / SETTINGS).write_bytes(b'\xef\xbb\xbf{"rate": 0.5}')
    assert (await begin(state, "", KEY, AT))["new"] == 2
    assert await urls(state) == ["https://a.example/", "https://b.example/"]


async def test_a_list_too_long_for_a_call_is_gone_on_with_by_the_next(state: SqliteState, tmp_path: Path) -> None:
    put(tmp_path, *(f"https://a.example/{number}" for number in range(5)))
    clock = iter([0.0, 0.0, 100.0] * 3).__next__  # two lines a call
    for first in (2, 4):
        with pytest.raises(Unfinished, match=f"^crawl {NAME} has the first {first} URLs of {KEY}: "):
            await begin(state, "", KEY, AT, 50.0, clock)
        assert len(await urls(state)) == first
    assert await begin(state, "", KEY, AT, 50.0, clock) == {"crawl": NAME, "new": 1, "known": 0, "bad": 0}
    assert len(await urls(state)) == 5


@pytest.mark.parametrize("lines", [["# nothing", ""], ["not a url"]])
async def test_without_a_url_nothing_begins(state: SqliteState, tmp_path: Path, lines: list[str]) -> None:
    put(tmp_path, *lines)
    with pytest.raises(UsageError, match=f"{KEY} in .* lists no URL that can be crawled"):
        await begin(state, "", KEY, AT)
    assert await state.crawls() == []


async def test_without_the_object_nothing_begins(state: SqliteState) -> None:
    with pytest.raises(UsageError, match=f"there is no {KEY} in "):
        await begin(state, "", KEY, AT)


@pytest.mark.emulator
def test_the_function_begins_a_crawl_on_its_stack(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLER_SEEDS_KEY", KEY)
    account.s3.put_object(Bucket=account.bucket, Key=KEY, Body=b"https://a.example/\n# no\nhttps://b.example/\n")
    account.s3.put_object(Bucket=account.bucket, Key=SETTINGS, Body=b'{"rate": 2}')
    event = {"source": "aws.events", "detail-type": "Scheduled Event", "time": "2026-09-21T14:13:20Z"}
    answers = [json.loads(json.dumps(handler(event, Context()))) for _ in range(2)]
    assert [answer["crawl"] for answer in answers] == [NAME, NAME]
    assert [(answer["new"], answer["known"]) for answer in answers] == [(2, 0), (0, 2)]


@pytest.mark.emulator
def test_the_function_fails_in_one_line(
    account: Account, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CRAWLER_SEEDS_KEY", KEY)
    events: list[dict[str, Any]] = [{}, {"time": None}, {"time": "soon"}]
    for event in events:
        with pytest.raises(UsageError):
            handler(event, Context())
    with pytest.raises(UsageError):
        handler({"time": "2026-09-21T14:13:20Z"}, Context())
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [
        *["no crawl began: the event has no time: this function is for EventBridge's scheduled events"] * len(events),
        f"no crawl began: there is no {KEY} in s3://{account.bucket}: it is to list the URLs, one a line",
    ]
