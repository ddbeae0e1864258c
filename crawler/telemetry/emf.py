"""CloudWatch's Embedded Metric Format: a line of JSON of which CloudWatch makes metrics when it is logged.

No request, no permission and no client is needed: whoever's standard output goes to CloudWatch Logs prints the line.
Members that no metric names stay as fields for Logs Insights.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from crawler.telemetry.names import CRAWL, NAMESPACE, STACK, UNITS

MOST_VALUES = 100
"""Distinct values of one metric in a line; with more CloudWatch takes no metric of it."""


class Distribution(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """Many values of one metric: each distinct one and how often it occurred. CloudWatch computes percentiles of it.

    The members are those that CloudWatch's own agent and OpenTelemetry's exporter write.
    """

    values: tuple[float, ...]
    counts: tuple[int, ...]
    max: float
    min: float
    count: int
    sum: float

    @classmethod
    def of(cls, occurred: Mapping[float, int]) -> Distribution:
        """From how often each value occurred; at least one did, and at most MOST_VALUES differ."""
        values = sorted(occurred)
        return cls(
            tuple(values),
            tuple(occurred[value] for value in values),
            values[-1],
            values[0],
            sum(occurred.values()),
            round(sum(value * count for value, count in occurred.items()), 3),
        )


Value = int | float | Distribution


def line(stack: str, metrics: Mapping[str, Value], *, at: float, crawl: str = "", **fields: Any) -> bytes:
    """One line of metrics (at least one), without its end. `metrics` are by name as in `names.py`; `at` is the Unix
    time that they are for; with `crawl` they are that crawl's. `fields` are written as they are."""
    dimensions = {STACK: stack, CRAWL: crawl} if crawl else {STACK: stack}
    return msgspec.json.encode(
        {
            "_aws": {
                "Timestamp": int(at * 1000),
                "CloudWatchMetrics": [
                    {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": _defined(metrics)}
                ],
            },
            **dimensions,
            **fields,
            # Logs Insights finds the first 200 members of a line, and counts each number of a distribution.
            **dict(sorted(metrics.items(), key=lambda item: isinstance(item[1], Distribution))),
        }
    )


def _defined(names: Iterable[str]) -> list[dict[str, str]]:
    return [{"Name": name, "Unit": UNITS.get(name, "Count")} for name in names]
