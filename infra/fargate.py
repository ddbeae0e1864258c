"""Fetchers on Fargate: `crawler work`, as many as the backlog wants, none when there is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from aws_cdk import Aws, Duration, Size
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ecr_assets as ecr_assets
from aws_cdk import aws_ecs as ecs
from constructs import Construct

from infra.config import StackConfig
from infra.log import log_group
from infra.network import Network

USER = "10001:10001"
"""User and group of the image. The same numbers stand in the Dockerfile."""

SPOOL = "/spool"
"""For temporary files; the only place a worker can write to. On Fargate a volume belongs to root unless the Dockerfile
declares the same path as a VOLUME, which then gives it its owner."""

HEARTBEAT = f"{SPOOL}/heartbeat"
"""Touched by a worker's loop every few seconds."""

_ALIVE = f'test -n "$(find {HEARTBEAT} -mmin -2)"'
"""True when the loop turned within two minutes. No Python is started for it: on half a processor that would cost a page
or two each time."""

_HEAVIEST = 1000
"""The largest weight. Beyond the base, one of a thousand and one tasks is on demand: ECS does not promise to fill the
base of a provider whose weight is 0."""

_ECR_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.[a-z.]+/(?P<name>[^:@]+)[:@]?(?P<tag>.*)"
)


class Fargate(Construct):
    """An ECS service. Grant rights to `role`."""

    def __init__(self, scope: Construct, name: str, *, config: StackConfig, state: str, network: Network) -> None:
        super().__init__(scope, name)
        self.cluster = ecs.Cluster(self, "Cluster", vpc=network.vpc)
        # On the cluster itself: an association of its own could come after the service that needs it, or go before it.
        cast(ecs.CfnCluster, self.cluster.node.default_child).capacity_providers = ["FARGATE", "FARGATE_SPOT"]
        self.log = log_group(self, config.log_days)
        task = self._task(config, state)
        self.role = task.task_role
        self.service = ecs.FargateService(
            self,
            "Service",
            cluster=self.cluster,
            task_definition=task,
            # A deployment starts from nothing, too: workers finish and store what they hold when they are told to stop,
            # and the backlog starts new ones within a minute or two.
            desired_count=0,
            min_healthy_percent=0,
            max_healthy_percent=200,
            capacity_provider_strategies=strategy(config),
            circuit_breaker=ecs.DeploymentCircuitBreaker(rollback=True),
            # On unless told otherwise: ECS would stop workers in the middle of their pages, for a balance among zones
            # that Spot upsets again and again. A worker is worth as much in one as in another.
            availability_zone_rebalancing=ecs.AvailabilityZoneRebalancing.DISABLED,
            # What a task costs is found under the stack's own tags.
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
            assign_public_ip=True,
            security_groups=[network.outbound_only],
        )

    def _task(self, config: StackConfig, state: str) -> ecs.FargateTaskDefinition:
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=config.cpu,
            memory_limit_mib=config.memory,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64, operating_system_family=ecs.OperatingSystemFamily.LINUX
            ),
            volumes=[ecs.Volume(name="spool")],
        )
        worker = task.add_container(
            "Worker",
            image=self._image(config.image),
            # A list, so that no shell stands between ECS and the worker and eats its SIGTERM.
            command=["work"],
            environment={
                "CRAWLER_STATE": state,
                "CRAWLER_METRICS": "emf",
                "CRAWLER_HEARTBEAT": HEARTBEAT,
                "AWS_DEFAULT_REGION": Aws.REGION,
                "TMPDIR": SPOOL,
            },
            # ECS replaces a worker that hangs. Its URLs come back by themselves when their leases end.
            health_check=ecs.HealthCheck(
                command=["CMD-SHELL", _ALIVE],
                interval=Duration.seconds(30),
                timeout=Duration.seconds(5),
                retries=3,
                start_period=Duration.seconds(60),
            ),
            user=USER,
            readonly_root_filesystem=True,
            stop_timeout=Duration.seconds(120),
            logging=ecs.LogDrivers.aws_logs(
                stream_prefix="work",
                log_group=self.log,
                # A slow log must not stop a crawl: lines beyond the buffer are dropped.
                mode=ecs.AwsLogDriverMode.NON_BLOCKING,
                max_buffer_size=Size.mebibytes(4),
            ),
        )
        worker.add_mount_points(ecs.MountPoint(container_path=SPOOL, source_volume="spool", read_only=False))
        return task

    def _image(self, uri: str) -> ecs.ContainerImage:
        """The image at `uri`, or the repository's own: synth only hashes its files, `cdk deploy` builds it."""
        if not uri:
            return ecs.ContainerImage.from_asset(
                str(Path(__file__).parents[1]), platform=ecr_assets.Platform.LINUX_ARM64
            )
        private = _ECR_URI.fullmatch(uri)
        if private is None:
            return ecs.ContainerImage.from_registry(uri)
        repository = ecr.Repository.from_repository_attributes(
            self,
            "Image",
            repository_name=private["name"],
            repository_arn=f"arn:{Aws.PARTITION}:ecr:{private['region']}:{private['account']}:repository/{private['name']}",
        )
        return ecs.ContainerImage.from_ecr_repository(repository, private["tag"] or "latest")


def strategy(config: StackConfig) -> list[ecs.CapacityProviderStrategy]:
    """Where tasks run: the first `on_demand_base` on demand, the rest on Spot; all on demand without `spot`."""
    if not config.spot:
        return [ecs.CapacityProviderStrategy(capacity_provider="FARGATE", weight=1)]
    if not config.on_demand_base:
        return [ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=1)]
    return [
        ecs.CapacityProviderStrategy(capacity_provider="FARGATE", base=config.on_demand_base, weight=1),
        ecs.CapacityProviderStrategy(capacity_provider="FARGATE_SPOT", weight=_HEAVIEST),
    ]
