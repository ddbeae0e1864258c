"""The queue's side of a function: events as Lambda makes them of messages, and what it does with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tests.emulator import ACCOUNT, REGION

Event = dict[str, Any]


class Queues(Protocol):
    """Queues by name, and a client."""

    sqs: Any
    normal: str

    def url(self, queue: str) -> str: ...


def event(place: Queues, most: int = 1_000, queue: str = "") -> Event:
    """An event of the messages that wait on a queue, which are in flight from now on."""
    queue = queue or place.normal
    records: list[dict[str, Any]] = []
    while len(records) < most:
        answer = place.sqs.receive_message(
            QueueUrl=place.url(queue),
            MaxNumberOfMessages=min(10, most - len(records)),
            AttributeNames=["ApproximateReceiveCount"],
        )
        if not answer.get("Messages"):
            break
        records += [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
                "awsRegion": REGION,
            }
            for message in answer["Messages"]
        ]
    return {"Records": records}


def answered(place: Queues, event: Event, staying: Sequence[str]) -> None:
    """What Lambda does after an answer: all messages that do not stay are deleted."""
    for record in event["Records"]:
        if record["messageId"] not in staying:
            queue = record["eventSourceARN"].rpartition(":")[2]
            place.sqs.delete_message(QueueUrl=place.url(queue), ReceiptHandle=record["receiptHandle"])


def failed(place: Queues, event: Event) -> None:
    """The visibility timeout of an event's messages is over."""
    for record in event["Records"]:
        queue = record["eventSourceARN"].rpartition(":")[2]
        place.sqs.change_message_visibility(
            QueueUrl=place.url(queue), ReceiptHandle=record["receiptHandle"], VisibilityTimeout=0
        )
