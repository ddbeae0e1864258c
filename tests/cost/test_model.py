"""The model of a crawl's requests beside a crawl: real workers on the synthesized stack, counted on the wire.

Where hosts are not paced the workers are never short of pages, and what they ask for follows from the sizes of batches.
Where hosts are paced it depends on when pages come, too: crawls differ by a few percent, and by more on a machine that
is busy. So where one crawl is off, the mean of several decides.

The model's measured figures were chosen by crawls of the shapes named `known`, and of others. Those named `unused` and
the one without a name had no part in it: they were crawled once that was done, and nothing was changed for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from bench import cost
from bench.cost import Crawled
from bench.linked import Linked
from crawler.cost.prices import dollars
from crawler.cost.usage import Usage
from tests.emulator import Template

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.timeout(600)]

OFF = 0.05
"""Share by which a figure may be off."""

CRAWLS = 3


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What leads this process's own client to the emulator goes again."""
    with mock.patch.dict(os.environ):
        yield


def crawls(sites: Linked, rate: float, workers: int, folder: Path, template: Template) -> Iterator[tuple[Usage, Usage]]:
    """What was counted and what was modelled, of one crawl, then of two together, then of three."""
    counted, modelled = Usage(), Usage()
    for number in range(CRAWLS):
        crawled = cost.run(sites, rate, workers, folder / str(number), template)
        assert crawled.done == sites.pages
        _counted_what_passed(crawled)
        one = crawled.modelled(sites, rate, workers)
        cost.report(crawled, one)
        counted, modelled = counted + crawled.counted, modelled + one
        yield counted, modelled


def _counted_what_passed(crawled: Crawled) -> None:
    """The accounts hold what passed on the wire, exactly, by operation and by unit."""
    assert dict(crawled.counted.requests) == dict(crawled.wire.requests)
    assert dict(crawled.counted.units) == {unit: count for unit, count in crawled.wire.units.items() if count}


def as_many(counted: Usage, modelled: Usage) -> bool:
    """Whether the requests are as modelled in all, and about so at each service that has many."""
    off = cost.shares(counted, modelled)
    return abs(off["all"]) <= OFF and all(abs(share) <= 2 * OFF for share in off.values())


def as_dear(counted: Usage, modelled: Usage) -> bool:
    """Whether the dollars are as modelled."""
    spent, thought = sum(dollars(counted).values()), sum(dollars(modelled).values())
    return abs(thought / spent - 1) <= OFF


def test_a_worker_that_has_all_the_pages_it_can_fetch_makes_as_many_requests_as_modelled(
    tmp_path: Path, template: Template
) -> None:
    sites = Linked(hosts=12, size=100, links=64, port=8120)
    crawled = cost.run(sites, 0.0, 1, tmp_path, template)
    assert crawled.done == sites.pages
    _counted_what_passed(crawled)
    modelled = crawled.modelled(sites, 0.0, 1)
    cost.report(crawled, modelled)
    assert abs(cost.shares(crawled.counted, modelled)["all"]) <= OFF
    assert as_dear(crawled.counted, modelled)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sites", "workers"),
    [
        pytest.param(Linked(hosts=10, size=150, links=70, port=8121), 2, id="known"),
        pytest.param(Linked(hosts=6, size=400, links=72, port=8122), 2, id="unused-large"),
        pytest.param(Linked(hosts=14, size=180, links=64, port=8123), 1, id="unused-alone"),
    ],
)
def test_busy_workers_make_as_many_requests_as_modelled(
    sites: Linked, workers: int, tmp_path: Path, template: Template
) -> None:
    assert any(as_many(*both) for both in crawls(sites, 0.0, workers, tmp_path, template))


@pytest.mark.long
@pytest.mark.parametrize(
    ("sites", "rate", "workers"),
    [
        pytest.param(Linked(hosts=20, size=35, links=60, port=8124), 1.0, 2, id="known"),
        pytest.param(Linked(hosts=30, size=15, links=30, port=8125, listed=True), 1.0, 3, id="known-sitemaps"),
        pytest.param(Linked(hosts=18, size=28, links=45, port=8126, listed=True), 1.0, 1, id="unused-sitemaps"),
        pytest.param(Linked(hosts=9, size=45, links=50, port=8127), 1.0, 2, id="unused-few-hosts"),
        pytest.param(Linked(hosts=20, size=60, links=30, port=8128, listed=True), 0.0, 1, id="unused-unpaced"),
    ],
)
def test_a_crawl_is_as_dear_as_modelled(
    sites: Linked, rate: float, workers: int, tmp_path: Path, template: Template
) -> None:
    assert any(as_dear(*both) for both in crawls(sites, rate, workers, tmp_path, template))
