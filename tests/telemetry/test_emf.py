"""Lines of metrics that CloudWatch takes."""

from __future__ import annotations

import json
import time

from crawler.telemetry import emf
from crawler.telemetry.names import CRAWL, NAMESPACE, STACK, UNITS, Fleet, Ledger, Watch
from tests.telemetry.emf_rules import UNITS as KNOWN
from tests.telemetry.emf_rules import metrics_of


def test_a_line_of_every_metric_keeps_the_rules() -> None:
    every = {str(name): 1 for group in (Fleet, Ledger, Watch) for name in group}
    latency = emf.Distribution.of({float(value): value for value in range(1, 101)})
    line = emf.line("My-Stack", {**every, Fleet.LATENCY: latency}, at=time.time(), event="minute", worker="w")
    values = metrics_of(line)
    assert set(values) == set(every)
    assert values[Fleet.LATENCY]["Counts"] == list(range(1, 101))
    assert b"\n" not in line


def test_metrics_are_of_the_stack_or_of_one_of_its_crawls() -> None:
    now = time.time()
    of_stack = json.loads(emf.line("S", {Ledger.DONE: 1}, at=now))
    of_crawl = json.loads(emf.line("S", {Ledger.DONE: 1}, at=now, crawl="c-1"))
    assert of_stack["_aws"]["CloudWatchMetrics"] == [
        {"Namespace": NAMESPACE, "Dimensions": [[STACK]], "Metrics": [{"Name": Ledger.DONE, "Unit": "Count"}]}
    ]
    assert of_crawl["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [[STACK, CRAWL]]
    assert (of_stack[STACK], CRAWL in of_stack) == ("S", False)
    assert (of_crawl[STACK], of_crawl[CRAWL]) == ("S", "c-1")
    assert of_stack["_aws"]["Timestamp"] == int(now * 1000)
    metrics_of(json.dumps(of_crawl))


def test_units_are_cloudwatchs() -> None:
    assert set(UNITS.values()) <= KNOWN
    line = emf.line("S", {Fleet.LATENCY: 1.5, Fleet.DOLLARS: 1e-6, Fleet.PAGES: 0}, at=time.time())
    (directive,) = json.loads(line)["_aws"]["CloudWatchMetrics"]
    assert [metric["Unit"] for metric in directive["Metrics"]] == ["Milliseconds", "None", "Count"]


def test_logs_insights_finds_every_field_before_the_distribution() -> None:
    """It finds the first 200 members of a line, and a distribution may have as many numbers."""
    latency = emf.Distribution.of({float(value): 1 for value in range(100)})
    line = emf.line("S", {Fleet.LATENCY: latency, Fleet.PAGES: 1}, at=time.time(), event="minute")
    assert list(json.loads(line))[-1] == Fleet.LATENCY
