"""What `verify` found, as values."""

from __future__ import annotations

import msgspec

from crawler.model import Counts

SHOWN = 100
"""Faults kept as sentences; the rest are counted."""


class VerifyReport(msgspec.Struct):
    """What was read, and the faults found: sentences (the first SHOWN) and how many there are.

    `spare` counts records whose row a kill cut short: their pages came again. `moving`: the crawl went on meanwhile,
    so sums were not compared. `merged` is the number of rows in the Parquet file, None without one. `paced` counts
    the requests whose times were held against the crawl's rate.
    """

    counts: Counts
    pages: int = 0
    rows: int = 0
    records: int = 0
    files: int = 0
    spare: int = 0
    paced: int = 0
    merged: int | None = None
    moving: bool = False
    faults: list[str] = msgspec.field(default_factory=list)
    fault_count: int = 0

    @property
    def ok(self) -> bool:
        return not self.fault_count

    def fault(self, text: str) -> None:
        self.fault_count += 1
        if len(self.faults) < SHOWN:
            self.faults.append(text)
