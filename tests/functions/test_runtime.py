"""The fetcher function under Lambda's runtime interface client, from the very folder that is deployed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crawler.entrypoints.fetcher_function import RESERVE
from crawler.entrypoints.function_folder import PREFIX
from infra import bundle
from tests.aws.places import Place
from tests.aws.proxy import Proxy
from tests.command import wait_for
from tests.functions.conftest import Seed
from tests.functions.events import answered, event, failed
from tests.functions.runtime import Runtime, running
from tests.functions.test_fetcher import leaf, linked, pages
from tests.manners.crawls import HTML, site
from tests.servers import Peer, reply, serve

pytestmark = [pytest.mark.emulator, pytest.mark.e2e]

HANDLER = "crawler.entrypoints.fetcher_function.handler"


@pytest.fixture(scope="module")
def asset() -> Path:
    """The function's folder, with libraries for this machine."""
    return bundle.build("fetcher", here=True)


Start = Callable[..., Runtime]


@pytest.fixture
def start(asset: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts the function with this process's settings, and others given; ends all that it started."""
    with ExitStack() as stack:

        def start(**settings: str) -> Runtime:
            given = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "CRAWLER_"))}
            log = tmp_path / f"function-{len(list(tmp_path.iterdir()))}.log"
            return stack.enter_context(running(HANDLER, asset, {**given, **settings}, log))

        yield start


@pytest.fixture
def function(place: Place, start: Start) -> Runtime:
    return start()


async def call(function: Runtime, event: dict[str, Any], seconds: float = 60.0) -> tuple[str, Any]:
    return await asyncio.to_thread(function.invoke, event, seconds)


def staying(answer: tuple[str, Any]) -> list[str]:
    kind, body = answer
    assert kind == "response", body
    return [failure["itemIdentifier"] for failure in body["batchItemFailures"]]


async def test_an_event_is_answered_and_a_frozen_process_goes_on_with_the_next(
    place: Place, seed: Seed, function: Runtime
) -> None:
    async with serve(site(linked)) as server:
        state = await seed(*(server.url(f"/p{number}") for number in range(20)))
        for _ in range(2):
            batch = event(place)
            assert len(batch["Records"]) == 20
            assert staying(await call(function, batch)) == []
            answered(place, batch, [])
            function.freeze()
            await asyncio.sleep(0.5)
            function.thaw()
        assert set(pages(server.targets).values()) == {1}
        assert server.targets.count("/robots.txt") == 1
    assert (await state.counts("c")).done == 40
    assert place.depth() == (0, 0, 0)


async def test_connections_that_died_while_the_process_was_frozen_cost_no_page_an_attempt(
    place: Place, seed: Seed, proxy: Proxy, start: Start
) -> None:
    peers = []

    async def script(peer: Peer) -> None:
        peers.append(peer)
        await site(linked)(peer)

    async with serve(script) as server:
        state = await seed(*(server.url(f"/p{number}") for number in range(20)))
        function = start()
        batch = event(place)
        assert staying(await call(function, batch)) == []
        answered(place, batch, [])
        assert server.open > 0
        function.freeze()
        proxy.hang_up()
        for peer in peers:
            peer.reset()
        batch = event(place)
        function.thaw()
        assert staying(await call(function, batch)) == []
        answered(place, batch, [])
        assert set(pages(server.targets).values()) == {1}
    counts = await state.counts("c")
    assert (counts.done, counts.dead) == (40, 0)
    assert place.depth() == (0, 0, 0)
    assert all("attempts" not in item for item in place.items())


@pytest.mark.long
async def test_a_call_whose_time_runs_out_ends_before_its_timeout(place: Place, seed: Seed, function: Runtime) -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b" /robots.txt " not in head:
                await asyncio.sleep(2.0)
            await peer.send(reply(b"a page", HTML))

    async with serve(script) as server:
        state = await seed(*(server.url(f"/{number}") for number in range(200)))
        batch = event(place)
        assert staying(await call(function, batch, RESERVE + 4)) == []
        answered(place, batch, [])
        counts = await state.counts("c")
        assert 0 < counts.done < 200
        visible, in_flight, delayed = place.depth()
        assert (visible + delayed, in_flight) == (200 - counts.done, 0)


