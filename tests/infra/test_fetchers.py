"""The worker's task on Fargate and its network as the template has them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from infra.config import StackConfig
from infra.fargate import strategy
from tests.emulator import Template, of_type
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


def test_no_worker_is_stopped_for_the_balance_among_zones(template: Template) -> None:
    """Without the property ECS does that."""
    assert service(template)["AvailabilityZoneRebalancing"] == "DISABLED"


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
