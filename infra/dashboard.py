"""The dashboard: a row a question, each beginning with how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from infra.fetchers import Fetchers
from infra.frontier import LANE_RETENTION, Frontier
from infra.visited import Visited

_MINUTE = Duration.minutes(1)
_COLUMNS = 24
_TEXT_WIDTH = 6
_HEIGHT = 6

Metrics = Sequence[cloudwatch.IMetric]
Graphs = Mapping[str, Metrics]

_MOVING = """### Is it moving?
**Waiting** falls and **in flight** is steady: workers are at it. **Waiting** grows: pages bring more links than the
workers take; wait, or raise `maxWorkers`.
**Delayed** is high and **waiting** low: the hosts' pace sets the speed, more workers would not help."""

_HEALTHY = f"""### Is it healthy?
**Oldest** should stay below the retention of {LANE_RETENTION.to_days()} days, or URLs fall off the queue's end.
**Dead letters** are URLs that killed a worker each time they were tried, or were no messages of ours: 0 is right.
A delay of minutes is normal in all queue metrics."""

_STATE = """### Does the table keep up?
**Consumed** is what DynamoDB bills, about two write units a URL.
**Throttled** should be 0 but for minutes after a sudden start: on demand a table doubles its peak at once and needs
time for more. Workers wait and repeat; nothing is lost."""

_FLEET = """### Are there workers?
**Tasks** counts running workers. It is 0 when the frontier has been empty for a while and follows the backlog a minute
or two late. **CPU** near 100 %: `cpu` is the limit. Far below with URLs waiting: hosts are slow or paced."""


class Dashboard(Construct):
    """Only metrics that AWS itself writes for these resources."""

    def __init__(
        self, scope: Construct, name: str, *, frontier: Frontier, visited: Visited, fetchers: Fetchers
    ) -> None:
        super().__init__(scope, name)
        self.dashboard = cloudwatch.Dashboard(self, "Dashboard", default_interval=Duration.hours(3))
        self._row(
            _MOVING,
            {
                "Waiting": _lanes(frontier, "ApproximateNumberOfMessagesVisible"),
                "In flight": _lanes(frontier, "ApproximateNumberOfMessagesNotVisible"),
                "Delayed": _lanes(frontier, "ApproximateNumberOfMessagesDelayed"),
            },
        )
        dead = frontier.dead_letters.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=_MINUTE, label="dead letters"
        )
        self._row(
            _HEALTHY,
            {
                "Oldest (seconds)": _lanes(frontier, "ApproximateAgeOfOldestMessage"),
                "Dead letters": [dead],
            },
        )
        tables = {"visited": visited.table, "control": visited.control}
        self._row(
            _STATE,
            {
                "Consumed units a minute": _units(tables, "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"),
                "Throttled requests": _units(tables, "ReadThrottleEvents", "WriteThrottleEvents"),
            },
        )
        # Every task reports its CPU once a minute: the number of samples is the number of tasks, without the price of
        # Container Insights.
        tasks = fetchers.service.metric_cpu_utilization(statistic="SampleCount", period=_MINUTE, label="tasks")
        self._row(
            _FLEET,
            {
                "Tasks": [tasks],
                "CPU and memory (%)": [
                    fetchers.service.metric_cpu_utilization(period=_MINUTE, label="CPU"),
                    fetchers.service.metric_memory_utilization(period=_MINUTE, label="memory"),
                ],
            },
        )

    def _row(self, text: str, graphs: Graphs) -> None:
        """A text and, beside it, graphs by title that share the rest of the width."""
        width = (_COLUMNS - _TEXT_WIDTH) // len(graphs)
        self.dashboard.add_widgets(
            cloudwatch.TextWidget(markdown=text, width=_TEXT_WIDTH, height=_HEIGHT),
            *(
                cloudwatch.GraphWidget(
                    title=title, left=metrics, width=width, height=_HEIGHT, left_y_axis=cloudwatch.YAxisProps(min=0)
                )
                for title, metrics in graphs.items()
            ),
        )


def _lanes(frontier: Frontier, metric: str) -> Metrics:
    return [
        queue.metric(metric, statistic="Maximum", period=_MINUTE, label=lane.lower())
        for lane, queue in frontier.lanes.items()
    ]


def _units(tables: dict[str, dynamodb.Table], *metrics: str) -> Metrics:
    return [
        table.metric(
            metric, statistic="Sum", period=_MINUTE, label=f"{name} {'write' if 'Write' in metric else 'read'}"
        )
        for name, table in tables.items()
        for metric in metrics
    ]
