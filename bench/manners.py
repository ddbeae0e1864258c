"""Read from the access log whether a crawl was complete and polite."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from crawler.demo.plan import resource

FORBIDDEN = ("/private/", "/nf/", "/search", "/commented-out", "/fake")
"""Disallowed by robots.txt, linked with nofollow only, or written in a comment, a form or a script only."""


@dataclass(frozen=True, slots=True)
class Manners:
    """`missed`: pages never fetched; `doubled`: answers for a page beyond its first; `forbidden`: requests for what
    a polite crawler leaves alone; `requests`: all of them."""

    pages: int
    missed: int
    doubled: int
    forbidden: int
    requests: int

    @property
    def faultless(self) -> bool:
        """Every page exactly once and nothing that is forbidden."""
        return not (self.missed or self.doubled or self.forbidden)


def read(log: Path, site: Path) -> Manners:
    """Compare an access log with the site's list of pages; spellings of one page are one page."""
    pages = (site / "urls.txt").read_text().split()
    fetched: Counter[str] = Counter()
    forbidden = requests = 0
    port = pages[0].split(":")[2].rstrip("/")
    for line in log.read_text().splitlines():
        _, host, status, target = line.split(" ", 3)
        requests += 1
        forbidden += target.startswith(FORBIDDEN)
        if status == "200":
            fetched[f"http://{host.lower()}:{port}{resource(target)}"] += 1
    return Manners(
        pages=len(pages),
        missed=sum(not fetched[page] for page in pages),
        doubled=sum(max(0, fetched[page] - 1) for page in pages),
        forbidden=forbidden,
        requests=requests,
    )
