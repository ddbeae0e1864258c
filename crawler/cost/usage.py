"""What a process uses of AWS: requests by operation, and the units in which they are billed.

Counted by events of the client library, each try of a request by itself, for each is billed. At DynamoDB the larger of
two figures counts: what the price rules say of the request (each statement is a unit, refused or not; each key read is
one), and what DynamoDB says that it consumed (ReturnConsumedCapacity, which costs nothing): only it knows the size of
an item that is changed in place, and a refusal says nothing. A request that got no answer counts as sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

CHUNK = 64 * 1024
"""Bytes of a request or an answer that one billed request of SQS covers."""

KILOBYTE = 1024
"""Bytes of an item that one write unit covers."""

FREE = ("Delete", "Abort")
READS = ("Get", "Head", "Select")
"""S3 requests by the beginning of their names: what costs nothing, what costs as a GET. All others cost as a PUT."""

THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
    }
)
"""Codes that say: too many requests."""


class Unit(StrEnum):
    """What is billed, in whole numbers."""

    SQS = "sqs"
    """Requests of 64 KB."""
    FAIR = "fair"
    """Those of them that carry a MessageGroupId."""
    WRITES = "writes"
    """DynamoDB write units."""
    HALF_READS = "half_reads"
    """Halves of DynamoDB read units: an eventually consistent read of 4 KB takes one, a strongly consistent one two."""
    PUTS = "puts"
    """S3 requests in the price class of PUT and LIST."""
    GETS = "gets"
    STORED = "stored"
    """Bytes put to S3."""
    THROTTLED = "throttled"
    """Answers that refused a request, or a part of one, for its rate; that is not billed."""


Units = list[tuple[Unit, int]]


class Usage(msgspec.Struct, frozen=True):
    """Counts since some moment: `requests` by `service.Operation`, `units` by Unit."""

    requests: Mapping[str, int] = {}
    units: Mapping[str, int] = {}

    def __add__(self, other: Usage) -> Usage:
        return Usage(_sum(self.requests, other.requests, 1), _sum(self.units, other.units, 1))

    def __sub__(self, other: Usage) -> Usage:
        return Usage(_sum(self.requests, other.requests, -1), _sum(self.units, other.units, -1))

    def __bool__(self) -> bool:
        return any(self.requests.values()) or any(self.units.values())

    def of(self, service: str) -> int:
        """Requests of one service, as the client library spells it (`sqs`)."""
        return sum(count for name, count in self.requests.items() if name.partition(".")[0] == service)


class Meter:
    """Counts what the clients it watches send."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._units: Counter[str] = Counter()
        self._taken = Usage()

    def watch(self, client: Any) -> None:
        """Count each request of a client from now on."""
        events, service = client.meta.events, client.meta.service_model.service_id.hyphenize()
        events.register(f"before-send.{service}", self._sending)
        events.register(f"response-received.{service}", self._answered)
        if service == "dynamodb":
            events.register(f"before-parameter-build.{service}", _ask)

    def used(self) -> Usage:
        """All since the process began: take two and subtract."""
        return Usage(dict(self._requests), dict(self._units))

    def take(self, more: Usage) -> Usage:
        """What was used and not taken before, and `more`, which the taker is about to use."""
        taken = self.used() + more
        used, self._taken = taken - self._taken, taken
        return used

    def give_back(self, used: Usage) -> None:
        """It can be taken again."""
        self._taken -= used

    def _sending(self, event_name: str, request: Any, **_: object) -> None:
        name = event_name.removeprefix("before-send.")
        self._requests[name] += 1
        body = request.body if isinstance(request.body, bytes) else b""
        for unit, count in of_request(name, body, request.headers):
            self._units[unit] += count

    def _answered(
        self, event_name: str, response_dict: Any, parsed_response: Any, context: dict[str, Any], **_: object
    ) -> None:
        if parsed_response is None:
            return
        body = response_dict["body"]
        size = len(body) if isinstance(body, bytes) else 0
        name = event_name.removeprefix("response-received.")
        for unit, count in of_answer(name, size, parsed_response, context.get(LEAST, 0)):
            self._units[unit] += count


PROCESS = Meter()
"""What this process uses: every client of this package is watched by it."""

LEAST = "crawler.least"
"""Where a request's context keeps what it takes at least."""


