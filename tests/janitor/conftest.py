"""A state on SQLite with a clock that stands still, a fleet and a janitor on it; and an account in the emulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.entrypoints import functions
from crawler.janitor import running
from crawler.state.aws import dead_letters, lanes
from crawler.state.sqlite import SqliteState
from tests.aws.places import Place
from tests.emulator import Emulator
from tests.janitor.account import Account
from tests.janitor.looking import Clock, Fleet, Watched, opened


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked twice is asked at once."""
    monkeypatch.setattr(running, "ASK_AGAIN", 0.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def state(tmp_path: Path, clock: Clock) -> AsyncIterator[SqliteState]:
    state = await opened(tmp_path, clock)
    yield state
    await state.close()


@pytest.fixture
def fleet(state: SqliteState, clock: Clock, tmp_path: Path) -> Fleet:
    return Fleet(state, clock, tmp_path / "out")


@pytest.fixture
def janitor(state: SqliteState, clock: Clock) -> Watched:
    return Watched(state, clock)


@pytest.fixture
def account(emulator: Emulator, process: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    place = Place(emulator)
    name = place.table
    sqs, s3, ecs, events = (emulator.client(service) for service in ("sqs", "s3", "ecs", "events"))
    s3.create_bucket(Bucket=name)
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name=name, EventPattern=json.dumps({"source": ["crawler"], "detail-type": ["CrawlCompleted"]}))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    ecs.create_cluster(clusterName=name)
    ecs.register_task_definition(family=name, containerDefinitions=[{"name": "w", "image": "i", "memory": 64}])
    ecs.create_service(cluster=name, serviceName=name, taskDefinition=name, desiredCount=2)
    address = f"aws:{place.address.replace('bucket=shelf', f'bucket={name}')}"
    monkeypatch.setenv("CRAWLER_STATE", address)
    monkeypatch.setenv("CRAWLER_CLUSTER", name)
    monkeypatch.setenv("CRAWLER_SERVICE", name)
    monkeypatch.setattr(dead_letters, "WAIT", 0)
    monkeypatch.setattr(lanes, "POLL", 0)
    monkeypatch.setattr(lanes, "LONG_POLL", 0)
    yield Account(place, name, address, name, sqs, s3, ecs)
    events.remove_targets(Rule=name, Ids=["queue"])
    events.delete_rule(Name=name)
    place.remove()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a function's process keeps between its calls is the test's own, and closed behind it."""
    opened: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        monkeypatch.setattr(functions, "_runner", runner)
        monkeypatch.setattr(functions, "_opened", opened)
        yield
        for state in opened.values():
            runner.run(state.close())
