"""`make hostile`: crawls of 2,000 URLs of a hostile site, one a seed.

python -m tests.hostile [SEED...]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hostile.held_up import BLOCKED, held_up
from tests.hostile.site import hostile_site
from tests.hostile.trial import crawl

GOOD, HOSTILE, SLOW = 500, 1440, 60


def main(seeds: list[int]) -> None:
    """Crawl; an AssertionError says what went wrong."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder, hostile_site(seed, good=GOOD, hostile=HOSTILE, slow=SLOW) as site:
            trial = crawl(site, Path(folder) / "out", "--max-attempts", "2")
        print(f"seed {seed}: {trial.seconds:.0f} s, {trial.memory / 1e6:.0f} MB at most")
        for outcome, count in sorted(trial.outcomes.items(), key=lambda item: -item[1]):
            print(f"  {count:5} {outcome}")
        with tempfile.TemporaryDirectory() as folder, hostile_site(seed, good=GOOD, hostile=HOSTILE) as site:
            longest = held_up(site.seed, Path(folder), done=GOOD)
        print(f"  event loop held up for {longest * 1000:.0f} ms at most")
        assert longest < BLOCKED


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [1, 2, 3])
