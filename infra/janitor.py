"""The janitor: looks after all crawls every few minutes, ends those that are complete, and keeps the metrics."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.config import StackConfig
from infra.fargate import Fargate
from infra.function import PythonFunction

MEMORY = 2048
"""MiB: a merge of a million rows, and more than a whole processor."""

DISK = 4096
"""MiB for the rows of a crawl while they are merged."""

LONGEST = 900
"""Seconds, the most that Lambda has. A merge that takes longer is for `crawler merge`."""


class Janitor(PythonFunction):
    """A function and the rule that calls it.

    A call that fails is not repeated: the next one looks at the same things. A merge may outlast the time to the next
    call, and two calls do no harm: who merges a crawl says so in the control table. Reserved concurrency would keep
    them apart, too, but takes from what the account's other functions may use, and a new account has none to give.
    """

    def __init__(
        self, scope: Construct, name: str, *, config: StackConfig, state: str, fargate: Fargate | None
    ) -> None:
        service = {}
        if fargate:
            service = {
                "CRAWLER_CLUSTER": fargate.cluster.cluster_name,
                "CRAWLER_SERVICE": fargate.service.service_name,
            }
        super().__init__(
            scope,
            name,
            kind="janitor",
            entry="janitor_function",
            state=state,
            memory=MEMORY,
            disk=DISK,
            seconds=LONGEST,
            log_days=config.log_days,
            environment=service,
        )
        every = Duration.minutes(config.janitor_minutes)
        self.function.configure_async_invoke(retry_attempts=0, max_event_age=every)
        # A rule needs no role: the function's own policy lets this rule call it, and nobody else.
        events.Rule(
            self,
            "Rule",
            schedule=events.Schedule.rate(every),
            targets=[targets.LambdaFunction(self.function, retry_attempts=0, max_event_age=every)],
        )

    def grant_tell(self) -> None:
        """Tell the account's default event bus that a crawl is complete."""
        iam.Grant.add_to_principal(
            grantee=self.role,
            actions=["events:PutEvents"],
            resource_arns=[f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"],
        )

    def grant_stop(self, fargate: Fargate) -> None:
        """Let a service run no tasks."""
        iam.Grant.add_to_principal(
            grantee=self.role,
            actions=["ecs:UpdateService"],
            resource_arns=[fargate.service.service_arn],
        )
