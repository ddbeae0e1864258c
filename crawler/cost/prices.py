"""AWS's list prices, and what usage costs by them. Without free tiers, volume discounts, taxes and data transfer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from crawler.cost.usage import Unit, Usage

REGION = "us-east-1"
AS_OF = "2026-11"
"""The region and the month of these prices. Other regions differ by up to a half."""

MILLION = 1_000_000
GB = 1_000_000_000

SQS = 0.40
"""Dollars per million requests of 64 KB, standard queue."""
FAIR_QUEUE = 0.10
"""More per million of those with a MessageGroupId."""
WRITE_UNIT, READ_UNIT = 0.625, 0.125
"""Dollars per million units, on demand: 1 KB written, 4 KB read strongly consistent."""
WRITE_UNIT_HOUR, READ_UNIT_HOUR = 0.00065, 0.00013
"""Dollars an hour per unit a second, provisioned."""
TABLE_GB_MONTH = 0.25
S3_PUT, S3_GET = 5.00, 0.40
"""Dollars per million requests, S3 Standard."""
S3_GB_MONTH = 0.023

VCPU_HOUR, GB_HOUR = 0.03238, 0.00356
"""Fargate, Linux on ARM, on demand."""
SPOT = 0.30
"""Share of that price on Fargate Spot, about: it moves."""
GB_SECOND = 0.0000133334
"""Lambda on ARM."""
INVOCATION = 0.20
"""Dollars per million."""
PUBLIC_IPV4_HOUR = 0.005

LOG_GB = 0.50
"""Log lines taken in, among them the lines that carry metrics."""
METRIC_MONTH, ALARM_MONTH, DASHBOARD_MONTH = 0.30, 0.10, 3.00
MONTH_HOURS = 730.0


class Line(msgspec.Struct, frozen=True):
    """One line of a bill: an amount of `what` at a service, and its list price in dollars."""

    service: str
    what: str
    amount: float
    dollars: float


def requests(used: Usage) -> list[Line]:
    """The bill of requests."""

    def line(service: str, what: str, unit: Unit, price: float, share: float = 1.0) -> Line:
        amount = used.units.get(unit, 0) * share
        return Line(service, what, amount, amount * price / MILLION)

    return [
        line("SQS", "requests", Unit.SQS, SQS),
        line("SQS", "with a group (fair queues)", Unit.FAIR, FAIR_QUEUE),
        line("DynamoDB", "write units", Unit.WRITES, WRITE_UNIT),
        line("DynamoDB", "read units", Unit.HALF_READS, READ_UNIT, 0.5),
        line("S3", "PUT, LIST", Unit.PUTS, S3_PUT),
        line("S3", "GET", Unit.GETS, S3_GET),
    ]


def dollars(used: Usage) -> dict[str, float]:
    """List price of requests by service; storage and compute are not in it."""
    return by_service(requests(used))


def by_service(lines: Iterable[Line]) -> dict[str, float]:
    """Dollars by service."""
    sums: dict[str, float] = {}
    for line in lines:
        sums[line.service] = sums.get(line.service, 0.0) + line.dollars
    return sums


def fargate(hours: float, cpu: int, memory: int, spot: bool) -> list[Line]:
    """Tasks for so many hours in all, of Fargate's CPU units (1024 = one vCPU) and MiB; each with a public address."""
    price = (cpu / 1024 * VCPU_HOUR + memory / 1024 * GB_HOUR) * (SPOT if spot else 1.0)
    return [
        Line("Fargate", f"task hours{' on Spot' if spot else ''}", hours, hours * price),
        Line("Fargate", "hours of public IPv4", hours, hours * PUBLIC_IPV4_HOUR),
    ]


def functions(gb_seconds: float, invocations: float) -> list[Line]:
    return [
        Line("Lambda", "GB-seconds", gb_seconds, gb_seconds * GB_SECOND),
        Line("Lambda", "invocations", invocations, invocations * INVOCATION / MILLION),
    ]


def logs(size: float) -> Line:
    """Bytes of log lines taken in."""
    return Line("CloudWatch", "GB of logs", size / GB, size / GB * LOG_GB)


def metrics(hours: float) -> Line:
    """Metrics of one's own, each for so many hours in all."""
    return Line("CloudWatch", "metric hours", hours, hours * METRIC_MONTH / MONTH_HOURS)


def resting(alarms: int, metrics_: int) -> float:
    """Dollars a month of what is there whether or not there is a crawl, with one dashboard."""
    return alarms * ALARM_MONTH + metrics_ * METRIC_MONTH + DASHBOARD_MONTH


def provisioned(writes: float, reads: float, utilized: float) -> float:
    """Dollars of these units where capacity is provisioned, and a share of it is used."""
    return (writes * WRITE_UNIT_HOUR + reads * READ_UNIT_HOUR) / 3600 / utilized


def kept(stored: float, items: float) -> list[Line]:
    """A month of what stays: bytes in the bucket, and bytes in the tables."""
    return [
        Line("S3", "GB stored", stored / GB, stored / GB * S3_GB_MONTH),
        Line("DynamoDB", "GB stored", items / GB, items / GB * TABLE_GB_MONTH),
    ]
