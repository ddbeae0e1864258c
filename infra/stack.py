"""The stack: what there is, who may touch what, and what the outside may read of it."""

from __future__ import annotations

from aws_cdk import Aws, CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from crawler.entrypoints.schedule_function import SETTINGS
from infra.alarms import Alarms
from infra.archive import CRAWLS, TABLES, Archive
from infra.athena import Athena
from infra.budget import TAG, Budget
from infra.config import StackConfig
from infra.dashboard import Dashboard
from infra.fargate import Fargate
from infra.frontier import Frontier
from infra.functions import FetcherFunction
from infra.janitor import Janitor
from infra.metrics import CrawlerMetrics
from infra.nag import acknowledge
from infra.network import Network
from infra.queries import Queries
from infra.scaling import Scaling
from infra.schedule import Schedule
from infra.visited import Visited


class CrawlerStack(Stack):
    """Names are generated, so that several stacks live side by side in one account; `aws://STACK` finds them here."""

    def __init__(self, scope: Construct, config: StackConfig) -> None:
        super().__init__(
            scope,
            config.stack_name,
            description="A crawl pipeline: frontier, visited set, archive, fetchers, janitor, dashboard, alarms",
            # Without the rule the template asks for no parameter; `cdk deploy` itself checks that the account is ready.
            synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
            tags={TAG: config.stack_name},
        )
        self.config = config
        self.frontier = Frontier(self, "Frontier", lease=config.visibility, max_receive_count=config.max_receive_count)
        self.visited = Visited(self, "Visited", retain=config.retain_data)
        self.archive = Archive(self, "Archive", retain=config.retain_data, days=config.archive_days)
        state = self._state()
        self.network = Network(self, "Network") if config.on_fargate else None
        self.fargate = (
            Fargate(self, "Fetchers", config=config, state=state, network=self.network) if self.network else None
        )
        self.fetcher = (
            FetcherFunction(self, "Fetcher", config=config, state=state, frontier=self.frontier)
            if config.on_lambda
            else None
        )
        self.janitor = Janitor(self, "Janitor", config=config, state=state, fargate=self.fargate)
        self.schedule = Schedule(self, "Schedule", config=config, state=state) if config.schedule else None
        self.athena = Athena(self, "Athena", archive=self.archive) if config.athena else None
        if config.budget:
            Budget(self, "Budget", dollars=config.budget, email=config.alarm_email, stack_name=config.stack_name)
        if self.fargate:
            Scaling(self, "Scaling", config=config, fargate=self.fargate, frontier=self.frontier)
        self._grant()
        self._watch()
        self._acknowledge()

    def _state(self) -> str:
        """The address under which the stack's own processes open the state. It names the parts, so that nobody asks
        CloudFormation, which has few answers a second for a whole account."""
        lanes = self.frontier.lanes
        parts = {
            "queue": lanes["Normal"].queue_name,
            "high": lanes["High"].queue_name,
            "low": lanes["Low"].queue_name,
            "dlq": self.frontier.dead_letters.queue_name,
            "table": self.visited.table.table_name,
            "control": self.visited.control.table_name,
            "bucket": self.archive.bucket.bucket_name,
            "fetchers": self.config.fetchers,
        }
        return f"aws://{Aws.STACK_NAME}?" + "&".join(f"{name}={value}" for name, value in parts.items())

    def _grant(self) -> None:
        """Who may do what: everything that any role of the stack may do, but for writing to its own log."""
        for fetcher in self._fetcher_roles:
            self.frontier.grant_work(fetcher)
            self.visited.grant_add(fetcher)
            self.archive.grant_work(fetcher)

        janitor = self.janitor.role
        self.frontier.grant_send(janitor)
        self.frontier.grant_dead_letters(janitor)
        self.visited.grant_add(janitor)
        self.visited.grant_read_all(janitor)
        self.archive.grant_work(janitor)
        self.archive.grant_publish(janitor)
        self.janitor.grant_tell()
        if self.fargate:
            self.janitor.grant_stop(self.fargate)

        if self.schedule:
            self.frontier.grant_send(self.schedule.role)
            self.visited.grant_add(self.schedule.role)
            key = self.config.seeds_key
            self.archive.grant_read(self.schedule.role, key, f"{key}{SETTINGS}")

    @property
    def _fetcher_roles(self) -> list[iam.IRole]:
        return [fetchers.role for fetchers in (self.fargate, self.fetcher) if fetchers]

    def _watch(self) -> None:
        metrics = CrawlerMetrics(Aws.STACK_NAME, self.config.janitor_minutes)
        function = self.fetcher.function if self.fetcher else None
        logs = [part.log for part in (self.fargate, self.fetcher, self.janitor, self.schedule) if part]
        alarms = Alarms(
            self,
            "Alarms",
            metrics=metrics,
            frontier=self.frontier,
            function=function,
            janitor=self.janitor.function,
            schedule=self.schedule.function if self.schedule else None,
            email=self.config.alarm_email,
        )
        dashboard = Dashboard(
            self,
            "Watch",
            metrics=metrics,
            frontier=self.frontier,
            visited=self.visited,
            service=self.fargate.service if self.fargate else None,
            function=function,
            janitor=self.janitor.function,
            log_groups=logs,
            alarms=alarms,
        )
        Queries(self, "Queries", log_groups=logs)
        self._outputs(alarms, dashboard)

    def _outputs(self, alarms: Alarms, dashboard: Dashboard) -> None:
        """Names, by which commands and people find the parts."""
        outputs = {
            **{f"Frontier{lane}": queue.queue_name for lane, queue in self.frontier.lanes.items()},
            "DeadLetters": self.frontier.dead_letters.queue_name,
            "VisitedTable": self.visited.table.table_name,
            "ControlTable": self.visited.control.table_name,
            "ArchiveBucket": self.archive.bucket.bucket_name,
            "Lease": str(self.config.visibility),
            "Dashboard": dashboard.dashboard.dashboard_name,
            "AlarmTopic": alarms.topic.topic_name,
            "JanitorFunction": self.janitor.function.function_name,
        }
        if self.fargate:
            outputs["Cluster"] = self.fargate.cluster.cluster_name
            outputs["Service"] = self.fargate.service.service_name
        if self.fetcher:
            outputs["FetcherFunction"] = self.fetcher.function.function_name
        if self.schedule:
            outputs["ScheduleFunction"] = self.schedule.function.function_name
        if self.athena:
            outputs["Database"] = self.athena.database.ref
            outputs["Workgroup"] = self.athena.workgroup.name
        for key, value in outputs.items():
            CfnOutput(self, key, value=value).override_logical_id(key)

    def _acknowledge(self) -> None:
        acknowledge(
            archive=self.archive,
            prefixes={**{role: [CRAWLS] for role in self._fetcher_roles}, self.janitor.role: [CRAWLS, TABLES]},
            functions=[function for function in (self.fetcher, self.janitor, self.schedule) if function],
            fargate=self.fargate,
            network=self.network,
        )
