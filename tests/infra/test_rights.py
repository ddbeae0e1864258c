"""Each role of the stack: what it may do, and to what. Nothing else."""

from __future__ import annotations

import pytest

from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import full, listed, rights, role_of_function, statements

QUEUE, DEAD, TABLE, BUCKET = "AWS::SQS::Queue", "dead letters", "AWS::DynamoDB::Table", "AWS::S3::Bucket"

SEND = {f"sqs:{action}": {QUEUE} for action in ("GetQueueAttributes", "GetQueueUrl", "SendMessage")}
TAKE = {f"sqs:{action}": {QUEUE} for action in ("ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage")}
ADD = {
    f"dynamodb:{action}": {TABLE}
    for action in ("BatchGetItem", "PartiQLInsert", "PartiQLUpdate", "PutItem", "UpdateItem")
}
SCAN = {"dynamodb:Scan": {TABLE}}
FILES = {"s3:ListBucket": {BUCKET}, **{f"s3:{action}": {f"{BUCKET}/crawls/*"} for action in ("GetObject", "PutObject")}}
LOG = {f"logs:{action}": {"AWS::Logs::LogGroup"} for action in ("CreateLogStream", "PutLogEvents")}

FETCHER = {**SEND, **TAKE, **ADD, **FILES}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return full(tmp_path_factory, "both")


def task_role(template: Template, kind: str) -> str:
    (task,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    return str(task[kind]["Fn::GetAtt"][0])


def test_a_task_and_a_function_that_fetch_may_do_the_same(both: Template) -> None:
    assert rights(both, task_role(both, "TaskRoleArn")) == FETCHER
    # Its log is written by the function itself, a task's by ECS.
    assert rights(both, role_of_function(both, "FetcherFunction")) == {**FETCHER, **LOG}


def test_the_janitor_sends_but_takes_no_url_and_stops_this_service_alone(both: Template) -> None:
    bus = "arn:AWS::Partition:events:AWS::Region:AWS::AccountId:event-bus/default"
    assert rights(both, role_of_function(both, "JanitorFunction")) == {
        **SEND,
        "sqs:GetQueueUrl": {QUEUE, DEAD},
        "sqs:ReceiveMessage": {DEAD},
        "sqs:DeleteMessage": {DEAD},
        **ADD,
        **SCAN,
        **FILES,
        "s3:PutObject": {f"{BUCKET}/crawls/*", f"{BUCKET}/tables/pages/*"},
        "events:PutEvents": {bus},
        "ecs:UpdateService": {"AWS::ECS::Service"},
        **LOG,
    }


def test_pages_whose_turns_are_far_may_be_put_aside_by_whoever_adds_pages(both: Template) -> None:
    """They lie in the control table, many in an item, and are written as records are. Only a crawl that is paced, or
    paused, has any: a quick one in an emulator would never miss these rights."""
    control = {"Fn::GetAtt": [output_id(both, "ControlTable"), "Arn"]}
    functions = [role_of_function(both, f"{name}Function") for name in ("Fetcher", "Janitor", "Schedule")]
    for role in (task_role(both, "TaskRoleArn"), *functions):
        allowed = {
            action.removeprefix("dynamodb:")
            for statement in statements(both, role)
            if control in listed(statement["Resource"])
            for action in listed(statement["Action"])
        }
        assert allowed - {"Scan"} == {action.removeprefix("dynamodb:") for action in ADD}
        # The janitor finds them again should the message be lost that is to bring them back.
        assert ("Scan" in allowed) is (role == role_of_function(both, "JanitorFunction"))


def test_a_schedule_reads_its_one_object_and_adds(both: Template) -> None:
    assert rights(both, role_of_function(both, "ScheduleFunction")) == {
        **SEND,
        **ADD,
        "s3:GetObject": {f"{BUCKET}/seeds/daily.txt", f"{BUCKET}/seeds/daily.txt.settings.json"},
        "s3:ListBucket": {BUCKET},
        **LOG,
    }


def test_what_starts_tasks_pulls_one_image_and_writes_one_log(both: Template) -> None:
    allowed = rights(both, task_role(both, "ExecutionRoleArn"))
    assert allowed.pop("ecr:GetAuthorizationToken") == {"*"}
    images = {f"ecr:{action}" for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer")}
    assert allowed.keys() == images | LOG.keys()
    assert {action: allowed[action] for action in LOG} == LOG
    for action in images:
        (image,) = allowed[action]
        assert ":repository/cdk-hnb659fds-container-assets-" in image


def test_without_tasks_the_janitor_may_stop_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    template = full(tmp_path_factory, "lambda")
    allowed = rights(template, role_of_function(template, "JanitorFunction"))
    assert not [action for action in allowed if action.startswith("ecs:")]


def test_no_role_has_a_managed_policy_or_a_wildcard_action_and_only_the_registry_login_has_no_resource(
    both: Template,
) -> None:
    everywhere = set()
    roles = of_type(both, "AWS::IAM::Role")
    assert len(roles) == 5
    for name, role in roles.items():
        assert "ManagedPolicyArns" not in role
        assert "Policies" not in role
        for statement in statements(both, name):
            assert not [action for action in listed(statement["Action"]) if "*" in action]
            if "*" in listed(statement["Resource"]):
                everywhere.update(listed(statement["Action"]))
    assert everywhere == {"ecr:GetAuthorizationToken"}


def test_functions_are_called_by_their_own_rule_alone(both: Template) -> None:
    permissions = of_type(both, "AWS::Lambda::Permission").values()
    rules = of_type(both, "AWS::Events::Rule")
    assert {permission["SourceArn"]["Fn::GetAtt"][0] for permission in permissions} == rules.keys()
    for permission in permissions:
        assert (permission["Principal"], permission["Action"]) == ("events.amazonaws.com", "lambda:InvokeFunction")
        rule = rules[permission["SourceArn"]["Fn::GetAtt"][0]]
        assert [target["Arn"] for target in rule["Targets"]] == [permission["FunctionName"]]
