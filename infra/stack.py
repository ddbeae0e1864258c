"""The stack: what there is, who may touch what, and what the outside may read of it."""

from __future__ import annotations

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.archive import Archive
from infra.config import StackConfig
from infra.dashboard import Dashboard
from infra.fetchers import Fetchers
from infra.frontier import Frontier
from infra.network import Network
from infra.scaling import Scaling
from infra.visited import Visited


class CrawlerStack(Stack):
    """Names are generated, so that several stacks live side by side in one account; `aws://STACK` finds them here."""

    def __init__(self, scope: Construct, config: StackConfig) -> None:
        super().__init__(
            scope,
            config.stack_name,
            description="A crawl pipeline: frontier, visited set, archive, fetchers, dashboard",
            # Without the rule the template asks for no parameter; `cdk deploy` itself checks that the account is ready.
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
        )
        frontier = Frontier(self, "Frontier", lease=config.visibility, max_receive_count=config.max_receive_count)
        visited = Visited(self, "Visited", retain=config.retain_data)
        archive = Archive(self, "Archive", retain=config.retain_data)
        network = Network(self, "Network")
        fetchers = Fetchers(self, "Fetchers", config=config, network=network)
        Scaling(self, "Scaling", fetchers=fetchers, frontier=frontier, max_workers=config.max_workers)
        dashboard = Dashboard(self, "Watch", frontier=frontier, visited=visited, fetchers=fetchers)

        frontier.grant_work(fetchers.role)
        visited.grant_work(fetchers.role)
        archive.grant_work(fetchers.role)
        iam.Grant.add_to_principal(
            grantee=fetchers.role, actions=["cloudformation:DescribeStacks"], resource_arns=[self.stack_id]
        )

        outputs = {
            **{f"Frontier{lane}": queue.queue_name for lane, queue in frontier.lanes.items()},
            "DeadLetters": frontier.dead_letters.queue_name,
            "VisitedTable": visited.table.table_name,
            "ControlTable": visited.control.table_name,
            "ArchiveBucket": archive.bucket.bucket_name,
            "Lease": str(config.visibility),
            "Dashboard": dashboard.dashboard.dashboard_name,
            "Cluster": fetchers.cluster.cluster_name,
            "Service": fetchers.service.service_name,
        }
        for key, value in outputs.items():
            CfnOutput(self, key, value=value).override_logical_id(key)
