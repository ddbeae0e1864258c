"""The worker's task, its rights, its network and its scaling as the template has them."""

from __future__ import annotations

from typing import Any

import pytest

from infra.scaling import backlog_steps
from tests.emulator import Template, of_type, output_id


def task(template: Template) -> dict[str, Any]:
    (found,) = of_type(template, "AWS::ECS::TaskDefinition").values()
    assert isinstance(found, dict)
    return found


def worker(template: Template) -> dict[str, Any]:
    (container,) = task(template)["ContainerDefinitions"]
    assert isinstance(container, dict)
    return container


def service(template: Template) -> dict[str, Any]:
    (found,) = of_type(template, "AWS::ECS::Service").values()
    assert isinstance(found, dict)
    return found


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    """What the policies of a role (by logical id) allow."""
    return [
        statement
        for policy in of_type(template, "AWS::IAM::Policy").values()
        if {"Ref": role} in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.case("F16")
def test_the_worker_gets_the_signal_itself_and_two_minutes(template: Template) -> None:
    assert worker(template)["Command"] == ["work"]
    assert "EntryPoint" not in worker(template)
    assert worker(template)["StopTimeout"] == 120


def test_the_worker_is_no_root_and_writes_to_its_spool_alone(template: Template) -> None:
    assert worker(template)["User"] == "10001:10001"
    assert worker(template)["ReadonlyRootFilesystem"] is True
    assert worker(template)["MountPoints"] == [{"ContainerPath": "/spool", "ReadOnly": False, "SourceVolume": "spool"}]
    assert task(template)["Volumes"] == [{"Name": "spool"}]
    assert "Privileged" not in worker(template)


def test_the_worker_opens_its_own_stack(template: Template) -> None:
    environment = {entry["Name"]: entry["Value"] for entry in worker(template)["Environment"]}
    assert environment == {
        "CRAWLER_STATE": "aws://Crawler",
        "AWS_DEFAULT_REGION": {"Ref": "AWS::Region"},
        "TMPDIR": "/spool",
    }
    assert "Secrets" not in worker(template)


def test_the_worker_runs_on_arm_and_spot(template: Template) -> None:
    assert task(template)["RuntimePlatform"] == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}
    assert task(template)["RequiresCompatibilities"] == ["FARGATE"]
    assert service(template)["CapacityProviderStrategy"] == [{"CapacityProvider": "FARGATE_SPOT", "Weight": 1}]
    # Spot must belong to the cluster before the service asks for it.
    (cluster,) = of_type(template, "AWS::ECS::Cluster").values()
    assert cluster["CapacityProviders"] == ["FARGATE", "FARGATE_SPOT"]


@pytest.mark.case("H05")
def test_logs_end_by_themselves_and_never_hold_a_worker_up(template: Template) -> None:
    (group,) = of_type(template, "AWS::Logs::LogGroup").values()
    assert group["RetentionInDays"] == 30
    options = worker(template)["LogConfiguration"]["Options"]
    assert options["mode"] == "non-blocking"
    assert options["awslogs-group"]["Ref"] in of_type(template, "AWS::Logs::LogGroup")


def test_a_broken_deployment_is_rolled_back(template: Template) -> None:
    breaker = service(template)["DeploymentConfiguration"]["DeploymentCircuitBreaker"]
    assert breaker == {"Enable": True, "Rollback": True}


def test_the_worker_may_do_this_and_nothing_else(template: Template) -> None:
    queue, table, bucket = "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::S3::Bucket"
    allowed: dict[str, set[str]] = {}
    for statement in statements(template, task(template)["TaskRoleArn"]["Fn::GetAtt"][0]):
        assert statement["Effect"] == "Allow"
        for action in listed(statement["Action"]):
            for arn in listed(statement["Resource"]):
                allowed.setdefault(action, set()).add(kind_of(template, arn))
    assert allowed == {
        **{
            f"sqs:{action}": {queue}
            for action in (
                "ChangeMessageVisibility",
                "DeleteMessage",
                "GetQueueAttributes",
                "GetQueueUrl",
                "ReceiveMessage",
                "SendMessage",
            )
        },
        **{
            f"dynamodb:{action}": {table}
            for action in (
                "BatchGetItem",
                "PartiQLInsert",
                "PartiQLUpdate",
                "PutItem",
                "Scan",
                "UpdateItem",
            )
        },
        "s3:ListBucket": {bucket},
        **{f"s3:{action}": {f"{bucket}/*"} for action in ("GetObject", "PutObject")},
        "cloudformation:DescribeStacks": {"AWS::StackId"},
    }


def kind_of(template: Template, arn: Any) -> str:
    """Type of the resource of this stack that an ARN names; with `/*` for the objects of a bucket."""
    if "Fn::Join" in arn:
        head, tail = arn["Fn::Join"][1]
        return kind_of(template, head) + str(tail)
    if "Ref" in arn:
        return str(arn["Ref"])
    name, attribute = arn["Fn::GetAtt"]
    assert attribute == "Arn"
    return str(template["Resources"][name]["Type"])


