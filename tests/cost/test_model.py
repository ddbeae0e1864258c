"""The model of a crawl's requests beside a crawl: real workers on the synthesized stack, counted on the wire.

Crawls differ by a few percent: how long a poll lasts and how full it comes back is chance, and on a small crawl that is
much. So where one crawl is off, the mean of several decides.
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

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.long, pytest.mark.timeout(600)]

OFF = 0.05
"""Share by which a figure may be off."""

FLUSH = 2
"""Requests of one flush: whether a worker has one more or less at its end is chance."""

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


def right(counted: Usage, modelled: Usage, workers: int) -> bool:
    """Whether the requests of each service are as modelled."""
    off = {service: abs(modelled.of(service) - counted.of(service)) for service in cost.SERVICES}
    return (
        off["sqs"] <= OFF * counted.of("sqs")
        and off["dynamodb"] <= OFF * counted.of("dynamodb")
        and off["s3"] <= max(OFF * counted.of("s3"), FLUSH * workers)
    )


@pytest.mark.parametrize(
    ("sites", "rate", "workers"),
    [
        pytest.param(Linked(hosts=60, size=14, links=60, port=8121), 1.0, 2, id="paced"),
        pytest.param(Linked(hosts=50, size=20, links=60, port=8122), 0.0, 2, id="unpaced"),
    ],
)
def test_requests_of_each_service_are_as_modelled(
    sites: Linked, rate: float, workers: int, tmp_path: Path, template: Template
) -> None:
    assert any(right(*both, workers) for both in crawls(sites, rate, workers, tmp_path, template))


@pytest.mark.parametrize(
    ("sites", "rate", "workers"),
    [
        pytest.param(Linked(hosts=40, size=15, links=30, port=8123, listed=True), 1.0, 3, id="sitemaps"),
        pytest.param(Linked(hosts=20, size=30, links=20, port=8124, listed=True), 1.0, 1, id="alone"),
        pytest.param(Linked(hosts=6, size=100, links=60, port=8125), 1.0, 2, id="few-hosts"),
        pytest.param(Linked(hosts=20, size=60, links=30, port=8126, listed=True), 0.0, 2, id="unpaced-sitemaps"),
    ],
)
def test_dollars_of_a_crawl_are_as_modelled(
    sites: Linked, rate: float, workers: int, tmp_path: Path, template: Template
) -> None:
    assert any(_as_dear(*both) for both in crawls(sites, rate, workers, tmp_path, template))


def _as_dear(counted: Usage, modelled: Usage) -> bool:
    spent, thought = sum(dollars(counted).values()), sum(dollars(modelled).values())
    return abs(thought / spent - 1) <= OFF
