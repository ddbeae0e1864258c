"""Whether a big, slow or dead host keeps small ones waiting: the time until these are finished, with and without it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.pace.fairness import Contest, Kind, run

MORE, BESIDE = 1.15, 2.0
"""What the small hosts may take beside a big one: so many times what they take alone, and seconds on top."""


def measure(backend: str, contests: Sequence[Contest]) -> bool:
    """Run the contests, the first without a big host, and print what the small ones took; whether none had to wait.

    What failed runs leave behind is kept. SystemExit that says what is missing.
    """
    first = contests[0]
    print(
        f"{first.processes} processes on {backend}: {first.hosts} hosts with {first.pages} pages each at"
        f" {first.rate:g}/s, beside one with {max(contest.big for contest in contests):,}"
    )
    alone, fair = 0.0, True
    for contest in contests:
        folder = Path(tempfile.mkdtemp(prefix=f"fairness-{backend}-"))
        try:
            found = run(BACKENDS[backend], contest, folder)
        except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # how the tests' harness says what it lacks
            sys.exit(f"bench: {missing}")
        if contest.kind is Kind.ABSENT:
            alone = found.seconds
        within = found.seconds <= alone * MORE + BESIDE
        print(
            f"big host {contest.kind:8} {found.answered} small pages in {found.seconds:6.1f} s;"
            f" {found.meanwhile} requests to the big host meanwhile; started in {found.starting:.1f} s"
            + ("" if within else f"  BROKEN: {alone * MORE + BESIDE:.1f} s are allowed, see {folder}"),
            flush=True,
        )
        fair &= within and found.seconds < float("inf")
        if within:
            shutil.rmtree(folder)
    return fair
