"""The frontier: a queue a priority lane, and one for dead letters."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

LANES = ("High", "Normal", "Low")

DEAD_LETTER_RETENTION = Duration.days(14)
LANE_RETENTION = Duration.days(10)
"""A message keeps its first send time when it becomes a dead letter: it stays there for the difference at least."""

LONG_POLL = Duration.seconds(20)


class Frontier(Construct):
    """Standard queues: a FIFO queue would hide all other hosts behind the backlog of one.

    `lanes` by name, best priority first. The visibility timeout is the lease.
    """

    def __init__(self, scope: Construct, name: str, *, lease: int, max_receive_count: int) -> None:
        super().__init__(scope, name)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=DEAD_LETTER_RETENTION,
            receive_message_wait_time=LONG_POLL,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.lanes = {
            lane: sqs.Queue(
                self,
                lane,
                visibility_timeout=Duration.seconds(lease),
                retention_period=LANE_RETENTION,
                receive_message_wait_time=LONG_POLL,
                encryption=sqs.QueueEncryption.SQS_MANAGED,
                enforce_ssl=True,
                dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=max_receive_count),
            )
            for lane in LANES
        }

    def grant_work(self, worker: iam.IGrantable) -> None:
        """Take URLs, put them back later, add new ones, see how many wait. Dead letters are moved by SQS itself."""
        iam.Grant.add_to_principal(
            grantee=worker,
            actions=[
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:GetQueueUrl",
                "sqs:ReceiveMessage",
                "sqs:SendMessage",
            ],
            resource_arns=[lane.queue_arn for lane in self.lanes.values()],
        )
