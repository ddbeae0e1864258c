"""The estimate: its model's parts hang together, its bill follows the stack's settings, and it says what bounds it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawler import contexts, settle
from crawler.archive import archive
from crawler.cost import model as model_
from crawler.cost import walk as walk_
from crawler.cost.estimate import Estimate, Fleet, estimate
from crawler.cost.model import Site, model
from crawler.cost.prices import by_service
from crawler.cost.usage import Unit
from crawler.cost.walk import walk
from crawler.state.aws import accounts, facts, gate, lanes, placing, queue
from infra.config import StackConfig
from tests import command


def made(pages: int = 100_000, hosts: int = 500, rate: float = 1.0, **fleet: Any) -> Estimate:
    return estimate(Site(pages=pages, hosts=hosts, rate=rate), Fleet(**fleet), answer=0.5)


def test_a_fleet_is_what_a_stack_is_by_default() -> None:
    stack = StackConfig()
    known = {name for name in Fleet.__struct_fields__ if hasattr(stack, name)}
    assert known == set(Fleet.__struct_fields__) - {"concurrency"}
    assert {name: getattr(Fleet(), name) for name in known} == {name: getattr(stack, name) for name in known}


def test_the_model_has_the_times_and_sizes_of_the_state() -> None:
    assert (model_.BEAT, model_.COUNTED) == (facts.BEAT_EVERY, facts.ALIVE)
    assert (model_.FRESH, model_.PAYS) == (contexts.REFRESH, accounts.EVERY)
    assert (model_.FLUSH, model_.REST) == (archive.LONGEST_FLUSH, lanes.LONGEST_REST)
    assert (model_.SOON, model_.FAR, model_.CHUNK) == (placing.SOON, placing.FAR, placing.LARGEST)
    assert model_.HORIZON == gate.HORIZON
    assert (walk_.MESSAGES, walk_.BATCH) == (queue.BATCH, settle.BATCH)


@pytest.mark.parametrize(("workers", "listed"), [(1, 0.0), (3, 0.0), (3, 1.0)])
def test_a_walk_finds_each_page_once_and_each_worker_asks_about_each(workers: int, listed: float) -> None:
    walked = walk(2_000, 20, 60, workers, pace=50, ahead=20, listed=listed)
    assert walked.pages == 2_000
    assert walked.new == 2_000 - 1 - (20 - 1 - _linked(walked.new))
    assert walked.asked == pytest.approx(2_000 * workers, rel=0.01)
    assert walked.looks >= walked.asked / 100
    assert walked.inserts >= walked.new / 25
    assert walked.sends >= walked.new / 10


def _linked(new: int) -> int:
    """How many of the other sites were found by links; those that were not are begun, and found by nobody."""
    return new - 2_000 + 20


def test_pages_to_which_no_link_leads_are_walked_through_all_the_same() -> None:
    walked = walk(2_000, 20, 1, 2, pace=0, ahead=0, listed=0.0)
    assert walked.pages == 2_000
    assert walked.new < 2_000


def test_a_host_is_known_to_be_prompt_once_one_worker_has_had_three_answers() -> None:
    assert model_._unknown(1) == 3
    assert model_._unknown(2) == 3 * 2 / 8 + 4 * 3 / 8 + 5 * 3 / 8
    assert model_._unknown(3) < model_._unknown(8) < model_._unknown(100_000) < 50


def test_functions_receive_nothing_themselves_and_flush_at_the_end_of_each_call() -> None:
    site = Site(pages=10_000, hosts=50)
    processes, functions = model(site, 4, 250), model(site, 4, 250, calls=100)
    assert functions.requests["sqs.ReceiveMessage"] == 1_000 < processes.requests["sqs.ReceiveMessage"]
    assert "sqs.ChangeMessageVisibilityBatch" not in functions.requests
    assert functions.requests["s3.PutObject"] == 200 > processes.requests["s3.PutObject"]


def test_a_large_crawl_is_a_multiple_of_a_smaller_one() -> None:
    small, large = made(pages=1_000_000), made(pages=2_000_000, hosts=1_000)
    ratio = sum(by_service(large.lines).values()) / sum(by_service(small.lines).values())
    assert ratio == pytest.approx(2, rel=0.15)  # more workers look up a little more


def test_hosts_that_are_paced_cost_writes_for_their_turns() -> None:
    site = Site(pages=10_000, hosts=50)
    paced, free = model(site, 2, 300), model(msgspec.structs.replace(site, rate=0.0), 2, 300)
    assert paced.units[Unit.WRITES] > free.units[Unit.WRITES] + 3_000
    assert "sqs.ChangeMessageVisibilityBatch" not in free.requests


def test_more_workers_look_more_up() -> None:
    site = Site(pages=10_000, hosts=50)
    assert model(site, 8, 100).units[Unit.HALF_READS] > 1.5 * model(site, 2, 100).units[Unit.HALF_READS]


@pytest.mark.parametrize(
    ("settings", "workers", "bound"),
    [
        ({"pages": 1_000_000, "hosts": 10}, 1, "the hosts: 10 at 1 requests/s"),
        ({"pages": 1_000_000, "hosts": 100_000}, 8, "the fleet: 8 workers"),
        ({"pages": 1_000_000, "rate": 0.0, "max_workers": 3}, 3, "the fleet: 3 workers"),
        ({"pages": 1_000, "rate": 0.0}, 1, "the start"),
    ],
)
def test_what_bounds_the_time_is_told(settings: dict[str, Any], workers: int, bound: str) -> None:
    found = made(**settings)
    assert found.workers == workers
    assert found.bound.startswith(bound)


def test_the_time_is_the_hosts_pages_at_their_rate_and_the_start() -> None:
    assert made(pages=100_000, hosts=100).seconds == pytest.approx(1_000 + 150)


def test_spot_is_cheaper_than_on_demand_and_functions_have_no_addresses() -> None:
    spot, on_demand, functions = (
        by_service(made(**settings).lines) for settings in ({}, {"spot": False}, {"fetchers": "lambda"})
    )
    assert spot["Fargate"] < on_demand["Fargate"]
    assert spot["SQS"] == on_demand["SQS"]
    assert "Fargate" not in functions
    assert functions["Lambda"] > 0


@pytest.mark.parametrize(("hosts", "seconds"), [(8, 0.125), (100, 0.08)])
def test_functions_are_paid_for_waiting_for_turns(hosts: int, seconds: float) -> None:
    """As measured: 0.123 seconds of a function of 1 GB for a page of eight hosts at one a second."""
    (line,) = [line for line in made(hosts=hosts, fetchers="lambda").lines if line.what == "GB-seconds"]
    assert line.amount / 100_000 == pytest.approx(seconds, rel=0.02)


def test_provisioned_capacity_is_cheaper_where_it_is_used() -> None:
    found = made()
    assert found.provisioned < 0.5 * by_service(found.lines)["DynamoDB"]


def test_the_command_estimates_without_a_state() -> None:
    arguments = ("cost", "--estimate", "1e5", "--hosts", "80", "--fetchers", "lambda", "--json")
    answer = command.run(*arguments)
    assert answer.returncode == 0, answer.stderr
    told = msgspec.json.decode(answer.stdout)
    assert told["pages"] == 100_000
    assert told["total"] == pytest.approx(sum(told["dollars"].values()), abs=1e-5)
    assert told["per_million_pages"] == pytest.approx(10 * told["total"], rel=1e-3)
    assert set(told["dollars"]) == {"SQS", "DynamoDB", "S3", "Lambda", "CloudWatch"}
    assert told["prices"]["region"] == "us-east-1"
    people = command.run(*arguments[:-1]).stdout
    assert "100,000 pages" in people
    assert "bound by the hosts" in people
    assert "list prices of us-east-1" in people


@pytest.mark.parametrize(
    "arguments",
    [
        ("1",),
        ("2", "--hosts", "1", "--rate", "0"),
        ("10", "--hosts", "50"),
        ("1e4", "--links", "1"),
        ("1e4", "--links", "100000", "--sitemaps"),
        ("1e4", "--rate", "0", "--kb", "0"),
        ("1e9", "--rate", "0", "--max-workers", "100000"),
        ("1e12", "--hosts", "1", "--fetchers", "lambda"),
    ],
)
def test_every_crawl_has_an_estimate(arguments: tuple[str, ...]) -> None:
    answer = command.run("cost", "--json", "--estimate", *arguments)
    assert answer.returncode == 0, answer.stderr
    told = msgspec.json.decode(answer.stdout)
    assert told["pages"] == int(float(arguments[0]))
    assert told["total"] > 0 < told["seconds"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("many",), "write for example 1e6"),
        (("0",), "write for example 1e6"),
        (("-5",), "write for example 1e6"),
        (("nan",), "write for example 1e6"),
        (("1e6", "--links", "0"), "0 is not in the range"),
        (("1e6", "--hosts", "0"), "0 is not in the range"),
        (("1e6", "--rate", "-1"), "-1.0 is not in the range"),
        (("1e6", "--rate", "inf"), "inf is not in the range"),
        (("1e6", "--kb", "nan"), "'nan' is no number"),
        (("1e6", "--answer", "inf"), "inf is not in the range"),
        (("1e6", "--fetchers", "ec2"), "'ec2' is not one of"),
    ],
)
def test_what_cannot_be_is_wrong_usage(arguments: tuple[str, ...], says: str) -> None:
    answer = command.run("cost", "--estimate", *arguments)
    assert answer.returncode == 2
    assert says in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
