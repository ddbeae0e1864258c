"""Opening a state: what an address means, and one clear line when it cannot be."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from crawler.config import CrawlSettings
from crawler.errors import CrawlerError, StateMismatch, StateMissing, StateUnavailable, UsageError
from crawler.model import CrawlRecord
from crawler.state.aws import state as aws_state
from crawler.state.aws.address import Names, parse
from crawler.state.aws.queue import Outgoing, packed
from crawler.state.aws.records import group
from crawler.state.aws.state import AwsState
from crawler.state.open import open_state, spoken, stack_of
from tests.aws.places import Place
from tests.emulator import Emulator


def test_an_address_without_stack_needs_a_queue_and_a_table() -> None:
    assert parse("queue=q&table=t") == Names(lanes=("q", "q", "q"), table="t", control="t")
    full = "queue=q&high=h&low=l&dlq=d&table=t&control=k&bucket=b"
    assert parse(full) == Names(lanes=("h", "q", "l"), table="t", control="k", dead_letters="d", bucket="b")


@pytest.mark.parametrize("query", ["", "queue=q", "table=t", "queue=&table=t", "queue=q&table=t&tabel=x", "nonsense"])
def test_an_address_that_cannot_be_meant_is_refused(query: str) -> None:
    with pytest.raises(UsageError, match="aws:"):
        parse(query)


@pytest.mark.parametrize("form", ["aws:{}", "aws://{}"])
async def test_both_forms_reach_the_backend(place: Place, form: str) -> None:
    state = await open_state(form.format(place.address), worker="w")
    assert state.home == "s3://shelf"
    await state.close()


async def test_a_stack_names_its_parts_in_its_outputs(emulator: Emulator, place: Place) -> None:
    values = {
        "FrontierHigh": place.high,
        "FrontierNormal": place.normal,
        "FrontierLow": place.low,
        "VisitedTable": place.table,
        "ControlTable": place.control,
        "ArchiveBucket": "shelf",
    }
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {key: {"Value": value} for key, value in values.items()},
    }
    name = place.table
    emulator.client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template))
    state = await open_state(f"aws://{name}", worker="w")
    assert state.home == "s3://shelf"
    assert await state.crawls() == []
    await state.close()


async def test_a_stack_whose_parts_are_named_is_not_asked_for_them(place: Place) -> None:
    state = await open_state(f"aws://Crawler{place.address}", worker="w")
    assert isinstance(state, AwsState)
    assert not [operation for operation in state.requests if operation.startswith("cloudformation")]
    assert state.home == "s3://shelf"
    await state.close()


def test_people_and_metrics_know_a_stack_by_its_name_alone() -> None:
    for address in ("aws://Crawler", "aws://Crawler?queue=q&table=t"):
        assert (stack_of(address), spoken(address)) == ("Crawler", "aws://Crawler")
    for address in ("aws:?queue=q&table=t", "redis://127.0.0.1/0", "state.sqlite"):
        assert (stack_of(address), spoken(address)) == ("", address)


async def test_where_functions_alone_fetch_no_crawl_begins_that_needs_a_module(place: Place) -> None:
    wanted = CrawlSettings(extract="shop:price")
    for fetchers in ("lambda", "both", "fargate"):
        state = await open_state(f"aws:{place.address}&fetchers={fetchers}", worker="w")
        if fetchers == "lambda":
            with pytest.raises(UsageError, match="--extract shop:price: on this stack functions fetch"):
                await state.create(CrawlRecord(id="c", started_at=1.0, settings=wanted))
            assert await state.crawls() == []
            await state.create(CrawlRecord(id="plain", started_at=1.0, settings=CrawlSettings()))
            with pytest.raises(UsageError, match="--extract"):
                await state.amend("plain", wanted)
        else:
            await state.create(CrawlRecord(id=fetchers, started_at=1.0, settings=wanted))
        await state.close()


async def one_line(address: str) -> CrawlerError:
    with pytest.raises(CrawlerError) as caught:
        await AwsState.open(address, worker="w")
    assert "\n" not in str(caught.value)
    return caught.value


async def test_what_is_not_there_is_missing(emulator: Emulator, place: Place) -> None:
    nowhere = await one_line("nosuchstack")
    assert isinstance(nowhere, StateMissing)
    assert "us-east-1" in str(nowhere)
    assert isinstance(await one_line(f"?queue=nosuchqueue&table={place.table}"), StateMissing)
    assert isinstance(await one_line(f"?queue={place.normal}&table=nosuchtable"), StateMissing)
    template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
    emulator.client("cloudformation").create_stack(StackName=f"{place.table}-other", TemplateBody=template)
    error = await one_line(f"{place.table}-other")
    assert isinstance(error, StateMissing)
    assert "no output" in str(error)


async def test_a_table_of_another_shape_is_a_mismatch(place: Place) -> None:
    name = f"{place.table}-else"
    place.dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    assert isinstance(await one_line(f"?queue={place.normal}&table={name}"), StateMismatch)


@pytest.fixture
def bare(place: Place, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without the credentials and files of this machine."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    return monkeypatch


async def test_without_credentials_the_line_says_so(place: Place, bare: pytest.MonkeyPatch) -> None:
    bare.delenv("AWS_ACCESS_KEY_ID")
    bare.delenv("AWS_SECRET_ACCESS_KEY")
    error = await one_line(place.address)
    assert isinstance(error, UsageError)
    assert "credentials" in str(error)


async def test_without_region_the_line_says_so(place: Place, bare: pytest.MonkeyPatch) -> None:
    bare.delenv("AWS_DEFAULT_REGION")
    for address in (place.address, "stack"):
        error = await one_line(address)
        assert isinstance(error, UsageError)
        assert "region" in str(error)


async def test_an_endpoint_that_is_down_is_unavailable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert isinstance(await one_line(place.address), StateUnavailable)


@pytest.fixture
def silent() -> Iterator[str]:
    """An endpoint that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_an_endpoint_that_is_silent_is_unavailable(
    place: Place, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_state, "OPENING", 0.5)
    monkeypatch.setenv("AWS_ENDPOINT_URL", silent)
    for address in (place.address, "stack"):
        assert isinstance(await one_line(address), StateUnavailable)


@pytest.mark.case("F06")
@pytest.mark.parametrize("gate", ["site.example", "xn--bcher-kva.example", "::1", "a" * 128])
def test_a_gate_that_sqs_takes_is_its_own_group(gate: str) -> None:
    assert group(gate) == gate


@pytest.mark.case("F06")
@pytest.mark.parametrize("gate", ["", "b\u00fccher.example", "a" * 129, "a b", "\ud800"])
def test_other_gates_are_hashed(gate: str) -> None:
    assert len(group(gate)) == 64
    assert group(gate).isalnum()


@pytest.mark.case("F04")
def test_batches_are_cut_by_count_and_by_bytes() -> None:
    small = [Outgoing(1, "x", "g") for _ in range(21)]
    assert [len(batch) for batch in packed(small)] == [10, 10, 1]
    large = [Outgoing(1, "x" * 100_000, "g") for _ in range(5)]
    assert [len(batch) for batch in packed(large)] == [2, 2, 1]
