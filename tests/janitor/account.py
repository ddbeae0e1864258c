"""What a stack consists of, in the emulator, as far as the functions use it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.aws.places import Place


class Account(NamedTuple):
    """Queues, tables, a bucket, a service of two tasks, and a queue that gets what the crawler tells of."""

    place: Place
    bucket: str
    address: str
    service: str
    sqs: Any
    s3: Any
    ecs: Any

    def events(self) -> list[dict[str, Any]]:
        """Events that came since the last call."""
        url = self.sqs.get_queue_url(QueueName=self.service)["QueueUrl"]
        bodies = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for body in bodies:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=body["ReceiptHandle"])
        return [json.loads(body["Body"]) for body in bodies]

    def desired(self) -> int:
        (service,) = self.ecs.describe_services(cluster=self.service, services=[self.service])["services"]
        return int(service["desiredCount"])

    def object(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body
