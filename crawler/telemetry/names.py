"""The metrics that the fleet writes to CloudWatch: the one list that writers, dashboard and alarms share."""

from __future__ import annotations

from enum import StrEnum

NAMESPACE = "Crawler"

STACK, CRAWL = "Stack", "Crawl"
"""Dimensions. Every metric is written by stack; those of `Ledger` by stack and crawl, too."""


class Fleet(StrEnum):
    """Written by each fetcher process once a minute (a function: once an invocation); sums unless said otherwise."""

    WORKERS = "Workers"
    """1 a process and minute: the sum over a minute is the number of fetchers."""
    PAGES = "Pages"
    """Pages answered, skipped or dead."""
    ANSWERED_2XX = "Answered2xx"
    ANSWERED_3XX = "Answered3xx"
    ANSWERED_4XX = "Answered4xx"
    ANSWERED_5XX = "Answered5xx"
    SKIPPED = "Skipped"
    DEAD = "Dead"
    RETRIED = "Retried"
    """Attempts that failed and are to be repeated."""
    DEFERRED = "Deferred"
    """Pages given back: their host's turn is far, or the worker stops."""
    ROBOTS_BLOCKED = "RobotsBlocked"
    BYTES = "Bytes"
    """Decoded bytes of bodies."""
    DISCOVERED = "Discovered"
    """Links that were new."""
    LATENCY = "Latency"
    """Milliseconds from request to answer, as a distribution."""
    HOSTS_HELD = "HostsHeld"
    """Hosts that a worker saw slowed down by Retry-After, back-off or a circuit breaker; largest a minute."""
    IN_FLIGHT = "InFlight"
    """Pages held at the end of the minute."""
    AWS_REQUESTS = "AwsRequests"
    THROTTLES = "Throttles"
    """Requests that AWS refused for their rate."""
    DOLLARS = "Dollars"
    """List price of the AWS requests."""
    MEMORY = "Memory"
    """Resident MiB of a process; largest."""


class Ledger(StrEnum):
    """Written by the janitor at each look, for crawls that are not complete: by stack the sum of all, and by crawl."""

    PENDING = "PagesPending"
    DONE = "PagesDone"
    SKIPPED = "PagesSkipped"
    DEAD = "PagesDead"
    PROGRESS = "Progress"
    """Pages finished since the look before."""


class Watch(StrEnum):
    """Written by the janitor at each look, by stack."""

    CRAWLS_RUNNING = "CrawlsRunning"
    STALLED = "Stalled"
    """1 when of a crawl that is not paused pages are left and none was finished since the look before, although one of
    its hosts was open; else 0."""
    WORKERS_LOST = "WorkersLost"
    """Workers that fell silent without a goodbye since the look before."""
    SWEPT = "Swept"
    """Pages that were recorded and on no queue; should always be 0."""
    CRAWLS_COMPLETED = "CrawlsCompleted"


UNITS: dict[str, str] = {
    Fleet.BYTES: "Bytes",
    Fleet.LATENCY: "Milliseconds",
    Fleet.MEMORY: "Megabytes",
    Fleet.DOLLARS: "None",
}
"""CloudWatch's unit of a metric; Count where none is named."""
