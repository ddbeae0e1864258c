"""Queues, tables and bucket as the template has them; what an emulator would not tell."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import FULL, full

DAY = 86_400
LANES = ("FrontierHigh", "FrontierNormal", "FrontierLow")
TABLES = ("VisitedTable", "ControlTable")


def resource(template: Template, output: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][output_id(template, output)]
    return found


def denied(template: Template, policy: str, field: str, condition: dict[str, Any]) -> set[str]:
    """Logical ids of the resources whose policy denies everything to everybody under a condition."""
    found = set()
    for properties in of_type(template, policy).values():
        for statement in properties["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Deny", "nobody gets a right by a resource policy"
            if statement["Condition"] == condition:
                assert statement["Principal"] == {"AWS": "*"}
                assert statement["Action"] in ("sqs:*", "s3:*")
                target = properties[field]
                found.add((target[0] if isinstance(target, list) else target)["Ref"])
    return found


WITHOUT_TLS = {"Bool": {"aws:SecureTransport": "false"}}
ACCOUNT = {"Ref": "AWS::AccountId"}


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


def test_every_queue_is_encrypted_polled_long_and_closed_without_tls(template: Template) -> None:
    queues = of_type(template, "AWS::SQS::Queue")
    assert len(queues) == 4
    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())
    assert {queue["ReceiveMessageWaitTimeSeconds"] for queue in queues.values()} == {20}
    assert denied(template, "AWS::SQS::QueuePolicy", "Queues", WITHOUT_TLS) == queues.keys()


@pytest.mark.parametrize(
    "strangers",
    [
        {
            "StringNotEquals": {"aws:PrincipalAccount": ACCOUNT},
            "BoolIfExists": {"aws:PrincipalIsAWSService": "false"},
        },
        {
            "Bool": {"aws:PrincipalIsAWSService": "true"},
            "StringNotEquals": {"aws:SourceAccount": ACCOUNT},
            "ArnNotLike": {
                "aws:SourceArn": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":*:*:", ACCOUNT, ":*"]]}
            },
        },
    ],
    ids=["somebody of another account, or nobody", "a service that acts for another account"],
)
def test_every_queue_is_closed_to(template: Template, strangers: dict[str, Any]) -> None:
    queues = of_type(template, "AWS::SQS::Queue")
    assert denied(template, "AWS::SQS::QueuePolicy", "Queues", strangers) == queues.keys()


def test_a_queues_policy_is_about_that_queue(template: Template) -> None:
    for policy in of_type(template, "AWS::SQS::QueuePolicy").values():
        (queue,) = policy["Queues"]
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Resource"] == {"Fn::GetAtt": [queue["Ref"], "Arn"]}


def test_every_topic_takes_messages_by_tls_alone(template: Template) -> None:
    topics = of_type(template, "AWS::SNS::Topic")
    closed = {
        policy["Topics"][0]["Ref"]
        for policy in of_type(template, "AWS::SNS::TopicPolicy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if (statement["Effect"], statement["Condition"]) == ("Deny", WITHOUT_TLS)
    }
    assert closed == topics.keys()


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
    closed = denied(template, "AWS::S3::BucketPolicy", "Bucket", WITHOUT_TLS)
    assert closed == {output_id(template, "ArchiveBucket")}


@pytest.mark.case("G08")
def test_unfinished_uploads_go_within_a_week(template: Template) -> None:
    rules = resource(template, "ArchiveBucket")["Properties"]["LifecycleConfiguration"]["Rules"]
    (rule,) = [rule for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert rule["Status"] == "Enabled"
    assert "Prefix" not in rule
    assert rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] <= 7


def test_crawls_and_tables_expire_at_the_age_that_was_chosen_and_by_default_never(
    template: Template, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def ages(template: Template) -> dict[str, int]:
        rules = resource(template, "ArchiveBucket")["Properties"]["LifecycleConfiguration"]["Rules"]
        return {rule.get("Prefix", ""): rule["ExpirationInDays"] for rule in rules if "ExpirationInDays" in rule}

    assert ages(template) == {}
    days = ages(full(tmp_path_factory, "both"))
    assert days.pop("athena-results/") < FULL["archiveDays"]
    assert days == {"crawls/": FULL["archiveDays"], "tables/pages/": FULL["archiveDays"]}
    # The list of a recurring crawl is read again and again, and written once.
    assert not any(FULL["seedsKey"].startswith(prefix) for prefix in days)


def test_nothing_but_the_data_outlives_the_stack(tmp_path_factory: pytest.TempPathFactory) -> None:
    template = full(tmp_path_factory, "both")
    kept = {name for name, found in template["Resources"].items() if found.get("DeletionPolicy") == "Retain"}
    assert kept == {output_id(template, output) for output in (*TABLES, "ArchiveBucket")}
