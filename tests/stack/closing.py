"""How a crawl ends on a deployed stack: the janitor's function looks, an event tells, the archive is a table."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import msgspec
import pyarrow.parquet as pq

from crawler.archive.summary import Summary
from tests import command
from tests.e2e.test_aws import Stack
from tests.emulator import Emulator
from tests.local_site import DemoSite

PATIENCE = 200.0
"""Seconds until a crawl must be at its end."""


class Listener:
    """A queue of the account's own that gets the event of each complete crawl."""

    def __init__(self, emulator: Emulator) -> None:
        self._sqs, events = emulator.client("sqs"), emulator.client("events")
        self._url = self._sqs.create_queue(QueueName="Listener")["QueueUrl"]
        found = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        pattern = {"source": ["crawler"], "detail-type": ["CrawlCompleted"]}
        events.put_rule(Name="Listener", EventPattern=json.dumps(pattern))
        events.put_targets(Rule="Listener", Targets=[{"Id": "queue", "Arn": found["Attributes"]["QueueArn"]}])

    def heard(self) -> list[dict[str, Any]]:
        """What events told, in their details."""
        messages = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(message["Body"])["detail"] for message in messages]


def look(stack: Stack, what: str) -> Any:
    """Call the janitor again and again, as its timer does, until it says that it did something; what it did.

    It must not find pages that are on no queue: who was killed has left them where they come back by themselves.
    """
    seen: list[dict[str, Any]] = []

    def did() -> Any:
        answer = stack.emulator.client("lambda").invoke(FunctionName=stack.outputs["JanitorFunction"])
        told = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, told
        assert told["swept"] == 0, seen
        seen.append(told)
        return told[what]

    return command.wait_for(did, PATIENCE)


def assert_every_page_once(site: DemoSite, stack: Stack) -> None:
    """Ledger, archive and merged rows have each page of the site once, and nothing else was fetched."""
    counts = stack.status()
    assert (counts["state"], counts["exact"]) == ("complete", True)
    assert (counts["pending"], counts["leased"], counts["dead"]) == (0, 0, 0)
    assert counts["done"] == len(site.truth.fetched)
    assert set(site.fetched()) == site.truth.fetched
    verified = stack.run("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    (merged,) = [key for key in stack.objects() if key.startswith("crawls/") and key.endswith(".parquet")]
    rows = rows_of(stack.objects()[merged])
    assert Counter(site.canonical(row["url"]) for row in rows if row["outcome"] == "done") == Counter(
        site.truth.fetched
    )


def assert_told(event: dict[str, Any], stack: Stack, crawl: str) -> None:
    """The event leads to the rows and to their summary, which agree."""
    assert (event["stack"], event["crawl"]) == (stack.name, crawl)
    assert event["bucket"] == stack.outputs["ArchiveBucket"]
    objects = stack.objects()
    summary = msgspec.json.decode(objects[event["summary"]], type=Summary)
    rows = rows_of(objects[event["parquet"]])
    assert event["summary"].replace(".json", ".txt") in objects
    assert summary.faults == ()
    assert summary.totals is not None
    assert summary.totals.outcomes == Counter(row["outcome"] for row in rows)
    assert event["counts"]["done"] == summary.totals.outcomes["done"]


def assert_a_table(event: dict[str, Any], stack: Stack) -> None:
    """Athena finds the crawl's rows where its catalog says that those of the day lie."""
    found = stack.emulator.client("glue").get_table(DatabaseName=stack.outputs["Database"], Name="pages")["Table"]
    day = event["started_at"][:10]
    first, _, last = found["Parameters"]["projection.day.range"].partition(",")
    assert (first <= day, last) == (True, "NOW")
    place = found["Parameters"]["storage.location.template"].replace("${day}", day)
    assert place.startswith(found["StorageDescriptor"]["Location"])
    prefix = place.removeprefix(f"s3://{event['bucket']}/")
    objects = stack.objects()
    (table,) = [body for key, body in objects.items() if key.startswith(prefix)]
    assert [key for key in objects if key.startswith("tables/") and not key.startswith(prefix)] == []
    assert table == objects[event["parquet"]]
    columns = [column["Name"] for column in found["StorageDescriptor"]["Columns"]]
    assert columns == pq.read_schema(io.BytesIO(table)).names


def rows_of(parquet: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(io.BytesIO(parquet)).to_pylist()
    return found
