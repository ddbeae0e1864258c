"""Fresh queues and tables in the emulator, and what tests do with them besides the state's own methods."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

import msgspec

from crawler.model import Page, Parent, Priority
from crawler.state.aws.records import Message, encode
from crawler.url_key import STANDARD
from crawler.urls import gate_name, hostname, site_name
from tests.emulator import Emulator

KEY = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
}


class Place:
    """Three lanes, a dead-letter queue and two tables of one test, named after it."""

    def __init__(self, emulator: Emulator, lease: int = 30) -> None:
        name = f"t-{uuid.uuid4().hex[:10]}"
        self.sqs, self.dynamodb = emulator.client("sqs"), emulator.client("dynamodb")
        self.high, self.normal, self.low, self.dead = (f"{name}-{lane}" for lane in ("high", "normal", "low", "dead"))
        self.table, self.control = f"{name}-visited", f"{name}-control"
        for queue in (self.high, self.normal, self.low, self.dead):
            self.sqs.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": str(lease)})
        for table in (self.table, self.control):
            self.dynamodb.create_table(TableName=table, **KEY)

    @property
    def address(self) -> str:
        return (
            f"?queue={self.normal}&high={self.high}&low={self.low}&dlq={self.dead}"
            f"&table={self.table}&control={self.control}&bucket=shelf"
        )

    def url(self, queue: str) -> str:
        return str(self.sqs.get_queue_url(QueueName=queue)["QueueUrl"])

    def send(self, body: str, queue: str = "") -> None:
        self.sqs.send_message(QueueUrl=self.url(queue or self.normal), MessageBody=body)

    def depth(self, queue: str = "") -> tuple[int, int, int]:
        """Messages visible, in flight, delayed."""
        names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
        url = self.url(queue or self.normal)
        found = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        visible, in_flight, delayed = (int(found[name]) for name in names)
        return visible, in_flight, delayed

    def items(self, table: str = "") -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.dynamodb.scan(TableName=table or self.table)["Items"]
        return items

    def run(self, crawl: str) -> str:
        """What tells this crawl from others of its name."""
        key = {"pk": {"S": f"#crawl#{crawl}"}}
        return str(self.dynamodb.get_item(TableName=self.control, Key=key)["Item"]["run"]["S"])

    def remove(self) -> None:
        for queue in (self.high, self.normal, self.low, self.dead):
            self.sqs.delete_queue(QueueUrl=self.url(queue))
        for table in (self.table, self.control):
            self.dynamodb.delete_table(TableName=table)


def copy_of(place: Place, url: str, **more: object) -> str:
    """The body of a second message of a page of crawl `c`, or of another crawl given with its run."""
    seed = page(url)
    message = Message(
        crawl="c",
        run=place.run("c"),
        url=url,
        digest=seed.digest.hex(),
        gate=seed.gate,
        depth=0,
        priority=Priority.NORMAL,
        parent="",
        found=time.time(),
    )
    return encode(msgspec.structs.replace(message, **more))


def page(
    url: str,
    parent: Page | None = None,
    *,
    redelivered: bool = False,
    priority: Priority = Priority.NORMAL,
    skip: str = "",
) -> Page:
    """A page as discovery makes it; without parent a seed."""
    host = hostname(url)
    above = Parent(parent.digest, parent.url, redelivered) if parent else None
    site = "" if parent else site_name(host, "host")
    depth = parent.depth + 1 if parent else 0
    return Page(url, STANDARD.digest(url), gate_name(host, "domain"), depth, priority, site, above, skip)


def pages(count: int, parent: Page | None = None, host: str = "site.example") -> list[Page]:
    """Distinct pages of one host."""
    numbers = itertools.count() if parent is None else itertools.count(1_000)
    return [page(f"https://{host}/{number}", parent) for number, _ in zip(numbers, range(count), strict=False)]
