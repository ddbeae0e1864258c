"""What AWS requests cost at list price: us-east-1, on demand, 2026. Dollars per million.

Units of DynamoDB are counted from the requests: a write unit an item of at most 1 KB (a failed conditional write
costs one too), half a read unit an item of at most 4 KB read eventually consistent. An item that is larger costs more
than is counted here.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from bench.counting_proxy import Call

SQS_REQUEST = 0.40
SQS_FAIR_QUEUE = 0.10
"""More for a request with a MessageGroupId."""
SQS_CHUNK = 64 * 1024
"""Bytes that one request pays for."""
WRITE_UNIT = 0.625
READ_UNIT = 0.125
S3_WRITE = 5.00
S3_READ = 0.40

_MILLION = 1e6


def dollars(call: Call) -> float:
    """Price of one request; 0 for a service whose requests cost nothing here (CloudFormation)."""
    match call.service:
        case "SQS":
            fair = SQS_FAIR_QUEUE if "MessageGroupId" in str(call.body) else 0.0
            return (SQS_REQUEST + fair) * max(1, ceil(call.size / SQS_CHUNK)) / _MILLION
        case "DynamoDB":
            return (write_units(call) * WRITE_UNIT + read_units(call) * READ_UNIT) / _MILLION
        case "S3":
            return _s3(call.operation) / _MILLION
        case _:
            return 0.0


def write_units(call: Call) -> float:
    """Write units of a DynamoDB request."""
    body = call.body
    match call.operation:
        case "PutItem" | "UpdateItem" | "DeleteItem":
            return 1
        case "BatchWriteItem":
            return sum(len(items) for items in body["RequestItems"].values())
        case "TransactWriteItems":
            return 2 * len(body["TransactItems"])
        case "BatchExecuteStatement":
            return sum(not _selects(statement) for statement in body["Statements"])
        case "ExecuteTransaction":
            return 2 * sum(not _selects(statement) for statement in body["TransactStatements"])
        case "ExecuteStatement":
            return 0 if _selects(body) else 1
        case _:
            return 0


def read_units(call: Call) -> float:
    """Read units of a DynamoDB request; one page of a Query or Scan counts as one item."""
    body = call.body
    match call.operation:
        case "BatchGetItem":
            return sum(_read(keys) * len(keys["Keys"]) for keys in body["RequestItems"].values())
        case "TransactGetItems":
            return 2 * len(body["TransactItems"])
        case "GetItem" | "Query" | "Scan":
            return _read(body)
        case "BatchExecuteStatement":
            return sum(_read(statement) for statement in body["Statements"] if _selects(statement))
        case "ExecuteStatement":
            return _read(body) if _selects(body) else 0
        case _:
            return 0


def _read(options: dict[str, Any]) -> float:
    return 1.0 if options.get("ConsistentRead") else 0.5


def _selects(statement: dict[str, Any]) -> bool:
    return str(statement["Statement"]).lstrip().upper().startswith("SELECT")


def _s3(operation: str) -> float:
    if operation.startswith(("Delete", "Abort")):
        return 0.0
    return S3_WRITE if operation.startswith(("Put", "Post", "Create", "Complete", "Upload", "List")) else S3_READ
