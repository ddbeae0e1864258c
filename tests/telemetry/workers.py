"""Real workers that tell of themselves, and what their lines add up to."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from crawler.telemetry.names import Fleet
from tests import command
from tests.faults.crawls import STATE
from tests.telemetry.emf_rules import metrics_of

ON = {"CRAWLER_METRICS": "emf"}

LARGEST = frozenset({Fleet.HOSTS_HELD, Fleet.IN_FLIGHT, Fleet.MEMORY})

BUDGET = 200
"""Bytes of log a page, at most."""


def work(folder: Path, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A worker on the crawl in a folder, until that is complete."""
    given = ("--until-complete", *arguments)
    return command.run("work", "--state", str(folder / STATE), *given, env={**ON, **(env or {})})


def events(out: str) -> list[dict[str, Any]]:
    """The lines of a worker's standard output; nothing else may be there."""
    return [json.loads(line) for line in out.splitlines()]


def totals(outs: Iterable[str]) -> Counter[str]:
    """The metrics of several workers together: what CloudWatch would make of their lines, each of which is checked.

    Sums, but for those of which the largest counts; a distribution counts as the number of its values.
    """
    sums: Counter[str] = Counter()
    for out in outs:
        for line in out.splitlines():
            if "_aws" in line:
                for name, value in metrics_of(line).items():
                    number = value["Count"] if isinstance(value, dict) else value
                    sums[name] = max(sums[name], number) if name in LARGEST else sums[name] + number
    return sums


def log_bytes(*results: subprocess.CompletedProcess[str]) -> int:
    """Bytes that workers wrote to both outputs."""
    return sum(len(result.stdout.encode()) + len(result.stderr.encode()) for result in results)
