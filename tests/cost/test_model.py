"""The model of a crawl's requests beside a crawl: real workers on the synthesized stack, counted on the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from bench import cost
from bench.cost import Crawled
from bench.site.plan import Shape
from tests.emulator import Template

pytestmark = [pytest.mark.e2e, pytest.mark.emulator]

FLUSH = 2
"""Requests of one flush: whether a worker has one more or less at its end is chance."""


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """What leads this process's own client to the emulator goes again."""
    with mock.patch.dict(os.environ):
        yield


def crawl(shape: Shape, rate: float, workers: int, folder: Path, template: Template) -> Crawled:
    """Crawl, and see that the fleet counted what passed."""
    crawled = cost.run(shape, rate, workers, folder, template)
    assert crawled.done >= shape.pages
    assert dict(crawled.counted.requests) == dict(crawled.wire.requests)
    assert dict(crawled.counted.units) == {unit: count for unit, count in crawled.wire.units.items() if count}
    return crawled


def agree(crawled: Crawled, shape: Shape, rate: float, workers: int) -> None:
    """The model is within a twentieth of what was counted, by service."""
    modelled = crawled.modelled(shape, rate, workers)
    cost.report(crawled, modelled)
    off = {service: modelled.of(service) - crawled.counted.of(service) for service in cost.SERVICES}
    assert abs(off["sqs"]) <= 0.05 * crawled.counted.of("sqs")
    assert abs(off["dynamodb"]) <= 0.05 * crawled.counted.of("dynamodb")
    assert abs(off["s3"]) <= max(0.05 * crawled.counted.of("s3"), FLUSH * workers)


@pytest.mark.parametrize(
    ("shape", "rate", "workers"),
    [
        (Shape(pages=360, hosts=24, port=8121, skew=0.0), 1.0, 2),
        (Shape(pages=300, hosts=30, port=8122, links=8, skew=0.0), 1.0, 3),
    ],
)
def test_requests_are_as_modelled(shape: Shape, rate: float, workers: int, tmp_path: Path, template: Template) -> None:
    agree(crawl(shape, rate, workers, tmp_path, template), shape, rate, workers)
