"""The archive: WARC segments, page rows and Parquet files."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from crawler.archive.folder import TABLE

CRAWLS = "crawls/*"
TABLES = f"{TABLE}/*"
"""The keys of what crawls leave behind, and of the tables made of it."""


class Archive(Construct):
    """A closed bucket. `days`: the age at which crawls' files and tables expire; 0 = never.

    Not versioned: a file is written once under a key of its own, and a worker that repeats an upload after a crash
    writes the same bytes, which versions would only store and bill twice. Nobody in the stack may delete.
    """

    def __init__(self, scope: Construct, name: str, *, retain: bool, days: int) -> None:
        super().__init__(scope, name)
        # Parts of an upload that nobody finished: no listing shows them, and every bill counts them.
        rules = [
            s3.LifecycleRule(id="abort-unfinished-uploads", abort_incomplete_multipart_upload_after=Duration.days(3))
        ]
        # By prefix: what people put beside, such as the list of a recurring crawl's URLs, is theirs to delete.
        for name, keys in {"crawls": CRAWLS, "tables": TABLES}.items() if days else ():
            rules.append(s3.LifecycleRule(id=f"expire-{name}", prefix=keys.rstrip("*"), expiration=Duration.days(days)))
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=False,
            lifecycle_rules=rules,
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )

    def grant_work(self, worker: iam.IGrantable) -> None:
        """List all objects; read and write those of crawls."""
        iam.Grant.add_to_principal(grantee=worker, actions=["s3:ListBucket"], resource_arns=[self.bucket.bucket_arn])
        self._grant(worker, CRAWLS, "GetObject", "PutObject")

    def grant_publish(self, janitor: iam.IGrantable) -> None:
        """Copy merged files into the table that query engines read."""
        self._grant(janitor, TABLES, "PutObject")

    def grant_read(self, reader: iam.IGrantable, *keys: str) -> None:
        """Read these objects, and be told which of them does not exist: S3 tells only who may list."""
        for key in keys:
            self._grant(reader, key, "GetObject")
        iam.Grant.add_to_principal(grantee=reader, actions=["s3:ListBucket"], resource_arns=[self.bucket.bucket_arn])

    def _grant(self, grantee: iam.IGrantable, keys: str, *actions: str) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=[f"s3:{action}" for action in actions],
            resource_arns=[self.bucket.arn_for_objects(keys)],
        )
