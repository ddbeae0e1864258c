"""The alarms of functions: the fetchers' and the janitor's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawler.telemetry.names import Fleet
from tests.emulator import Emulator, Template
from tests.functions.events import answered, event
from tests.infra.alarm_evaluation import State
from tests.infra.stacks import full
from tests.infra.watched import LASTING, LOOK, START, Site, Watched
from tests.telemetry.workers import BUDGET, totals

pytestmark = pytest.mark.emulator


@pytest.fixture
def watched(
    emulator: Emulator, template: Template, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """A stack watched as if it had functions; the tests call them."""
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    watched = Watched(emulator, template, watching=full(tmp_path_factory, "lambda"))
    yield watched
    watched.close()


async def test_a_crawl_by_functions_rings_nothing(watched: Watched) -> None:
    async with Site(*[200] * 20, 301, 404) as site, watched.janitor() as janitor:
        await watched.seed(site.url)
        await janitor.look()
        log: list[str] = []
        for messages in (1, 22, 1):  # the seed, what it links to, where that redirects to
            batch = event(watched, messages)
            failed, (*lines, answer) = await watched.call("fetcher_function", batch)
            assert not failed
            assert '"batchItemFailures": []' in answer
            answered(watched, batch, [])
            watched.put_call("FetcherFunction", START + 1, failed=failed)
            watched.put_lasting(lines)
            log += lines
        assert totals(log)[Fleet.PAGES] == 24
        assert sum(len(f"{line}\n") for line in log) <= BUDGET * 24
        (record,) = await janitor.state.crawls()
        assert (await janitor.state.counts(record.id)).done == 24
        for _ in range(int(LASTING / LOOK) - 1):
            assert not (await janitor.look()).faults
    assert {name: set(states) for name, states in watched.states().items()} == {
        name: {State.OK} for name in watched.alarms
    }


async def test_calls_that_fail_again_and_again_ring_function_errors(watched: Watched, emulator: Emulator) -> None:
    await watched.seed("http://127.0.0.1:9/")
    batch = event(watched, 1)
    remove_table(emulator, watched)
    failed, _ = await watched.call("fetcher_function", batch)
    assert failed
    for minute in (0, 6):
        watched.put_call("FetcherFunction", START + 60 * minute, failed=failed)
    assert watched.ringing() == set(), "a page or two"
    watched.put_call("FetcherFunction", START + 60 * 12, failed=failed)
    assert watched.ringing() == {"FunctionErrors"}


async def test_a_recurring_crawl_that_never_began_rings_and_one_that_a_second_call_began_does_not(
    watched: Watched, emulator: Emulator
) -> None:
    event = {"time": "2026-09-21T14:13:20Z"}
    failed, _ = await watched.call("schedule_function", event, CRAWLER_SEEDS_KEY="seeds/daily.txt")
    assert failed, "there is no such object"
    watched.put_call("ScheduleFunction", START, failed=failed)
    emulator.client("s3").put_object(
        Bucket=watched.outputs["ArchiveBucket"], Key="seeds/daily.txt", Body=b"http://127.0.0.1:9/"
    )
    failed, _ = await watched.call("schedule_function", event, CRAWLER_SEEDS_KEY="seeds/daily.txt")
    assert not failed
    watched.put_call("ScheduleFunction", START + 60, failed=failed)
    assert watched.ringing() == set()
    watched.put_dropped("ScheduleFunction", START + 600)
    assert watched.ringing() == {"Schedule"}


async def test_a_janitor_that_nobody_calls_rings(watched: Watched) -> None:
    assert set(watched.states()["Janitor"]) == {State.ALARM}


async def test_a_janitor_that_fails_rings_when_it_goes_on(watched: Watched, emulator: Emulator) -> None:
    looks = [await watched.call("janitor_function", {})]
    remove_table(emulator, watched)
    looks.append(await watched.call("janitor_function", {}))
    (well, _), (ill, _) = looks
    assert (well, ill) == (False, True)
    for number, failed in enumerate([well, well, ill, ill, well, ill, ill, ill, well, well, well, well]):
        watched.put_call("JanitorFunction", START + number * LOOK + 1, failed=failed)
    states = watched.states()["Janitor"]
    assert [number for number, state in enumerate(states) if state is State.ALARM] == [7]


def remove_table(emulator: Emulator, watched: Watched) -> None:
    """Delete a table that every function needs."""
    dynamodb, table = emulator.client("dynamodb"), watched.outputs["ControlTable"]
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
    dynamodb.delete_table(TableName=table)
