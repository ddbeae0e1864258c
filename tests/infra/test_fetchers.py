"""The worker's task on Fargate, its network and its scaling as the template has them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from infra.config import StackConfig
from infra.fargate import strategy
from infra.scaling import backlog_steps
from tests.emulator import Template, of_type, output_id
from tests.infra.stacks import own_address, state_of


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
    assert state_of(template, environment) == own_address(template, "fargate")
    del environment["CRAWLER_STATE"]
    assert environment == {
        "CRAWLER_METRICS": "emf",
        "CRAWLER_HEARTBEAT": "/spool/heartbeat",
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
    options = worker(template)["LogConfiguration"]["Options"]
    assert options["mode"] == "non-blocking"
    groups = of_type(template, "AWS::Logs::LogGroup")
    assert options["awslogs-group"]["Ref"] in groups
    assert {group["RetentionInDays"] for group in groups.values()} == {30}


def test_what_a_task_costs_is_found_under_the_stacks_tags(template: Template) -> None:
    assert service(template)["PropagateTags"] == "SERVICE"


@pytest.mark.parametrize(
    ("minutes", "healthy"), [(0, True), (1, True), (4, False), (None, False)], ids=["now", "just now", "long", "never"]
)
def test_a_worker_is_healthy_while_its_heartbeat_is_young(
    template: Template, tmp_path: Path, minutes: int | None, healthy: bool
) -> None:
    check = worker(template)["HealthCheck"]
    kind, command = check["Command"]
    assert kind == "CMD-SHELL"
    heartbeat = tmp_path / "heartbeat"
    if minutes is not None:
        heartbeat.touch()
        then = time.time() - 60 * minutes
        os.utime(heartbeat, (then, then))
    command = command.replace("/spool/heartbeat", str(heartbeat))
    found = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.DEVNULL, check=False)
    assert (found.returncode == 0) is healthy


def test_a_worker_has_time_to_start_and_to_be_slow_before_it_is_replaced(template: Template) -> None:
    check = worker(template)["HealthCheck"]
    assert check["StartPeriod"] >= 60
    assert check["Interval"] * check["Retries"] >= 60


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [("FARGATE_SPOT", None, 1)]),
        ({"on_demand_base": 2}, [("FARGATE", 2, 1), ("FARGATE_SPOT", None, 1000)]),
        ({"spot": False}, [("FARGATE", None, 1)]),
        ({"spot": False, "on_demand_base": 2}, [("FARGATE", None, 1)]),
    ],
)
def test_the_base_is_on_demand_and_the_rest_on_spot(
    settings: dict[str, Any], expected: list[tuple[str, int | None, int]]
) -> None:
    found = strategy(StackConfig(**settings))
    assert [(each.capacity_provider, each.base, each.weight) for each in found] == expected


def test_a_broken_deployment_is_rolled_back(template: Template) -> None:
    breaker = service(template)["DeploymentConfiguration"]["DeploymentCircuitBreaker"]
    assert breaker == {"Enable": True, "Rollback": True}


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
    grow, stop = scaling_alarms(template)
    assert stop["EvaluationPeriods"] == 10
    lanes = {output_id(template, lane) for lane in ("FrontierHigh", "FrontierNormal", "FrontierLow")}
    assert watched(grow) == {(lane, "ApproximateNumberOfMessagesVisible") for lane in lanes}
    assert watched(stop) == {
        (lane, f"ApproximateNumberOfMessages{state}")
        for lane in lanes
        for state in ("Visible", "NotVisible", "Delayed")
    }
    assert steps(template, grow) == [(1, 1, 10_000), (2, 10_000, 20_000), (4, 20_000, 40_000), (8, 40_000, None)]
    assert steps(template, stop) == [(0, None, 0)]


def scaling_alarms(template: Template) -> tuple[dict[str, Any], dict[str, Any]]:
    """The alarm that starts workers, and the one that stops them."""
    policies = of_type(template, "AWS::ApplicationAutoScaling::ScalingPolicy")
    grow, stop = (
        alarm
        for alarm in of_type(template, "AWS::CloudWatch::Alarm").values()
        if alarm["AlarmActions"][0]["Ref"] in policies
    )
    assert (grow["Threshold"], stop["Threshold"]) == (1, 0)
    return grow, stop


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
    found = backlog_steps(most, 5_000)
    assert found[0] == (1, 1)
    assert found[-1][0] == most
    assert found == sorted(set(found))
    assert len(found) <= 20


def test_the_backlog_that_takes_another_worker_can_be_chosen() -> None:
    assert backlog_steps(4, 300) == [(1, 1), (2, 600), (4, 1200)]
