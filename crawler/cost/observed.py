"""What CloudWatch knows of a stack's compute and logs in a span of time, as lines of a bill. It reads, and asks for
rights that a worker has not: whoever has them not is told so in a note, and gets what can be had.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from crawler.cost import prices
from crawler.cost.prices import Line
from crawler.errors import StateUnavailable
from crawler.state.aws.client import Aws, Refused

PERIOD, FINE_FOR = 300, 60 * 24 * 3600.0
COARSE = 3600
"""Seconds that a figure covers, while CloudWatch keeps them so fine, and afterwards."""

AT_ONCE = 100
"""Metrics a request."""

Metric = tuple[str, str, str, dict[str, str]]
"""Namespace, name, statistic, dimensions."""


async def observed(stack: str, begin: float, end: float) -> tuple[list[Line], list[str]]:
    """Lines for a stack's tasks, functions and logs between two times (Unix seconds), and notes on what is missing."""
    aws = await Aws.connect()
    try:
        return await _Stack(aws, begin, end).bill(stack)
    except Refused as error:
        return [], [f"compute and logs are not in it: {error}"]
    except StateUnavailable as error:
        return [], [f"compute and logs are not in it: CloudWatch: {error}"]
    finally:
        await aws.close()


class _Stack:
    def __init__(self, aws: Aws, begin: float, end: float) -> None:
        self._aws, self._begin, self._end = aws, begin, end

    async def bill(self, stack: str) -> tuple[list[Line], list[str]]:
        parts = await self._parts(stack)
        lines: list[Line] = []
        notes: list[str] = []
        for service in parts["AWS::ECS::Service"]:
            lines += await self._tasks(service, parts["AWS::ECS::TaskDefinition"])
        for function in parts["AWS::Lambda::Function"]:
            lines += await self._calls(function)
        metrics: list[Metric] = [
            ("AWS/Logs", "IncomingBytes", "Sum", {"LogGroupName": group}) for group in parts["AWS::Logs::LogGroup"]
        ]
        if size := sum(await self._sums(metrics)):
            lines.append(prices.logs(size))
        lines = _summed(lines)
        if not lines:
            notes.append("compute and logs are not in it: CloudWatch has no figures of that time")
        elif any(line.what.endswith("Spot") for line in lines):
            notes.append(f"Fargate Spot is priced at {prices.SPOT:.0%} of on demand; its price moves")
        if any(line.service == "Lambda" for line in lines):
            notes.append("what Lambda itself asks the queues for, about 0.2 requests a page and polls, is not counted")
        return lines, notes

    async def _parts(self, stack: str) -> dict[str, list[str]]:
        """Physical ids of a stack's resources by type."""
        found: dict[str, list[str]] = defaultdict(list)
        async with self._aws.client("cloudformation") as client:
            more: dict[str, Any] = {}
            while True:
                answer: Any = await self._aws.ask(client.list_stack_resources(StackName=stack, **more))
                for part in answer["StackResourceSummaries"]:
                    found[part["ResourceType"]].append(part.get("PhysicalResourceId", ""))
                if not answer.get("NextToken"):
                    return found
                more = {"NextToken": answer["NextToken"]}

    async def _tasks(self, service: str, definitions: Sequence[str]) -> list[Line]:
        """A running task sends one figure a minute."""
        cluster, name = service.split("/")[-2:] if service.count("/") >= 2 else ("default", service.split("/")[-1])
        where = {"ClusterName": cluster, "ServiceName": name}
        (minutes,) = await self._sums([("AWS/ECS", "CPUUtilization", "SampleCount", where)])
        if not minutes:
            return []
        async with self._aws.client("ecs") as client:
            task: Any = await self._aws.ask(client.describe_task_definition(taskDefinition=definitions[0]))
            found: Any = await self._aws.ask(client.describe_services(cluster=cluster, services=[name]))
        strategy = [each for one in found.get("services", []) for each in one.get("capacityProviderStrategy", [])]
        spot = any(each["capacityProvider"] == "FARGATE_SPOT" for each in strategy)
        size = task["taskDefinition"]
        return prices.fargate(minutes / 60, int(size["cpu"]), int(size["memory"]), spot)

    async def _calls(self, function: str) -> list[Line]:
        where = {"FunctionName": function}
        metrics: list[Metric] = [("AWS/Lambda", name, "Sum", where) for name in ("Duration", "Invocations")]
        milliseconds, calls = await self._sums(metrics)
        if not calls:
            return []
        async with self._aws.client("lambda") as client:
            size: Any = await self._aws.ask(client.get_function_configuration(FunctionName=function))
        return prices.functions(milliseconds / 1000 * size["MemorySize"] / 1024, calls)

    async def _sums(self, metrics: Sequence[Metric]) -> list[float]:
        """What each metric's figures add up to."""
        sums = [0.0] * len(metrics)
        period = PERIOD if time.time() - self._begin < FINE_FOR else COARSE
        async with self._aws.client("cloudwatch") as client:
            for first in range(0, len(metrics), AT_ONCE):
                more: dict[str, Any] = {}
                while True:
                    queries = [
                        _query(number, metric, period)
                        for number, metric in enumerate(metrics[first : first + AT_ONCE], first)
                    ]
                    span = {"StartTime": _at(self._begin - self._begin % period), "EndTime": _at(self._end)}
                    answer: Any = await self._aws.ask(client.get_metric_data(MetricDataQueries=queries, **span, **more))
                    for result in answer["MetricDataResults"]:
                        sums[int(result["Id"][1:])] += sum(result["Values"])
                    if not answer.get("NextToken"):
                        break
                    more = {"NextToken": answer["NextToken"]}
        return sums


def _query(number: int, metric: Metric, period: int) -> dict[str, Any]:
    namespace, name, statistic, dimensions = metric
    named = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    wanted = {"Namespace": namespace, "MetricName": name, "Dimensions": named}
    return {"Id": f"m{number}", "MetricStat": {"Metric": wanted, "Period": period, "Stat": statistic}}


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _summed(lines: Sequence[Line]) -> list[Line]:
    """Lines of one kind as one."""
    sums: dict[tuple[str, str], Line] = {}
    for line in lines:
        before = sums.get((line.service, line.what), Line(line.service, line.what, 0.0, 0.0))
        sums[line.service, line.what] = Line(
            line.service, line.what, before.amount + line.amount, before.dollars + line.dollars
        )
    return list(sums.values())
