"""What the saved queries must answer, computed from the rows without SQL. A table a query: its rows in order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Table = list[tuple[Any, ...]]

MOST_HOPS = 9


def _by_host(rows: Iterable[Row]) -> dict[str, list[Row]]:
    hosts: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        hosts[row["host"]].append(row)
    return hosts


def _answered(rows: Iterable[Row], wanted: Callable[[int], bool]) -> int:
    return sum(row["outcome"] == "done" and row["status"] is not None and wanted(row["status"]) for row in rows)


def status_by_host(rows: Sequence[Row]) -> Table:
    table = []
    for host, its in _by_host(rows).items():
        outcomes = Counter(row["outcome"] for row in its)
        counts = (
            _answered(its, lambda status: status < 300),
            _answered(its, lambda status: status == 304),
            _answered(its, lambda status: 300 <= status < 400 and status != 304),
            _answered(its, lambda status: status >= 400),
        )
        size = sum(row["bytes"] or 0 for row in its if row["outcome"] == "done")
        table.append((host, len(its), *counts, outcomes["skipped"], outcomes["dead"], size))
    return sorted(table, key=lambda line: (-line[1], line[0]))


def slowest_hosts(rows: Sequence[Row]) -> Table:
    table = []
    for host, its in _by_host(row for row in rows if row["elapsed_ms"] is not None).items():
        times = sorted(row["elapsed_ms"] for row in its)
        median, p95 = (times[math.ceil(len(times) * percent / 100) - 1] for percent in (50, 95))
        table.append((host, len(times), median, p95, times[-1]))
    return sorted(table, key=lambda line: (-line[2], -line[3], line[0]))[:50]


def broken_links(rows: Sequence[Row]) -> Table:
    titles = {row["url"]: row["title"] for row in rows}
    table = [
        (row["status"], row["reason"], row["url"], row["parent_url"], titles.get(row["parent_url"]))
        for row in rows
        if row["outcome"] == "dead" or (row["outcome"] == "done" and (row["status"] or 0) >= 400)
    ]
    return sorted(table, key=lambda line: (line[3] is None, line[3] or "", line[2]))


def duplicates(rows: Sequence[Row]) -> Table:
    copies: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["duplicate_of"] is not None:
            copies[row["duplicate_of"]].append(row)
    table = [
        (original, len(its), sum(row["bytes"] for row in its), min(row["url"] for row in its))
        for original, its in copies.items()
    ]
    return sorted(table, key=lambda line: (-line[2], line[0]))


def _redirects(row: Row) -> bool:
    return row["redirect_to"] is not None and 300 <= (row["status"] or 0) < 400


def redirect_chains(rows: Sequence[Row]) -> Table:
    spelled = {row["url_key"]: row for row in rows} | {row["url"]: row for row in rows}
    table = []
    for first in filter(_redirects, rows):
        last, hops = first, 1
        while hops < MOST_HOPS and (target := spelled.get(last["redirect_to"])) is not None and _redirects(target):
            last, hops = target, hops + 1
        end = spelled.get(last["redirect_to"])
        how = "unknown" if end is None else "loop" if _redirects(end) else end["outcome"]
        status = end["status"] if end else None
        table.append((hops, first["url"], last["redirect_to"], how, status, first["parent_url"]))
    return sorted(table, key=lambda line: (-line[0], line[1]))


def robots_blocked(rows: Sequence[Row]) -> Table:
    table = []
    for host, its in _by_host(rows).items():
        blocked = sum(row["reason"] == "robots" for row in its)
        if blocked:
            table.append((host, len(its), blocked, math.floor(1000 * blocked / len(its) + 0.5) / 10))
    return sorted(table, key=lambda line: (-line[2], line[0]))


EXPECTED: dict[str, Callable[[Sequence[Row]], Table]] = {
    "status-by-host": status_by_host,
    "slowest-hosts": slowest_hosts,
    "broken-links": broken_links,
    "duplicates": duplicates,
    "redirect-chains": redirect_chains,
    "robots-blocked": robots_blocked,
}
