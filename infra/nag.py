"""What cdk-nag's AwsSolutions finds in the stack and is meant to be as it is, each with its reason.

A test runs the checks: no finding without a reason, no reason without a finding. Synth itself does not run them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import Acknowledgment, CfnElement, Stack, Validations
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from infra.archive import Archive
from infra.fargate import Fargate
from infra.function import PythonFunction
from infra.network import Network

NO_ACCESS_LOG = (
    "A log of each request to the bucket would take a second bucket, to be guarded as well, and tell what is known: "
    "only this account's roles get in, and the files are copies of public pages. CloudTrail's data events can do it."
)
NO_FLOW_LOG = (
    "There is no way in, and what goes out is in the archive as pages. A line for each connection of a crawl would be "
    "the largest part of its bill."
)
NO_INSIGHTS = (
    "Workers write their own metrics and ECS those of the service: Container Insights would add dollars a month, and "
    "nothing that the dashboard lacks."
)
NO_SECRETS = "The environment holds names of the stack's parts and paths, and no secret: the task's role is its key."
LOGIN = "ecr:GetAuthorizationToken, the login to the registry, knows no resource. One repository may be pulled from."
FILES = "Keys are made of dates and names of crawls, which nobody knows before. The prefix bounds them."
RUNTIME = "The Python for which the wheels and the bytecode of the assets are built, on whatever machine deploys."


def acknowledge(
    *,
    archive: Archive,
    prefixes: Mapping[iam.IRole, Iterable[str]],
    functions: Iterable[PythonFunction],
    fargate: Fargate | None,
    network: Network | None,
) -> None:
    """`prefixes`: the keys of the archive that a role may read or write, by role."""
    _acknowledge(archive.bucket, "S1", NO_ACCESS_LOG)
    bucket = archive.bucket.node.default_child
    assert isinstance(bucket, CfnElement)
    name = Stack.of(archive).get_logical_id(bucket)
    for role, keys in prefixes.items():
        for key in keys:
            _acknowledge(role, f"IAM5[Resource::<{name}.Arn>/{key}]", FILES)
    for function in functions:
        _acknowledge(function, "L1", RUNTIME)
    if network:
        _acknowledge(network.vpc, "VPC7", NO_FLOW_LOG)
    if fargate:
        _acknowledge(fargate.cluster, "ECS4", NO_INSIGHTS)
        _acknowledge(fargate.service.task_definition, "ECS2", NO_SECRETS)
        _acknowledge(fargate.service.task_definition, "IAM5[Resource::*]", LOGIN)


def _acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """For this construct and its parts."""
    Validations.of(construct).acknowledge(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason))
