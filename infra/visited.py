"""The visited set, and what the fleet shares besides: crawls, counters, host gates, facts."""

from __future__ import annotations

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct


class Visited(Construct):
    """Two tables on demand, with a partition key and nothing else.

    Visited items live as long as their crawl, for a URL once seen is never unseen. In `control` host gates, facts and
    signs of life go stale and carry their end in `ttl` (Unix seconds). DynamoDB is late by up to days in removing them,
    so readers look at the time themselves.
    """

    def __init__(self, scope: Construct, name: str, *, retain: bool) -> None:
        super().__init__(scope, name)
        self.table = self._table("Table", retain, ttl=None)
        self.control = self._table("Control", retain, ttl="ttl")

    def _table(self, name: str, retain: bool, *, ttl: str | None) -> dynamodb.Table:
        return dynamodb.Table(
            self,
            name,
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=ttl,
            # Keys owned by DynamoDB: a key in KMS would be billed by request and protects from nobody who is in scope.
            encryption=dynamodb.TableEncryption.DEFAULT,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=retain,
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )

    def grant_add(self, seeder: iam.IGrantable) -> None:
        """What adds URLs also takes and finishes them. Records, and pages whose turns are far, are written by PartiQL,
        many in a request; what else the fleet shares one by one."""
        many = ("BatchGetItem", "PartiQLInsert", "PartiQLUpdate")
        _grant(seeder, self.table, *many)
        _grant(seeder, self.control, *many, "PutItem", "UpdateItem")

    def grant_read_all(self, janitor: iam.IGrantable) -> None:
        """Read every record, which decides whether a crawl is complete, and every page whose turn is far, which nobody
        would come back to were the message lost that is to fetch it."""
        for table in (self.table, self.control):
            _grant(janitor, table, "Scan")


def _grant(grantee: iam.IGrantable, table: dynamodb.Table, *actions: str) -> None:
    iam.Grant.add_to_principal(
        grantee=grantee, actions=[f"dynamodb:{action}" for action in actions], resource_arns=[table.table_arn]
    )
