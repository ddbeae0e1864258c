"""The rules of CloudWatch's Embedded Metric Format, by which a line of metrics is taken or thrown away.

Those of the specification, its JSON schema included, those of CloudWatch's metrics on values, and that a distribution
is written as CloudWatch's agent and OpenTelemetry's exporter write it.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

_SIZES = [f"{size}{what}" for what in ("bytes", "bits") for size in ("", "Kilo", "Mega", "Giga", "Tera")]
_PLAIN = ["Seconds", "Microseconds", "Milliseconds", *(size[0].upper() + size[1:] for size in _SIZES), "Count"]
UNITS = frozenset([*_PLAIN, *(f"{unit}/Second" for unit in _PLAIN[3:]), "Percent", "None"])
LARGEST = 2.0**360
WEEKS = 14 * 86400.0


def metrics_of(line: bytes | str) -> dict[str, Any]:
    """Check a line against the rules; its metrics' values by name."""
    root = json.loads(line, parse_constant=_refuse)
    assert len(line) < 1_000_000
    assert type(root) is dict
    about = root["_aws"]
    assert set(about) == {"Timestamp", "CloudWatchMetrics"}
    assert type(about["Timestamp"]) is int
    assert -WEEKS < about["Timestamp"] / 1000 - time.time() < 2 * 3600
    values: dict[str, Any] = {}
    for directive in about["CloudWatchMetrics"]:
        assert set(directive) == {"Namespace", "Dimensions", "Metrics"}
        _check_text(directive["Namespace"], 255)
        assert directive["Dimensions"]
        for dimensions in directive["Dimensions"]:
            assert len(set(dimensions)) == len(dimensions) <= 30
            for name in dimensions:
                _check_text(name, 250)
                _check_text(root[name], 1024)
        assert 1 <= len(directive["Metrics"]) <= 100
        for metric in directive["Metrics"]:
            assert set(metric) <= {"Name", "Unit", "StorageResolution"}
            _check_text(metric["Name"], 255)
            assert metric.get("Unit", "None") in UNITS
            assert metric.get("StorageResolution", 60) in (1, 60)
            assert metric["Name"] not in values
            values[metric["Name"]] = root[metric["Name"]]
    for value in values.values():
        _check_value(value)
    return values


def _check_text(text: Any, length: int) -> None:
    assert type(text) is str
    assert 1 <= len(text) <= length
    assert text.isascii()
    assert text.strip()


def _check_value(value: Any) -> None:
    if isinstance(value, dict):
        assert set(value) == {"Values", "Counts", "Max", "Min", "Count", "Sum"}
        assert 1 <= len(value["Values"]) == len(value["Counts"]) <= 100
        assert len(set(value["Values"])) == len(value["Values"])
        assert all(type(count) is int and count > 0 for count in value["Counts"])
        assert (value["Min"], value["Max"]) == (min(value["Values"]), max(value["Values"]))
        assert value["Count"] == sum(value["Counts"])
        for number in (*value["Values"], value["Sum"]):
            _check_number(number)
    elif isinstance(value, list):
        assert len(value) <= 100
        for number in value:
            _check_number(number)
    else:
        _check_number(value)


def _check_number(number: Any) -> None:
    assert type(number) in (int, float)
    assert math.isfinite(number)
    assert abs(number) < LARGEST


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")
