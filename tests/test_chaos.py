"""The practice run, short: a few hundred pages and a handful of kills on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS, Place, stack
from tests.chaos.figures import ahead, busiest_second
from tests.chaos.run import Practice, practise
from tests.emulator import Emulator, Template
from tests.local_site import Request

SHORT = Practice(pages=300, kills=5, rate=60, lease=5)


def requests(*times: float, host: str = "a.localhost") -> list[Request]:
    return [Request(at, host, 200, "/", f"http://{host}/") for at in times]


def test_the_busiest_second_begins_anywhere_and_is_one_host_s() -> None:
    assert busiest_second(requests(0.0, 0.7, 0.9, 1.1, 1.6, 1.71)) == 4
    assert busiest_second(requests(0.1, 0.2) + requests(0.15, 0.25, 0.3, host="b.localhost")) == 3
    assert busiest_second(requests(0.0, 1.0, 2.0)) == 1


def test_a_host_is_ahead_of_its_rate_by_what_its_requests_came_too_early() -> None:
    assert ahead(requests(0.0, 0.5, 1.0, 4.0, 4.5), rate=2) == 0.0
    assert ahead(requests(0.0, 0.4, 0.8, 4.0), rate=2) == pytest.approx(0.2)
    assert ahead(requests(0.0, 10.0, 10.0, 10.0), rate=2) == pytest.approx(1.0)


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["sqlite", "redis"])
def test_no_page_is_lost_or_doubled_however_workers_are_killed(name: str, tmp_path: Path) -> None:
    figures = practise(BACKENDS[name], SHORT, tmp_path)
    assert figures.failures(SHORT.kills) == []


@pytest.mark.e2e
@pytest.mark.emulator
def test_nor_is_one_on_the_deployed_stack(emulator: Emulator, template: Template, tmp_path: Path) -> None:
    @contextmanager
    def deployed(_: Path, lease: int) -> Iterator[Place]:
        yield stack(emulator, template, "ChaosShort", lease)

    figures = practise(deployed, SHORT, tmp_path)
    assert figures.failures(SHORT.kills) == []
