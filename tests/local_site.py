"""Runs the demo site in a process of its own and reads its access log.

A pytest plugin, loaded by the conftest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from crawler.demo.content import PAGES, Site, Truth
from crawler.demo.site import running


class Request(msgspec.Struct, frozen=True):
    """One line of the access log. `url` is the canonical form of what was asked for, `target` what was sent."""

    at: float
    host: str
    status: int
    target: str
    url: str

    @property
    def is_robots(self) -> bool:
        return self.target == "/robots.txt"


class DemoSite:
    """A running demo site. `truth` says what a crawl of `seeds` with scope `host` must have asked for."""

    def __init__(self, site: Site, log: Path) -> None:
        self.seeds: tuple[str, ...] = site.seeds
        self.truth: Truth = site.truth
        self._site = site
        self._log = log

    def canonical(self, url: str) -> str:
        """The canonical form, as in `truth`, of any spelling of one of the site's URLs."""
        return self._site.canonical(url)

    def requests(self) -> list[Request]:
        """Every request since the start or the last `clear`, in order; one that has its answer is in."""
        requests = []
        for line in self._log.read_text().splitlines():
            at, host, status, target = line.split(" ", 3)
            url = self.canonical(self._site.origin(host) + target)
            requests.append(Request(float(at), host, int(status), target, url))
        return requests

    def fetched(self) -> Counter[str]:
        """How often each URL, in canonical form, got an answer other than 503; without robots.txt."""
        return Counter(r.url for r in self.requests() if not r.is_robots and r.status != 503)

    def clear(self) -> None:
        """Forget the requests so far."""
        self._log.write_text("")


@contextmanager
def demo_site_process(
    folder: Path, *, pages: int = PAGES, port: int = 0, delay_ms: int = 0, retry_503: int = 0, edited: str = ""
) -> Iterator[DemoSite]:
    """Serve the demo site until the block ends, with its access log in `folder`."""
    log = folder / "access.log"
    log.touch()
    with running(pages=pages, port=port, delay_ms=delay_ms, retry_503=retry_503, edited=edited, log=log) as site:
        yield DemoSite(site, log)


@pytest.fixture
def demo_site(tmp_path: Path) -> Iterator[DemoSite]:
    """A demo site of the usual size, new for each test."""
    with demo_site_process(tmp_path) as site:
        yield site
