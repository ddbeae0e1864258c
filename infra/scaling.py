"""How many workers: by what waits on the frontier, from zero and back to zero."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.config import StackConfig
from infra.fargate import Fargate
from infra.frontier import Frontier
from infra.metrics import messages

NEWEST = 3
"""Minutes of which one with messages is enough to start workers. The frontier must be empty for longer before they are
stopped, or both would be done at once."""


class Scaling(Construct):
    """Two alarms that move the service's desired count.

    Grow looks at visible messages only: a worker that meets a host whose turn is far away sends the URL back delayed,
    so what stays visible is work that more workers could do. Stop looks at everything that has not ended.
    """

    def __init__(
        self, scope: Construct, name: str, *, config: StackConfig, fargate: Fargate, frontier: Frontier
    ) -> None:
        super().__init__(scope, name)
        self._target = autoscaling.ScalableTarget(
            self,
            "Target",
            service_namespace=autoscaling.ServiceNamespace.ECS,
            resource_id=f"service/{fargate.cluster.cluster_name}/{fargate.service.service_name}",
            scalable_dimension="ecs:service:DesiredCount",
            min_capacity=0,
            max_capacity=config.max_workers,
            role=iam.Role.from_role_arn(
                self,
                "Role",
                f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/aws-service-role/ecs.application-autoscaling.amazonaws.com"
                "/AWSServiceRoleForApplicationAutoScaling_ECSService",
            ),
        )
        grow = self._step("Grow")
        for workers, above in (steps := backlog_steps(config.max_workers, config.backlog_per_worker)):
            following = next((bound for _, bound in steps if bound > above), None)
            # Bounds are distances from the alarm's threshold, which is the first step's.
            grow.add_adjustment(
                adjustment=workers,
                lower_bound=above - steps[0][1],
                upper_bound=None if following is None else following - steps[0][1],
            )
        cloudwatch.Alarm(
            self,
            "Backlog",
            alarm_description="Scaling: URLs wait on the frontier; sets the number of workers",
            metric=messages(frontier, ["Visible"], "messages"),
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            threshold=steps[0][1],
            # Of the newest minutes only some lanes may be reported yet. The step is taken by the largest value.
            datapoints_to_alarm=1,
            evaluation_periods=NEWEST,
        ).add_alarm_action(actions.ApplicationScalingAction(grow))

        stop = self._step("Stop")
        stop.add_adjustment(adjustment=0, upper_bound=0)
        cloudwatch.Alarm(
            self,
            "Idle",
            alarm_description="Scaling: nothing waits, is delayed or is worked on; stops the workers",
            metric=messages(frontier, ["Visible", "NotVisible", "Delayed"], "messages"),
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
            threshold=0,
            evaluation_periods=config.idle_minutes,
        ).add_alarm_action(actions.ApplicationScalingAction(stop))

    def _step(self, name: str) -> autoscaling.StepScalingAction:
        return autoscaling.StepScalingAction(
            self,
            name,
            scaling_target=self._target,
            adjustment_type=autoscaling.AdjustmentType.EXACT_CAPACITY,
            metric_aggregation_type=autoscaling.MetricAggregationType.MAXIMUM,
        )


def backlog_steps(max_workers: int, backlog_per_worker: int) -> list[tuple[int, int]]:
    """(workers, messages from which on there are so many): 1, 2, 4, 8 … up to `max_workers`."""
    counts = [1]
    while counts[-1] < max_workers:
        counts.append(min(counts[-1] * 2, max_workers))
    return [(count, 1 if count == 1 else count * backlog_per_worker) for count in counts]
