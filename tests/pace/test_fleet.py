"""A fleet's pace, short: a few seconds on SQLite and Redis, with a worker killed on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.backends import BACKENDS
from tests.pace.figures import allowed, busiest_second, most_in_flight, share
from tests.pace.trial import Trial, run

pytestmark = pytest.mark.e2e

SHORT = Trial(hosts=4, rate=4, seconds=4, kills=1, apart=3)


@pytest.mark.case("F14")
@pytest.mark.parametrize("name", ["sqlite", "redis"])
def test_no_host_is_above_its_rate_and_each_gets_its_share_also_when_a_worker_dies(name: str, tmp_path: Path) -> None:
    outcome = run(BACKENDS[name], SHORT, tmp_path)
    assert outcome.faults == []
    assert set(outcome.requests) == set(SHORT.names)
    for requests in outcome.requests.values():
        assert busiest_second(requests) <= allowed(SHORT.rate)
        assert most_in_flight(requests) <= 2
    for phase in outcome.phases:
        for host in SHORT.names:
            got = [request for request in outcome.requests[host] if phase.begin <= request.arrived < phase.end]
            # A full-size trial asks for 0.95: here one turn is more than five hundredths, and other tests run beside.
            assert share(got, SHORT.rate, phase.end) >= 0.9


@pytest.mark.parametrize("name", ["sqlite", "redis"])
def test_a_slow_host_has_at_most_two_requests_in_flight(name: str, tmp_path: Path) -> None:
    slow = Trial(hosts=1, rate=8, seconds=5, delay=1.0)
    outcome = run(BACKENDS[name], slow, tmp_path)
    (requests,) = outcome.requests.values()
    assert len(requests) > 2
    assert most_in_flight(requests) <= 2
