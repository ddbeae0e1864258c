"""Where log lines go, and for how long."""

from __future__ import annotations

from typing import cast

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs
from constructs import Construct


def log_group(scope: Construct, days: int) -> logs.LogGroup:
    """A log group of `scope`'s own that forgets lines after `days` and goes with the stack."""
    group = logs.LogGroup(scope, "Log", removal_policy=RemovalPolicy.DESTROY)
    # The number itself: the library has a word for each that CloudWatch takes, and `logDays` is one of the numbers.
    cast(logs.CfnLogGroup, group.node.default_child).retention_in_days = days
    return group
