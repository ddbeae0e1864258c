"""What is used of AWS: units by the price rules, and every request counted as it passes on the wire."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.counting_proxy import CountingProxy
from crawler.archive.s3 import S3Store
from crawler.cost import prices
from crawler.cost.usage import PROCESS, Meter, Unit, Usage, least, of_answer, of_request
from crawler.state.aws.client import Aws, Refused
from tests.aws.conftest import Open
from tests.aws.places import Place, pages
from tests.aws.proxy import Proxy
from tests.emulator import Emulator

KB = 1024


@pytest.mark.parametrize(
    ("name", "body", "units"),
    [
        ("sqs.ReceiveMessage", b"{}", {Unit.SQS: 1}),
        ("sqs.SendMessageBatch", b'{"MessageGroupId": "a"}', {Unit.SQS: 1, Unit.FAIR: 1}),
        ("sqs.SendMessageBatch", b'{"MessageGroupId": "a"}'.ljust(65 * KB), {Unit.SQS: 2, Unit.FAIR: 2}),
        ("sqs.SendMessage", b"{}".ljust(64 * KB), {Unit.SQS: 1}),
        ("s3.PutObject", b"", {Unit.PUTS: 1, Unit.STORED: 7}),
        ("s3.ListObjectsV2", b"", {Unit.PUTS: 1, Unit.STORED: 0}),
        ("s3.GetObject", b"", {Unit.GETS: 1}),
        ("s3.DeleteObjects", b"", {}),
        ("dynamodb.PutItem", b"{}", {}),
        ("cloudformation.DescribeStacks", b"", {}),
    ],
)
def test_units_of_a_request(name: str, body: bytes, units: Mapping[str, int]) -> None:
    assert dict(of_request(name, body, {"Content-Length": b"7"})) == units


@pytest.mark.parametrize(
    ("operation", "asked", "answer", "units"),
    [
        ("PutItem", {}, {}, {Unit.WRITES: 1}),
        ("PutItem", {}, {"ConsumedCapacity": {"CapacityUnits": 3.0}}, {Unit.WRITES: 3}),
        ("UpdateItem", {}, {"Error": {"Code": "ConditionalCheckFailedException"}}, {Unit.WRITES: 1}),
        (
            "UpdateItem",
            {},
            {"Error": {"Code": "ConditionalCheckFailedException"}, "Item": {"a": {"M": {"b": {"S": "x" * 2 * KB}}}}},
            {Unit.WRITES: 3},
        ),
        ("UpdateItem", {}, {"Error": {"Code": "ThrottlingException"}}, {Unit.THROTTLED: 1}),
        (
            "BatchExecuteStatement",
            {"Statements": [{}] * 25},
            {"Responses": [{"Error": {"Code": "DuplicateItem"}}] * 25},
            {Unit.WRITES: 25},
        ),
        (
            "BatchExecuteStatement",
            {"Statements": [{}] * 2},
            {"ConsumedCapacity": [{"CapacityUnits": 3.0}, {"CapacityUnits": 1.0}], "Responses": [{}, {}]},
            {Unit.WRITES: 4},
        ),
        ("BatchGetItem", {"RequestItems": {"a": {"Keys": [{}] * 10}}}, {}, {Unit.HALF_READS: 10}),
        (
            "BatchGetItem",
            {"RequestItems": {"a": {"Keys": [{}] * 10, "ConsistentRead": True}, "b": {"Keys": [{}]}}},
            {"UnprocessedKeys": {"a": {}}},
            {Unit.HALF_READS: 21, Unit.THROTTLED: 1},
        ),
        ("BatchWriteItem", {"RequestItems": {"a": [{}, {}], "b": [{}]}}, {}, {Unit.WRITES: 3}),
        (
            "Scan",
            {"ConsistentRead": True},
            {"ConsumedCapacity": {"CapacityUnits": 128.5}},
            {Unit.HALF_READS: 257},
        ),
    ],
)
def test_units_at_dynamodb(
    operation: str, asked: dict[str, Any], answer: dict[str, Any], units: Mapping[str, int]
) -> None:
    assert dict(of_answer(f"dynamodb.{operation}", 100, answer, least(operation, asked))) == units


def test_a_large_answer_of_sqs_is_several_requests() -> None:
    assert of_answer("sqs.ReceiveMessage", 129 * KB, {}) == [(Unit.SQS, 2)]
    assert of_answer("sqs.ReceiveMessage", 64 * KB, {}) == []


def test_usage_adds_up_and_subtracts_without_leaving_zeros() -> None:
    one, two = Usage({"a.B": 2}, {"x": 1}), Usage({"a.B": 2, "a.C": 1}, {})
    assert one + two == Usage({"a.B": 4, "a.C": 1}, {"x": 1})
    assert not (one + two) - two - one
    assert (two - one).of("a") == 1


def test_what_was_taken_is_not_taken_again_unless_it_is_given_back() -> None:
    meter = Meter()
    fee = Usage({"a.B": 1})
    assert meter.take(fee) == fee
    meter.give_back(fee)
    assert meter.take(Usage()) == Usage()  # the fee was not used after all


def test_dollars_are_the_units_by_the_price_list() -> None:
    used = Usage({}, {Unit.SQS: 10**6, Unit.FAIR: 10**6, Unit.WRITES: 10**6, Unit.HALF_READS: 10**6, Unit.PUTS: 1000})
    assert prices.dollars(used) == pytest.approx({"SQS": 0.5, "DynamoDB": 0.6875, "S3": 0.005})


@pytest.mark.emulator
async def test_what_clients_count_is_what_passes_on_the_wire(
    emulator: Emulator, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    emulator.client("s3").create_bucket(Bucket="counted-here")
    before = PROCESS.used()
    async with CountingProxy(emulator.endpoint) as wire:
        monkeypatch.setenv("AWS_ENDPOINT_URL", wire.endpoint)
        aws = await Aws.connect()
        insert = f"INSERT INTO \"{place.table}\" VALUE {{'pk': ?}}"
        statements = [{"Statement": insert, "Parameters": [{"S": str(n)}]} for n in range(30)]
        await aws.statements(statements)
        await aws.statements(statements[:3])  # refused, and billed
        await aws.items([(place.table, str(n)) for n in range(40)])
        large = {"pk": {"S": "large"}, "text": {"S": "x" * 2500}}
        await aws.ask(aws.dynamodb.put_item(TableName=place.table, Item=large))
        with pytest.raises(Refused):
            await aws.ask(
                aws.dynamodb.put_item(TableName=place.table, Item=large, ConditionExpression="attribute_not_exists(pk)")
            )
        entries: Any = [{"Id": str(n), "MessageBody": "y" * 8000, "MessageGroupId": "g"} for n in range(10)]
        await aws.ask(aws.sqs.send_message_batch(QueueUrl=place.url(place.normal), Entries=entries))
        await aws.ask(aws.sqs.receive_message(QueueUrl=place.url(place.normal), MaxNumberOfMessages=10))
        async for _ in aws.scan(place.table):
            pass
        store = S3Store("counted-here", "p", "s3://counted-here/p")
        await store.check()
        async with store.replace("file") as path:
            path.write_bytes(b"z" * 70_000)
        async with store.existing("file") as path_, store.existing("none") as none:
            assert path_ is not None
            assert none is None
        await aws.close()
        used = PROCESS.used() - before
        passed = sum((call.used for call in wire.calls), Usage())
    assert dict(used.requests) == dict(passed.requests)
    assert dict(used.units) == {unit: count for unit, count in passed.units.items() if count}
    assert used.units[Unit.WRITES] == 30 + 3 + 3 + 1
    assert used.units[Unit.STORED] == 70_000


@pytest.mark.emulator
async def test_each_try_of_a_request_counts_and_a_refusal_for_the_rate_is_told_apart(
    opening: Open, proxy: Proxy
) -> None:
    state = await opening()
    before = PROCESS.used()
    proxy.fail("SendMessageBatch", 400, "RequestThrottled")
    proxy.fail("SendMessageBatch", 500, "InternalError")
    await state.add("c", pages(1))
    used = PROCESS.used() - before
    assert used.requests["sqs.SendMessageBatch"] == 3
    assert used.units[Unit.THROTTLED] == 1


def test_counting_takes_a_fraction_of_what_a_request_takes() -> None:
    class Request:
        body, headers = b"x" * 5000, {"Content-Length": "5000"}

    meter = Meter()
    answer = {"Responses": [{}] * 25, "ConsumedCapacity": [{"TableName": "t", "CapacityUnits": 25.0}]}
    begun = time.process_time()
    for _ in range(2000):
        meter._sending("before-send.dynamodb.BatchExecuteStatement", Request)
        meter._answered("response-received.dynamodb.BatchExecuteStatement", {"body": b"x" * 100}, answer, {})
    assert (time.process_time() - begun) / 2000 < 0.0002
