"""The archive: WARC segments, page rows and Parquet files."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct


class Archive(Construct):
    """A closed bucket.

    Not versioned: a file is written once under a key of its own, and a worker that repeats an upload after a crash
    writes the same bytes, which versions would only store and bill twice. No worker may delete.
    """

    def __init__(self, scope: Construct, name: str, *, retain: bool) -> None:
        super().__init__(scope, name)
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=False,
            lifecycle_rules=[
                # Parts of an upload that nobody finished: no listing shows them, and every bill counts them.
                s3.LifecycleRule(
                    id="abort-unfinished-uploads", abort_incomplete_multipart_upload_after=Duration.days(3)
                )
            ],
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )

    def grant_work(self, worker: iam.IGrantable) -> None:
        """List, read and write objects."""
        iam.Grant.add_to_principal(grantee=worker, actions=["s3:ListBucket"], resource_arns=[self.bucket.bucket_arn])
        iam.Grant.add_to_principal(
            grantee=worker,
            actions=["s3:GetObject", "s3:PutObject"],
            resource_arns=[self.bucket.arn_for_objects("*")],
        )