def of_request(name: str, body: bytes, headers: Mapping[str, Any]) -> Units:
    """Units of a request to SQS or S3, known when it is sent."""
    service, _, operation = name.partition(".")
    if service == "sqs":
        chunks = _up(len(body), CHUNK)
        fair = operation.startswith("SendMessage") and b'"MessageGroupId"' in body
        return [(Unit.SQS, chunks), (Unit.FAIR, chunks)] if fair else [(Unit.SQS, chunks)]
    if service == "s3" and not operation.startswith(FREE):
        if operation.startswith(READS):
            return [(Unit.GETS, 1)]
        stored = _length(headers) if operation in ("PutObject", "UploadPart") else 0
        return [(Unit.PUTS, 1), (Unit.STORED, stored)]
    return []


def least(operation: str, asked: Mapping[str, Any]) -> int:
    """What a request to DynamoDB takes at least: write units, or halves of read units."""
    match operation:
        case "PutItem" | "UpdateItem" | "DeleteItem":
            return 1
        case "BatchExecuteStatement":
            return len(asked["Statements"])
        case "BatchWriteItem":
            return sum(map(len, asked["RequestItems"].values()))
        case "BatchGetItem":
            return sum(
                (1 + bool(keys.get("ConsistentRead"))) * len(keys["Keys"]) for keys in asked["RequestItems"].values()
            )
        case "GetItem" | "Query" | "Scan":
            return 1 + bool(asked.get("ConsistentRead"))
        case _:
            return 0


def of_answer(name: str, size: int, answer: Mapping[str, Any], at_least: int = 0) -> Units:
    """Units of an answer of `size` bytes. `at_least`: what its request takes by the rules."""
    service, _, operation = name.partition(".")
    if service == "sqs" and size > CHUNK:
        return [(Unit.SQS, _up(size, CHUNK) - 1)]
    if service != "dynamodb":
        return [(Unit.THROTTLED, 1)] if _throttled(answer) else []
    units: Units = [(Unit.THROTTLED, 1)] if _throttled(answer) else []
    if "Error" not in answer:
        told = answer.get("ConsumedCapacity", [])
        capacity = sum(table["CapacityUnits"] for table in (told if isinstance(told, list) else [told]))
        if operation in ("BatchGetItem", "GetItem", "Query", "Scan"):
            units.append((Unit.HALF_READS, max(at_least, round(2 * capacity))))
        else:
            units.append((Unit.WRITES, max(at_least, round(capacity))))
    elif answer["Error"].get("Code") == "ConditionalCheckFailedException":
        # A write that was refused costs as one that was not.
        units.append((Unit.WRITES, max(at_least, _up(_size({"M": answer.get("Item", {})}), KILOBYTE))))
    return units


def _ask(params: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
    """Note what a request takes at least, and have DynamoDB say what it took."""
    context[LEAST] = least(model.name, params)
    if "ReturnConsumedCapacity" in model.input_shape.members:
        params.setdefault("ReturnConsumedCapacity", "TOTAL")


def _throttled(answer: Mapping[str, Any]) -> bool:
    """Whether all or a part of a request was refused for its rate."""
    if answer.get("UnprocessedKeys") or answer.get("UnprocessedItems"):
        return True
    parts = answer.get("Responses")
    errors = [answer.get("Error"), *(part.get("Error") for part in (parts if isinstance(parts, list) else ()))]
    return any(error and error.get("Code") in THROTTLED for error in errors)


def _length(headers: Mapping[str, Any]) -> int:
    """Bytes of an object in a PUT, which may be sent in signed chunks."""
    length = headers.get("X-Amz-Decoded-Content-Length") or headers.get("Content-Length") or 0
    return int(length.decode() if isinstance(length, bytes) else length)


def _size(value: Mapping[str, Any]) -> int:
    """Bytes of an attribute's value, about as DynamoDB counts them."""
    kind, inner = next(iter(value.items()))
    if kind == "M":
        return sum(len(name) + _size(one) for name, one in inner.items())
    if kind == "L":
        return sum(map(_size, inner))
    if kind in ("SS", "NS", "BS"):
        return sum(map(len, inner))
    return len(inner) if isinstance(inner, str | bytes) else 1


def _up(size: int, step: int) -> int:
    """How many steps cover a size; one at least."""
    return max(1, -(-size // step))


def _sum(one: Mapping[str, int], other: Mapping[str, int], sign: int) -> dict[str, int]:
    both = {name: one.get(name, 0) + sign * other.get(name, 0) for name in {**one, **other}}
    return {name: count for name, count in both.items() if count}
