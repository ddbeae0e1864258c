"""The synthesized template goes through CloudFormation into the emulator."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.emulator import Emulator, Template, unsupported

pytestmark = pytest.mark.emulator

LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")
ALWAYS = {
    *LANES,
    "DeadLetters",
    "VisitedTable",
    "ControlTable",
    "ArchiveBucket",
    "Lease",
    "Dashboard",
    "AlarmTopic",
    "JanitorFunction",
}
"""Outputs of every stack."""


@pytest.fixture(scope="module")
def outputs(emulator: Emulator, template: Template) -> dict[str, str]:
    return emulator.deploy(template, "Deployed")


def queue_url(emulator: Emulator, name: str) -> str:
    return str(emulator.client("sqs").get_queue_url(QueueName=name)["QueueUrl"])


def attributes(emulator: Emulator, name: str) -> dict[str, str]:
    answer: dict[str, dict[str, str]] = emulator.client("sqs").get_queue_attributes(
        QueueUrl=queue_url(emulator, name), AttributeNames=["All"]
    )
    return answer["Attributes"]


def test_only_scaling_and_saved_queries_are_left_out_of_the_deployment(template: Template) -> None:
    left_out = {template["Resources"][name]["Type"] for name in unsupported(template)}
    assert left_out == {
        "AWS::ApplicationAutoScaling::ScalableTarget",
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        "AWS::CloudWatch::Alarm",
        "AWS::Logs::QueryDefinition",
    }


def test_outputs_name_what_a_worker_opens(outputs: dict[str, str]) -> None:
    assert set(outputs) == {*ALWAYS, "Cluster", "Service"}
    assert outputs["Lease"] == "120"
    assert not [value for value in outputs.values() if "/" in value or ":" in value], "names, not URLs or ARNs"


@pytest.mark.parametrize("lane", LANES)
def test_a_lane_leases_for_two_minutes_and_redrives_to_the_dead_letters(
    emulator: Emulator, outputs: dict[str, str], lane: str
) -> None:
    found = attributes(emulator, outputs[lane])
    assert found["VisibilityTimeout"] == outputs["Lease"]
    assert found["ReceiveMessageWaitTimeSeconds"] == "20"
    redrive = json.loads(found["RedrivePolicy"])
    assert redrive["deadLetterTargetArn"] == attributes(emulator, outputs["DeadLetters"])["QueueArn"]
    assert int(redrive["maxReceiveCount"]) == 10


def test_a_message_is_sent_received_and_hidden_for_its_lease(emulator: Emulator, outputs: dict[str, str]) -> None:
    sqs = emulator.client("sqs")
    url = queue_url(emulator, outputs["FrontierHigh"])
    sqs.send_message(QueueUrl=url, MessageBody='{"url": "https://example.com/"}')
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == '{"url": "https://example.com/"}'
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize("table", ["VisitedTable", "ControlTable"])
def test_tables_have_a_string_key_and_take_a_conditional_insert_once(
    emulator: Emulator, outputs: dict[str, str], table: str
) -> None:
    dynamodb = emulator.client("dynamodb")
    found = dynamodb.describe_table(TableName=outputs[table])["Table"]
    assert found["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert found["AttributeDefinitions"] == [{"AttributeName": "pk", "AttributeType": "S"}]
    insert: dict[str, Any] = {
        "TableName": outputs[table],
        "Item": {"pk": {"S": "once"}},
        "ConditionExpression": "attribute_not_exists(pk)",
    }
    dynamodb.put_item(**insert)
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(**insert)


def test_the_bucket_takes_an_object(emulator: Emulator, outputs: dict[str, str]) -> None:
    s3 = emulator.client("s3")
    s3.put_object(Bucket=outputs["ArchiveBucket"], Key="crawls/a", Body=b"bytes")
    assert s3.get_object(Bucket=outputs["ArchiveBucket"], Key="crawls/a")["Body"].read() == b"bytes"


def test_the_service_starts_no_task_by_itself(emulator: Emulator, outputs: dict[str, str]) -> None:
    (service,) = emulator.client("ecs").describe_services(cluster=outputs["Cluster"], services=[outputs["Service"]])[
        "services"
    ]
    assert (service["desiredCount"], service["runningCount"]) == (0, 0)


def test_an_update_of_the_lease_keeps_the_queues_and_their_messages(emulator: Emulator, template: Template) -> None:
    before = emulator.deploy(template, "Updated")
    sqs = emulator.client("sqs")
    url = queue_url(emulator, before["FrontierNormal"])
    sqs.send_message(QueueUrl=url, MessageBody="https://example.com/")

    changed = copy.deepcopy(template)
    for resource in changed["Resources"].values():
        if "RedrivePolicy" in resource.get("Properties", {}):
            resource["Properties"]["VisibilityTimeout"] = 300
    changed["Outputs"]["Lease"]["Value"] = "300"
    after = emulator.deploy(changed, "Updated")

    assert after == before | {"Lease": "300"}
    assert attributes(emulator, after["FrontierNormal"])["VisibilityTimeout"] == "300"
    assert sqs.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "https://example.com/"


def test_deleting_the_stack_keeps_the_data_and_nothing_else(emulator: Emulator, template: Template) -> None:
    outputs = emulator.deploy(template, "Deleted")
    emulator.client("s3").put_object(Bucket=outputs["ArchiveBucket"], Key="kept", Body=b"bytes")
    emulator.delete("Deleted")

    for table in ("VisitedTable", "ControlTable"):
        found = emulator.client("dynamodb").describe_table(TableName=outputs[table])["Table"]
        assert found["TableStatus"] == "ACTIVE"
    assert emulator.client("s3").get_object(Bucket=outputs["ArchiveBucket"], Key="kept")["Body"].read() == b"bytes"
    sqs = emulator.client("sqs")
    for queue in (*LANES, "DeadLetters"):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            sqs.get_queue_url(QueueName=outputs[queue])
    dashboards = emulator.client("cloudwatch").list_dashboards()["DashboardEntries"]
    assert outputs["Dashboard"] not in [entry["DashboardName"] for entry in dashboards]


def test_two_stacks_live_side_by_side(emulator: Emulator, template: Template, outputs: dict[str, str]) -> None:
    other = emulator.deploy(template, "Beside")
    shared = {key for key in outputs if outputs[key] == other[key]}
    assert shared == {"Lease"}
