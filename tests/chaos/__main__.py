"""`python -m tests.chaos`: practice runs at full size, one after the other; exit 1 when anything is amiss."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.chaos.run import Practice, practise

SHOWN = 12
"""Failures of a run that are printed."""


def main() -> None:
    usual = Practice()
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Crawl while workers are killed.")
    parser.add_argument("--backend", choices=[*BACKENDS, "all"], default="all", help="default: %(default)s")
    parser.add_argument("--pages", type=int, default=usual.pages, help="URLs to answer (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=usual.workers, help="processes (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=usual.kills, help="at least so many (default: %(default)s)")
    parser.add_argument(
        "--rate", type=float, default=usual.rate, help="requests a second to a host (default: %(default)s)"
    )
    parser.add_argument("--lease", type=int, default=usual.lease, help="seconds (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=1, help="how often each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1000), help="of the kills (default: a new one)")
    given = parser.parse_args()
    names = list(BACKENDS) if given.backend == "all" else [given.backend]
    failed = 0
    for name in names:
        for run in range(given.runs):
            practice = Practice(
                given.pages, given.workers, given.kills, given.rate, lease=given.lease, seed=given.seed + run
            )
            print(f"{name}, run {run + 1} of {given.runs} (--seed {practice.seed})", flush=True)
            failed += not passes(name, practice)
    if failed:
        sys.exit(f"{failed} of {len(names) * given.runs} practice runs failed")


def passes(name: str, practice: Practice) -> bool:
    """Run one and print its figures. What a failed run leaves behind is kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"chaos-{name}-"))
    try:
        figures = practise(BACKENDS[name], practice, folder)
    except (pytest.skip.Exception, AssertionError) as error:  # a service is missing, a command failed
        failures = [str(error)]
    else:
        failures = figures.failures(practice.kills)
        for line in figures.lines():
            print(f"  {line}")
    for failure in failures[:SHOWN]:
        print(f"  FAILED  {failure}")
    if len(failures) > SHOWN:
        print(f"  FAILED  and {len(failures) - SHOWN} more")
    if failures:
        print(f"  everything is kept in {folder}", flush=True)
    else:
        print("  passed", flush=True)
        shutil.rmtree(folder)
    return not failures


if __name__ == "__main__":
    main()
