"""A bill as people read it, and as scripts do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from crawler.cost import prices
from crawler.cost.estimate import Estimate
from crawler.cost.prices import MILLION, Line

NOT_IN_IT = "data transfer, storage after the first month, support, taxes, free tiers"


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl cost. `lines` are what was spent, `kept` what its output costs a month, `requests` by operation.

    `at_least`: counts of workers that were killed may be missing.
    """

    crawl: str
    state: str
    pages: int
    at_least: bool
    requests: dict[str, int]
    lines: list[Line]
    kept: list[Line]
    notes: list[str]


def table(lines: Sequence[Line], pages: int) -> str:
    """A line a service and unit: amount, a page, dollars, dollars per million pages; and the sums by service."""
    rows = [("", "amount", "a page", "dollars", "per million pages")]
    for service, _ in sorted(prices.by_service(lines).items(), key=lambda each: -each[1]):
        rows += [_row(line, pages) for line in lines if line.service == service and line.amount]
    total = sum(line.dollars for line in lines)
    rows.append(("total", "", "", f"{total:,.4f}", f"{MILLION * total / pages:,.3f}" if pages else ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def _row(line: Line, pages: int) -> tuple[str, str, str, str, str]:
    name, dollars = f"{line.service} {line.what}", f"{line.dollars:,.4f}"
    if not pages:
        return name, _amount(line.amount), "", dollars, ""
    return (
        name,
        _amount(line.amount),
        f"{line.amount / pages:,.4f}",
        dollars,
        f"{MILLION * line.dollars / pages:,.3f}",
    )


def _amount(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 100 or amount == round(amount) else f"{amount:,.3g}"


def for_people(bill: Bill) -> str:
    """The bill of a crawl."""
    least = "at least: what workers that were killed used in their last minute is not counted" if bill.at_least else ""
    head = f"crawl {bill.crawl} ({bill.state}): {bill.pages:,} pages"
    return "\n".join(filter(None, [head, "", table(bill.lines, bill.pages), "", least, *_foot(bill.kept, bill.notes)]))


def estimate_for_people(estimate: Estimate) -> str:
    """An estimate."""
    head = f"{estimate.pages:,} pages, {estimate.workers} workers, {_time(estimate.seconds)}"
    capacity = sum(line.dollars for line in estimate.lines if line.service == "DynamoDB")
    provisioned = (
        f"with provisioned capacity DynamoDB would cost {estimate.provisioned:,.2f} dollars instead of {capacity:,.2f}"
    )
    body = ["", table(estimate.lines, estimate.pages), "", provisioned]
    return "\n".join([head, f"bound by {estimate.bound}", *body, *_foot(estimate.kept, estimate.notes)])


def as_values(lines: Sequence[Line], kept: Sequence[Line], pages: int) -> dict[str, Any]:
    """What both kinds of bill have for scripts: dollars by service, in all, and per million pages."""
    total = sum(line.dollars for line in lines)
    return {
        "dollars": {service: round(dollars, 6) for service, dollars in prices.by_service(lines).items()},
        "total": round(total, 6),
        "per_million_pages": round(MILLION * total / pages, 4) if pages else None,
        "lines": lines,
        "kept_a_month": kept,
        "prices": {"region": prices.REGION, "as_of": prices.AS_OF},
        "not_in_it": NOT_IN_IT,
    }


def _foot(kept: Sequence[Line], notes: Sequence[str]) -> list[str]:
    month = sum(line.dollars for line in kept)
    parts = ", ".join(f"{_amount(line.amount)} {line.service} {line.what}" for line in kept)
    return [
        *([f"keeping it costs {month:,.4f} dollars a month ({parts})"] if kept else []),
        *notes,
        f"list prices of {prices.REGION}, {prices.AS_OF}; not in it: {NOT_IN_IT}",
    ]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"
