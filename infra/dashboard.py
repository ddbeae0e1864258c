"""The dashboard: a row a question, each beginning with how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from crawler.telemetry.names import Fleet, Ledger, Watch
from infra import reading
from infra.alarms import DEAD_SHARE, ERROR_SHARE, OLDEST, Alarms
from infra.frontier import Frontier
from infra.metrics import MINUTE, CrawlerMetrics, math, messages, table_sums
from infra.visited import Visited

COLUMNS = 24
_TEXT_WIDTH = 6
_HEIGHT = 6
_A_LINE = 3
"""Graphs beside each other; a row that has more takes another line."""

Metrics = Sequence[cloudwatch.IMetric]


class Dashboard(Construct):
    """One dashboard a stack. `service` is what fetches on Fargate, `function` what fetches on Lambda; either may be
    absent, and then nothing of it is shown. `log_groups` are those of the fetchers."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        metrics: CrawlerMetrics,
        frontier: Frontier,
        visited: Visited,
        service: ecs.FargateService | None,
        function: lambda_.IFunction | None,
        janitor: lambda_.IFunction,
        log_groups: Sequence[logs.ILogGroup],
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, name)
        self._metrics = metrics
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(3),
            # The titles say "a minute": over longer ranges the periods are not to grow by themselves.
            period_override=cloudwatch.PeriodOverride.INHERIT,
        )
        self._alarms(alarms)
        self._moving(frontier)
        self._polite()
        self._healthy(frontier, janitor)
        self._workers(service, function)
        self._table(visited)
        self._cost(log_groups)

    def _alarms(self, alarms: Alarms) -> None:
        self.dashboard.add_widgets(
            cloudwatch.TextWidget(markdown=reading.ALARMS, width=_TEXT_WIDTH, height=4),
            cloudwatch.AlarmStatusWidget(alarms=alarms.all, title="Alarms", width=COLUMNS - _TEXT_WIDTH, height=4),
        )

    def _moving(self, frontier: Frontier) -> None:
        fleet, seen = self._metrics.fleet, self._metrics.seen
        self._row(
            reading.MOVING,
            {
                "Frontier (messages)": _lines(
                    messages(frontier, ["Visible"], "waiting"),
                    messages(frontier, ["NotVisible"], "in flight"),
                    messages(frontier, ["Delayed"], "delayed"),
                ),
                "Answers a minute": _stack(
                    fleet(Fleet.ANSWERED_2XX, "2xx"),
                    fleet(Fleet.ANSWERED_3XX, "3xx"),
                    fleet(Fleet.ANSWERED_4XX, "4xx"),
                    fleet(Fleet.ANSWERED_5XX, "5xx"),
                ),
                "New links and finished pages a minute": _lines(
                    fleet(Fleet.DISCOVERED, "new links"),
                    fleet(Fleet.PAGES, "finished"),
                    fleet(Fleet.SKIPPED, "skipped"),
                    fleet(Fleet.DEAD, "dead"),
                ),
                "Running crawls (pages)": _lines(
                    seen(Ledger.PENDING, "to do"),
                    seen(Ledger.DONE, "done"),
                    seen(Ledger.SKIPPED, "skipped"),
                    seen(Ledger.PROGRESS, "since the last look"),
                ),
                "To do, by crawl": _lines(self._metrics.by_crawl(Ledger.PENDING)),
                "Bytes a minute": _lines(fleet(Fleet.BYTES, "bodies")),
            },
        )

    def _polite(self) -> None:
        fleet = self._metrics.fleet
        self._row(
            reading.POLITE,
            {
                "Latency (ms)": _lines(
                    fleet(Fleet.LATENCY, "half are faster", statistic="p50"),
                    fleet(Fleet.LATENCY, "95 % are faster", statistic="p95"),
                ),
                "Hosts held back": _lines(fleet(Fleet.HOSTS_HELD, "hosts of one worker", statistic="Maximum")),
                "Not fetched now (pages a minute)": _lines(
                    fleet(Fleet.DEFERRED, "given back"), fleet(Fleet.ROBOTS_BLOCKED, "blocked by robots.txt")
                ),
            },
        )

    def _healthy(self, frontier: Frontier, janitor: lambda_.IFunction) -> None:
        fleet, seen = self._metrics.fleet, self._metrics.seen
        pages, retried, died = fleet(Fleet.PAGES), fleet(Fleet.RETRIED), fleet(Fleet.DEAD)
        dead = frontier.dead_letters.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=MINUTE, label="messages that kill workers"
        )
        taken = frontier.dead_letters.metric_number_of_messages_received(
            statistic="Sum", period=MINUTE, label="taken by the janitor"
        )
        self._row(
            reading.HEALTHY,
            {
                "Failures (%)": _lines(
                    math(
                        "100 * FILL(retried, 0) / (pages + FILL(retried, 0))",
                        {"pages": pages, "retried": retried},
                        "attempts to be repeated",
                    ),
                    math("100 * FILL(dead, 0) / pages", {"pages": pages, "dead": died}, "pages dead"),
                    marks={ERROR_SHARE: "alarm: failed attempts", DEAD_SHARE: "alarm: pages dead"},
                ),
                "Dead letters": _lines(dead, taken, seen(Ledger.DEAD, "dead pages of running crawls")),
                "Oldest message (seconds)": _lines(
                    *(
                        queue.metric_approximate_age_of_oldest_message(
                            statistic="Maximum", period=MINUTE, label=lane.lower()
                        )
                        for lane, queue in frontier.lanes.items()
                    ),
                    marks={OLDEST.to_seconds(): "alarm"},
                ),
                "Trouble, at each look of the janitor": _lines(
                    seen(Watch.STALLED, "stalled"),
                    seen(Watch.WORKERS_LOST, "workers lost", statistic="Sum"),
                    seen(Watch.SWEPT, "pages lost and found", statistic="Sum"),
                    janitor.metric_errors(statistic="Sum", period=self._metrics.look, label="janitor failed"),
                ),
                "Crawls": _lines(
                    seen(Watch.CRAWLS_RUNNING, "running"),
                    seen(Watch.CRAWLS_COMPLETED, "completed", statistic="Sum"),
                ),
                "Janitor (seconds a look)": _lines(
                    math(
                        "duration / 1000",
                        {"duration": janitor.metric_duration(statistic="Maximum", period=self._metrics.look)},
                        "longest",
                        self._metrics.look,
                    )
                ),
            },
        )

    def _workers(self, service: ecs.FargateService | None, function: lambda_.IFunction | None) -> None:
        fleet = self._metrics.fleet
        texts = [reading.WORKERS]
        fetchers: list[cloudwatch.IMetric] = [fleet(Fleet.WORKERS, "reports")]
        graphs = {
            "Pages in hand": _lines(fleet(Fleet.IN_FLIGHT, "pages")),
            "Memory (MiB)": _lines(fleet(Fleet.MEMORY, "largest worker", statistic="Maximum")),
        }
        if service is not None:
            texts.append(reading.FARGATE)
            # Every task reports its CPU once a minute: the number of samples is the number of tasks, without the price
            # of Container Insights.
            fetchers.append(service.metric_cpu_utilization(statistic="SampleCount", period=MINUTE, label="tasks"))
            graphs["CPU and memory of tasks (%)"] = _lines(
                service.metric_cpu_utilization(period=MINUTE, label="CPU"),
                service.metric_memory_utilization(period=MINUTE, label="memory"),
            )
        if function is not None:
            texts.append(reading.FUNCTIONS)
            fetchers.append(
                function.metric("ConcurrentExecutions", statistic="Maximum", period=MINUTE, label="functions at a time")
            )
            graphs["Functions a minute"] = _lines(
                function.metric_invocations(statistic="Sum", period=MINUTE, label="called"),
                function.metric_errors(statistic="Sum", period=MINUTE, label="failed"),
                function.metric_throttles(statistic="Sum", period=MINUTE, label="throttled"),
            )
            graphs["Duration of a function (ms)"] = _lines(
                function.metric_duration(statistic="p50", period=MINUTE, label="half are faster"),
                function.metric_duration(statistic="Maximum", period=MINUTE, label="longest"),
            )
        self._row("\n".join(texts), {"Fetchers": _lines(*fetchers), **graphs})

    def _table(self, visited: Visited) -> None:
        self._row(
            reading.TABLE,
            {
                "Consumed units a minute": _lines(*table_sums(visited, "Consumed{}CapacityUnits")),
                "Throttled reads and writes a minute": _lines(*table_sums(visited, "{}ThrottleEvents")),
                "Requests refused for their rate": _lines(self._metrics.fleet(Fleet.THROTTLES, "refused, a minute")),
            },
        )

    def _cost(self, log_groups: Sequence[logs.ILogGroup]) -> None:
        quarter = Duration.minutes(15)
        counted: dict[str, cloudwatch.IMetric] = {
            name.lower(): self._metrics.fleet(name, period=quarter)
            for name in (Fleet.PAGES, Fleet.DOLLARS, Fleet.AWS_REQUESTS)
        }
        written: dict[str, cloudwatch.IMetric] = {
            f"log{number}": cloudwatch.Metric(
                namespace="AWS/Logs",
                metric_name="IncomingBytes",
                dimensions_map={"LogGroupName": group.log_group_name},
                statistic="Sum",
                period=quarter,
            )
            for number, group in enumerate(log_groups)
        }
        pages = {"pages": counted["pages"]}
        self._row(
            reading.COST,
            {
                "Dollars per million pages (AWS requests)": _lines(
                    math("1000000 * dollars / pages", {**pages, "dollars": counted["dollars"]}, "dollars", quarter)
                ),
                "AWS requests a page": _lines(
                    math("awsrequests / pages", {**pages, "awsrequests": counted["awsrequests"]}, "requests", quarter)
                ),
                "Log bytes a page": _lines(
                    math(
                        f"({' + '.join(f'FILL({name}, 0)' for name in written)}) / pages",
                        {**pages, **written},
                        "bytes",
                        quarter,
                    )
                ),
            },
        )

    def _row(self, text: str, graphs: Mapping[str, Graph]) -> None:
        """A text and, beside it, graphs by title in as many lines as they need."""
        named = list(graphs.items())
        count = -(-len(named) // _A_LINE)
        cuts = [round(number * len(named) / count) for number in range(count + 1)]
        lines = [named[start:end] for start, end in pairwise(cuts)]
        self.dashboard.add_widgets(
            cloudwatch.TextWidget(markdown=text, width=_TEXT_WIDTH, height=_HEIGHT * len(lines)),
            # The library's own types do not know that these two are widgets.
            cast(cloudwatch.IWidget, cloudwatch.Column(*(cast(cloudwatch.IWidget, _beside(line)) for line in lines))),
        )


class Graph:
    """Lines over time, from 0 up; `marks` are levels, by what is to be written beside them."""

    def __init__(self, metrics: Metrics, *, stacked: bool, marks: Mapping[float, str]) -> None:
        self._metrics, self._stacked, self._marks = metrics, stacked, marks

    def widget(self, title: str, width: int) -> cloudwatch.IWidget:
        return cloudwatch.GraphWidget(
            title=title,
            left=list(self._metrics),
            stacked=self._stacked,
            width=width,
            height=_HEIGHT,
            left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False),
            left_annotations=[
                cloudwatch.HorizontalAnnotation(value=value, label=label) for value, label in self._marks.items()
            ],
        )


def _beside(line: Sequence[tuple[str, Graph]]) -> cloudwatch.Row:
    return cloudwatch.Row(*(graph.widget(title, (COLUMNS - _TEXT_WIDTH) // len(line)) for title, graph in line))


def _lines(*metrics: cloudwatch.IMetric, marks: Mapping[float, str] | None = None) -> Graph:
    return Graph(metrics, stacked=False, marks=marks or {})


def _stack(*metrics: cloudwatch.IMetric) -> Graph:
    return Graph(metrics, stacked=True, marks={})
