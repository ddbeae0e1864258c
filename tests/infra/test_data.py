"""Queues, tables and bucket as the template has them; what an emulator would not tell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator import Template, of_type, output_id

DAY = 86_400
LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")
TABLES = ("VisitedTable", "ControlTable")


def resource(template: Template, output: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][output_id(template, output)]
    return found


def denied_without_tls(template: Template, policy: str, field: str) -> set[str]:
    """Logical ids of the resources whose policy denies everything to everybody who comes without TLS."""
    denied = set()
    for properties in of_type(template, policy).values():
        for statement in properties["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Deny", "nobody gets a right by a resource policy"
            if statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}:
                assert statement["Principal"] == {"AWS": "*"}
                assert statement["Action"] in ("sqs:*", "s3:*")
                target = properties[field]
                denied.add((target[0] if isinstance(target, list) else target)["Ref"])
    return denied


@pytest.mark.case("F07", "F08")
@pytest.mark.parametrize("lane", LANES)
def test_a_lane_is_a_standard_queue_that_gives_its_dead_letters_time(template: Template, lane: str) -> None:
    queue = resource(template, lane)["Properties"]
    dead = resource(template, "DeadLetters")["Properties"]
    assert "FifoQueue" not in queue
    assert queue["VisibilityTimeout"] == 120
    assert queue["RedrivePolicy"]["maxReceiveCount"] >= 5
    assert queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0] == output_id(template, "DeadLetters")
    # A message keeps its first send time when it is moved.
    assert dead["MessageRetentionPeriod"] == 14 * DAY
    assert queue["MessageRetentionPeriod"] <= 12 * DAY


@pytest.mark.case("F02", "F03")
def test_no_function_takes_messages(template: Template) -> None:
    """Tasks do, so no batch runs out of a function's time, and none fails as a whole for one of its messages."""
    assert not of_type(template, "AWS::Lambda::Function")
    assert not of_type(template, "AWS::Lambda::EventSourceMapping")


def test_every_queue_is_encrypted_polled_long_and_closed_without_tls(template: Template) -> None:
    queues = of_type(template, "AWS::SQS::Queue")
    assert len(queues) == 4
    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())
    assert {queue["ReceiveMessageWaitTimeSeconds"] for queue in queues.values()} == {20}
    assert denied_without_tls(template, "AWS::SQS::QueuePolicy", "Queues") == queues.keys()


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_billed_by_request_and_recoverable_and_survive_the_stack(template: Template, table: str) -> None:
    found = resource(template, table)
    assert found["Properties"]["BillingMode"] == "PAY_PER_REQUEST"
    assert found["Properties"]["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["Properties"]["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    assert found["Properties"]["DeletionProtectionEnabled"] is True
    assert (found["DeletionPolicy"], found["UpdateReplacePolicy"]) == ("Retain", "Retain")


@pytest.mark.case("F12")
def test_facts_expire_and_a_seen_url_never_does(template: Template) -> None:
    control = resource(template, "ControlTable")["Properties"]
    assert control["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert "TimeToLiveSpecification" not in resource(template, "VisitedTable")["Properties"]


def test_the_bucket_is_closed_encrypted_and_survives_the_stack(template: Template) -> None:
    bucket = resource(template, "ArchiveBucket")
    assert set(bucket["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
    encryption = bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption == [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    assert bucket["Properties"]["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("Retain", "Retain")
    closed = denied_without_tls(template, "AWS::S3::BucketPolicy", "Bucket")
    assert closed == {output_id(template, "ArchiveBucket")}


@pytest.mark.case("G08")
def test_unfinished_uploads_go_within_a_week(template: Template) -> None:
    rules = resource(template, "ArchiveBucket")["Properties"]["LifecycleConfiguration"]["Rules"]
    (rule,) = [rule for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert rule["Status"] == "Enabled"
    assert "Prefix" not in rule
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] <= 7
