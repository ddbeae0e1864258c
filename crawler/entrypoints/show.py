"""Numbers for people: the lines and tables that commands print."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from crawler.archive.verify_report import VerifyReport
from crawler.config import FALSE_POSITIVES, CrawlSettings
from crawler.entrypoints.status import HostRow, Status

ERROR_WIDTH = 60
"""Characters of a host's latest error that are shown."""


def size(count: float) -> str:
    """Bytes for people: 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def line(status: Status, rate: float) -> str:
    """Pages, rate, queue, errors: one line."""
    parts = [
        f"{status.done:,} pages",
        f"{rate:,.1f}/s",
        f"{status.pending:,} waiting",
        f"{status.leased:,} in flight",
        f"{status.skipped:,} skipped",
        f"{status.dead:,} dead",
        size(status.bytes),
    ]
    return " | ".join(["paused", *parts] if status.paused else parts)


def approximation(settings: CrawlSettings) -> str:
    """What a crawl's visited set can be wrong about; "" for an exact one."""
    if settings.dedup == "exact":
        return ""
    missed = f"one new URL in {1 / FALSE_POSITIVES:,.0f} is missed"
    return f"visited set: a Bloom filter with a false-positive rate of {FALSE_POSITIVES:g}, {missed}"


def reasons(counts: Mapping[str, int]) -> str:
    """Why, in brackets, the most frequent reason first; "" when there is none."""
    parts = [f"{reason} {count:,}" for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))]
    return f" ({', '.join(parts)})" if parts else ""


def table(status: Status) -> str:
    """The status for people, a line a number."""
    exact = "" if status.exact else "  (counters; exact when complete)"
    rows = [
        ("crawl", status.crawl),
        ("state", "paused" if status.paused else status.state),
        ("discovered", f"{status.discovered:,}{exact}"),
        ("pending", f"{status.pending:,}"),
        ("leased", f"{status.leased:,}"),
        ("done", f"{status.done:,}"),
        ("skipped", f"{status.skipped:,}{reasons(status.skips)}"),
        ("dead", f"{status.dead:,}{reasons(status.deaths)}"),
        ("archived", size(status.bytes)),
        ("hosts", f"{status.hosts:,}"),
        ("workers alive", f"{status.workers_alive}"),
        ("pages per second", f"{status.pages_per_second:,.1f}"),
        ("started", status.started_at),
        ("updated", status.updated_at),
    ]
    return "\n".join(f"{name:<17}{value}" for name, value in rows)


def host_table(hosts: Sequence[HostRow], top: int) -> str:
    """The first hosts for people, a line each, and how many more there are."""
    rows = [
        ("host", "pending", "in flight", "done", "next turn", "interval", "why", "failures"),
        *map(_host_cells, hosts[:top]),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = (0, 6, 7)
    lines = [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if len(hosts) > top:
        lines.append(f"and {len(hosts) - top:,} hosts more (--top N)")
    return "\n".join(lines)


def _host_cells(host: HostRow) -> tuple[str, ...]:
    return (
        host.host,
        f"{host.pending:,}",
        f"{host.leased:,}",
        f"{host.done:,}",
        f"{host.next_turn:,.1f} s" if host.next_turn else "now",
        f"{host.interval:,g} s" if host.interval else "none",
        host.why,
        f"{host.failures:,}  {shorten(host.error, ERROR_WIDTH)}".rstrip() if host.failures or host.error else "",
    )


def shorten(text: str, width: int) -> str:
    """A text in one line of at most `width` characters; what a server said may not command the terminal."""
    text = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))
    return text if len(text) <= width else text[: width - 1] + "…"


def verdict(report: VerifyReport) -> str:
    """What `verify` read and found, for people."""
    counts = report.counts
    sums = f"{counts.done:,} done + {counts.skipped:,} skipped + {counts.dead:,} dead"
    sums += f" + {counts.pending:,} pending + {counts.leased:,} leased"
    lines = [
        f"ledger: {counts.discovered:,} discovered = {sums}",
        f"archive: {report.rows:,} rows and {report.records:,} records in {report.files:,} files"
        + (f", {report.merged:,} rows merged" if report.merged is not None else ", not merged yet"),
    ]
    if report.paced:
        lines.append(f"pace: the times of {report.paced:,} requests against the rate of every host")
    if report.spare:
        lines.append(f"{report.spare:,} records were cut short by a kill; their pages were fetched again")
    if report.moving:
        lines.append("the crawl went on meanwhile: sums were not compared")
    lines += [f"FAULT: {fault}" for fault in report.faults]
    if report.fault_count > len(report.faults):
        lines.append(f"and {report.fault_count - len(report.faults):,} faults more")
    lines.append("nothing is missing" if report.ok else f"{report.fault_count:,} faults")
    return "\n".join(lines)


def done(text: str, given: Mapping[str, Any]) -> None:
    """What a command did: nothing with -q, but what --json asks for is printed."""
    if given["as_json"] or not given["quiet"]:
        out(text)


def out(text: str) -> None:
    """A line of result on standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
