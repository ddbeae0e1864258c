"""AWS's list prices, and what usage costs by them. Without free tiers, volume discounts, taxes and data transfer."""

from __future__ import annotations

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


def dollars(used: Usage) -> dict[str, float]:
    """List price of requests by service; storage and compute are not in it."""
    units = used.units
    return {
        "SQS": (units.get(Unit.SQS, 0) * SQS + units.get(Unit.FAIR, 0) * FAIR_QUEUE) / MILLION,
        "DynamoDB": (units.get(Unit.WRITES, 0) * WRITE_UNIT + units.get(Unit.HALF_READS, 0) / 2 * READ_UNIT) / MILLION,
        "S3": (units.get(Unit.PUTS, 0) * S3_PUT + units.get(Unit.GETS, 0) * S3_GET) / MILLION,
    }