def test_the_worker_has_no_right_to_the_dead_letters(template: Template) -> None:
    dead = {"Fn::GetAtt": [output_id(template, "DeadLetters"), "Arn"]}
    rights = statements(template, task(template)["TaskRoleArn"]["Fn::GetAtt"][0])
    assert not [right for right in rights if dead in listed(right["Resource"])]


def test_no_role_has_a_wildcard_action_and_only_the_registry_login_has_no_resource(template: Template) -> None:
    everywhere = set()
    for name, role in of_type(template, "AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role
        for statement in statements(template, name):
            assert not [action for action in listed(statement["Action"]) if "*" in action]
            if "*" in listed(statement["Resource"]):
                everywhere.update(listed(statement["Action"]))
    assert everywhere == {"ecr:GetAuthorizationToken"}


def test_there_is_a_way_out_and_no_way_in(template: Template) -> None:
    (group,) = of_type(template, "AWS::EC2::SecurityGroup").values()
    assert "SecurityGroupIngress" not in group
    assert not of_type(template, "AWS::EC2::SecurityGroupIngress")
    network = service(template)["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert [g["Fn::GetAtt"][0] for g in network["SecurityGroups"]] == list(of_type(template, "AWS::EC2::SecurityGroup"))
    assert network["AssignPublicIp"] == "ENABLED"
    assert "LoadBalancers" not in service(template)


def test_page_bytes_pass_no_nat_gateway_and_storage_traffic_stays_inside(template: Template) -> None:
    assert not of_type(template, "AWS::EC2::NatGateway")
    assert not of_type(template, "AWS::EC2::EIP")
    endpoints = of_type(template, "AWS::EC2::VPCEndpoint").values()
    assert {endpoint["VpcEndpointType"] for endpoint in endpoints} == {"Gateway"}
    names = sorted(endpoint["ServiceName"]["Fn::Join"][1][-1] for endpoint in endpoints)
    assert names == [".dynamodb", ".s3"]
    tables = of_type(template, "AWS::EC2::RouteTable")
    assert all(len(endpoint["RouteTableIds"]) == len(tables) for endpoint in endpoints)


def test_the_fleet_begins_at_zero_and_stays_within_the_limit(template: Template) -> None:
    assert service(template)["DesiredCount"] == 0
    (target,) = of_type(template, "AWS::ApplicationAutoScaling::ScalableTarget").values()
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 8)
    assert target["ScalableDimension"] == "ecs:service:DesiredCount"


def test_the_backlog_sets_the_workers_and_only_a_frontier_empty_throughout_stops_them(template: Template) -> None:
    alarms = of_type(template, "AWS::CloudWatch::Alarm").values()
    (grow,) = [alarm for alarm in alarms if alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"]
    (stop,) = [alarm for alarm in alarms if alarm["ComparisonOperator"] == "LessThanOrEqualToThreshold"]
    lanes = {output_id(template, lane) for lane in ("FrontierHigh", "FrontierNormal", "FrontierLow")}
    assert watched(grow) == {(lane, "ApproximateNumberOfMessagesVisible") for lane in lanes}
    assert watched(stop) == {
        (lane, f"ApproximateNumberOfMessages{state}")
        for lane in lanes
        for state in ("Visible", "NotVisible", "Delayed")
    }
    assert steps(template, grow) == [(1, 1, 10_000), (2, 10_000, 20_000), (4, 20_000, 40_000), (8, 40_000, None)]
    assert steps(template, stop) == [(0, None, 0)]


def watched(alarm: dict[str, Any]) -> set[tuple[str, str]]:
    """(logical id of the queue, metric) of everything that an alarm adds up."""
    (expression,) = [entry["Expression"] for entry in alarm["Metrics"] if "Expression" in entry]
    stats = {entry["Id"]: entry["MetricStat"]["Metric"] for entry in alarm["Metrics"] if "MetricStat" in entry}
    assert expression == " + ".join(f"FILL({name}, 0)" for name in stats)
    return {(metric["Dimensions"][0]["Value"]["Fn::GetAtt"][0], metric["MetricName"]) for metric in stats.values()}


def steps(template: Template, alarm: dict[str, Any]) -> list[tuple[int, int | None, int | None]]:
    """(workers, from this many messages, to below that many) of the policy that an alarm drives."""
    (action,) = alarm["AlarmActions"]
    policy = template["Resources"][action["Ref"]]["Properties"]["StepScalingPolicyConfiguration"]
    assert policy["AdjustmentType"] == "ExactCapacity"

    def absolute(step: dict[str, int], bound: str) -> int | None:
        return step[bound] + alarm["Threshold"] if bound in step else None

    return [
        (
            step["ScalingAdjustment"],
            absolute(step, "MetricIntervalLowerBound"),
            absolute(step, "MetricIntervalUpperBound"),
        )
        for step in policy["StepAdjustments"]
    ]


@pytest.mark.parametrize("most", [1, 2, 3, 8, 1000])
def test_steps_rise_to_the_limit_and_fit_into_one_policy(most: int) -> None:
    found = backlog_steps(most)
    assert found[0] == (1, 1)
    assert found[-1][0] == most
    assert found == sorted(set(found))
    assert len(found) <= 20
