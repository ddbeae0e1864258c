"""A function of this project: Python on ARM, with a role, a log and nothing else of its own."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration, Size
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.assets import PYTHON, Kind, code
from infra.log import log_group


class PythonFunction(Construct):
    """Runs `crawler.entrypoints.<entry>.handler` of an asset on the state at an address. Grant rights to `role`.

    In no VPC: it reaches the web and AWS by itself, without a NAT gateway or endpoints.

    Its log is JSON for the sake of the system's level: START, END and REPORT of each call are not stored, failures of
    the runtime and timeouts are. What the handler prints is stored as it is, so metrics in the embedded format stay
    that. Python's own log records become JSON.
    """

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        kind: Kind,
        entry: str,
        state: str,
        memory: int,
        seconds: int,
        log_days: int,
        disk: int = 512,
        environment: Mapping[str, str] | None = None,
        feeds_itself: bool = False,
    ) -> None:
        """`memory` and `disk` in MiB, `seconds` the longest call. `feeds_itself`: its messages make it run again."""
        super().__init__(scope, name)
        self.role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.log = log_group(self, log_days)
        # Not the managed policy: it would write to, and create, every log group of the account.
        self.log.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            runtime=PYTHON,
            architecture=lambda_.Architecture.ARM_64,
            code=code(kind),
            handler=f"crawler.entrypoints.{entry}.handler",
            role=self.role,
            memory_size=memory,
            ephemeral_storage_size=Size.mebibytes(disk),
            timeout=Duration.seconds(seconds),
            environment={
                "CRAWLER_STATE": state,
                "CRAWLER_METRICS": "emf",
                "TMPDIR": "/tmp",  # noqa: S108
                **(environment or {}),
            },
            log_group=self.log,
            logging_format=lambda_.LoggingFormat.JSON,
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            recursive_loop=lambda_.RecursiveLoop.ALLOW if feeds_itself else None,
        )
