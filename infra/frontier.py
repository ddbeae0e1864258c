"""The frontier: a queue a priority lane, and one for dead letters."""

from __future__ import annotations

from aws_cdk import Aws, Duration
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
        for queue in (self.dead_letters, *self.lanes.values()):
            for statement in strangers(queue.queue_arn):
                queue.add_to_resource_policy(statement)

    def grant_send(self, sender: iam.IGrantable) -> None:
        """Add URLs."""
        self._grant(sender, "GetQueueAttributes", "GetQueueUrl", "SendMessage")

    def grant_work(self, worker: iam.IGrantable) -> None:
        """Take URLs, put them back later, add new ones, see how many wait. Dead letters are moved by SQS itself."""
        self.grant_send(worker)
        self._grant(worker, "ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage")

    def grant_dead_letters(self, keeper: iam.IGrantable) -> None:
        """Take messages that killed their workers off their queue."""
        iam.Grant.add_to_principal(
            grantee=keeper,
            actions=["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            resource_arns=[self.dead_letters.queue_arn],
        )

    def _grant(self, grantee: iam.IGrantable, *actions: str) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[f"sqs:{action}" for action in actions],
            resource_arns=[lane.queue_arn for lane in self.lanes.values()],
        )


def strangers(queue_arn: str) -> list[iam.PolicyStatement]:
    """Nobody of another account touches a queue, whatever some other statement allows: what is sent is fetched.

    AWS services are no account's. They may act only for this one, which stops an S3 bucket or an SNS topic of somebody
    else from being pointed at the frontier, and still lets those of this account feed it once they are allowed to.
    """
    return [
        _denied(
            queue_arn,
            "NobodyOfAnotherAccount",
            {
                "StringNotEquals": {"aws:PrincipalAccount": Aws.ACCOUNT_ID},
                # A request without a signature has neither key: it is nobody's of this account, and no service.
                "BoolIfExists": {"aws:PrincipalIsAWSService": "false"},
            },
        ),
        _denied(
            queue_arn,
            "NoServiceForAnotherAccount",
            {
                "Bool": {"aws:PrincipalIsAWSService": "true"},
                # All of them name the account, or a resource of it; a bucket's ARN holds no account.
                "StringNotEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                "ArnNotLike": {"aws:SourceArn": f"arn:{Aws.PARTITION}:*:*:{Aws.ACCOUNT_ID}:*"},
            },
        ),
    ]


def _denied(queue_arn: str, sid: str, conditions: dict[str, dict[str, str]]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid,
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["sqs:*"],
        resources=[queue_arn],
        conditions=conditions,
    )