@pytest.mark.long
async def test_what_cannot_be_settled_is_a_failure_of_the_batch_in_part(
    place: Place, seed: Seed, proxy: Proxy, start: Start
) -> None:
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        place.send("{no message}")
        function = start()
        batch = event(place)
        for operation in ("BatchExecuteStatement", "SendMessageBatch"):
            proxy.fail(operation, 400, "AccessDeniedException", times=1_000)
        left = staying(await call(function, batch, RESERVE + 8))
        page = next(record for record in batch["Records"] if "page" in record["body"])
        assert left == [page["messageId"]]
        proxy.heal()
        answered(place, batch, left)
        failed(place, {"Records": [page]})
        assert staying(await call(function, event(place))) == []
    assert pages(server.targets) == {"/page": 2}


async def test_an_exception_is_reported_as_an_error_and_all_messages_stay(
    place: Place, seed: Seed, start: Start
) -> None:
    await seed("https://site.example/")
    function = start(CRAWLER_STATE="aws://Crawler?queue=nowhere&table=nowhere")
    kind, error = await call(function, event(place))
    assert kind == "error"
    assert error["errorType"] == "StateMissing"
    assert "nowhere" in error["errorMessage"]
    assert place.depth() == (0, 1, 0)


async def test_a_killed_process_loses_nothing(place: Place, seed: Seed, function: Runtime, start: Start) -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b" /robots.txt " not in head:
                await asyncio.sleep(0.2)
            await peer.send(linked(head.split(b" ", 2)[1].decode(), head))

    async with serve(script) as server:
        state = await seed(*(server.url(f"/p{number}") for number in range(100)))
        batch = event(place)
        calling = asyncio.create_task(call(function, batch))
        await asyncio.to_thread(wait_for, lambda: len(pages(server.targets)) >= 30)
        function.kill()
        assert await calling == ("killed", None)
        failed(place, batch)
        other = start()
        while (again := event(place))["Records"]:
            assert staying(await call(other, again)) == []
            answered(place, again, [])
    counts = await state.counts("c")
    assert (counts.discovered, counts.done) == (200, 200)
    assert set(pages(server.targets)) == {f"/{kind}{number}" for kind in ("p", "leafp") for number in range(100)}


def test_log_lines_hide_what_urls_may_hold_in_secret(place: Place, function: Runtime) -> None:
    place.send('{"url": "nonsense https://user:secret@site.example/?token=secret"}')
    assert staying(function.invoke(event(place))) == []
    (line,) = (json.loads(line) for line in function.output.splitlines() if "no seed" in line)
    assert line["level"] == "WARNING"
    assert "https://site.example/" in line["message"]
    assert "secret" not in function.output


def test_what_a_killed_process_left_in_tmp_is_gone_and_what_others_have_stays(
    place: Place, start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "tmp"
    left, others = (folder / f"{PREFIX}{pid}" for pid in (2**22 + 1, os.getpid()))
    for each in (left, others):
        each.mkdir(parents=True)
        (each / "part").write_bytes(b"x")
    function = start(TMPDIR=str(folder))
    assert staying(function.invoke(event(place))) == []
    assert {each.name for each in folder.iterdir()} == {others.name, f"{PREFIX}{function.process.pid}"}
    assert (others / "part").exists()


def test_the_metrics_of_a_call_are_one_line(place: Place, function: Runtime) -> None:
    assert staying(function.invoke(event(place))) == []
    (line,) = (json.loads(line) for line in function.output.splitlines())
    assert line["Workers"] == 1
    assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Crawler"
