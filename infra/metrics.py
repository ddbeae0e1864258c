"""The fleet's own metrics, and what AWS writes for the stack's resources, as the dashboard and the alarms read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from crawler.telemetry.names import CRAWL, NAMESPACE, STACK, Fleet, Ledger, Watch
from infra.frontier import Frontier
from infra.visited import Visited

MINUTE = Duration.minutes(1)


class CrawlerMetrics:
    """Metrics that the workers and the janitor of one stack write. `look` is the time between two looks of the
    janitor: the least period in which each of its metrics has a value."""

    def __init__(self, stack_name: str, janitor_minutes: int) -> None:
        self._stack, self.look = stack_name, Duration.minutes(janitor_minutes)

    def fleet(
        self, name: Fleet, label: str = "", *, statistic: str = "Sum", period: Duration = MINUTE
    ) -> cloudwatch.Metric:
        """What all workers together wrote in a period."""
        return self._metric(name, label, statistic, period)

    def seen(self, name: Ledger | Watch, label: str = "", *, statistic: str = "Maximum") -> cloudwatch.Metric:
        """What the janitor saw at its look."""
        return self._metric(name, label, statistic, self.look)

    def by_crawl(self, name: Ledger) -> cloudwatch.MathExpression:
        """One line a crawl, labelled with its id; at most a hundred, which is what a search finds."""
        return cloudwatch.MathExpression(
            expression=(
                f"SEARCH('{{{NAMESPACE},{STACK},{CRAWL}}} MetricName=\"{name}\" {STACK}=\"{self._stack}\"', 'Maximum', "
                f"{self.look.to_seconds():.0f})"
            ),
            label=f"${{PROP('Dim.{CRAWL}')}}",
            period=self.look,
        )

    def _metric(self, name: str, label: str, statistic: str, period: Duration) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=name,
            dimensions_map={STACK: self._stack},
            label=label or None,
            statistic=statistic,
            period=period,
        )


def math(
    expression: str, metrics: Mapping[str, cloudwatch.IMetric], label: str, period: Duration = MINUTE
) -> cloudwatch.MathExpression:
    """Metric math over metrics that are not shown themselves."""
    return cloudwatch.MathExpression(expression=expression, using_metrics=metrics, label=label, period=period)


def total(
    metrics: Mapping[str, cloudwatch.IMetric], label: str, period: Duration = MINUTE
) -> cloudwatch.MathExpression:
    """Their sum; one that reports nothing counts as 0, and where all report nothing there is no sum.

    SUM and not FILL: SQS reports a minute or two late, and what is filled is the newest minute first. An alarm over
    that would always see the filling.
    """
    return math(f"SUM([{', '.join(metrics)}])", metrics, label, period)


def messages(frontier: Frontier, states: Sequence[str], label: str) -> cloudwatch.MathExpression:
    """Messages of all lanes in these states (Visible, NotVisible, Delayed). SQS reports some of them only while there
    are any, and nothing of a lane untouched for hours."""
    metrics: dict[str, cloudwatch.IMetric] = {
        f"{lane}{state}".lower(): queue.metric(
            f"ApproximateNumberOfMessages{state}", statistic="Maximum", period=MINUTE
        )
        for lane, queue in frontier.lanes.items()
        for state in states
    }
    return total(metrics, label)


def table_sums(visited: Visited, metric: str) -> list[cloudwatch.IMetric]:
    """Sums a minute of both tables; `{}` in `metric` stands for Read and Write."""
    return [
        table.metric(metric.format(kind), statistic="Sum", period=MINUTE, label=f"{name} {kind.lower()}")
        for name, table in (("visited", visited.table), ("control", visited.control))
        for kind in ("Read", "Write")
    ]
