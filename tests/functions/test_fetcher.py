"""The fetcher function's work on one event after the other, in this process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter

import msgspec
import psutil
import pytest

from crawler.entrypoints import fetcher_function
from crawler.entrypoints.fetcher_function import RESERVE, Fetcher
from crawler.errors import StateMismatch, StateMissing, StateUnavailable, UsageError
from crawler.state.aws.records import Feed, encode
from tests.aws.places import Place
from tests.aws.proxy import Proxy
from tests.functions.conftest import Seed
from tests.functions.events import Event, answered, event, failed
from tests.manners.crawls import HTML, site
from tests.servers import Peer, reply, serve

pytestmark = pytest.mark.emulator

TIMEOUT = 60.0


async def call(fetcher: Fetcher, event: Event, seconds: float = TIMEOUT) -> list[str]:
    return await fetcher.call(msgspec.convert(event, fetcher_function.Event).deliveries, seconds)


async def work(fetcher: Fetcher, place: Place, seconds: float = TIMEOUT) -> list[str]:
    """One call with what waits on the normal lane, and what Lambda does then."""
    batch = event(place)
    staying = await call(fetcher, batch, seconds)
    answered(place, batch, staying)
    return staying


def leaf(target: str, head: bytes) -> bytes:
    return reply(b"a page", HTML)


def linked(target: str, head: bytes) -> bytes:
    """A page of another number links to a page of its own."""
    return reply(b"<a href=/leaf%s>" % target[1:].encode() if target.startswith("/p") else b"a leaf", HTML)


def pages(targets: list[str]) -> Counter[str]:
    """How often each page was asked for."""
    return Counter(target for target in targets if target != "/robots.txt")


async def test_the_pages_of_an_event_are_fetched_and_their_links_come_in_later_ones(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    async with serve(site(linked)) as server:
        state = await seed(*(server.url(f"/p{number}") for number in range(30)))
        assert await work(fetcher, place) == []
        assert place.depth() == (30, 0, 0)
        assert await work(fetcher, place) == []
        assert place.depth() == (0, 0, 0)
        assert set(pages(server.targets).values()) == {1}
        counts = await state.counts("c")
    assert (counts.discovered, counts.done) == (60, 60)
    assert server.targets.count("/robots.txt") == 1


async def test_nothing_is_received_deleted_or_extended_by_the_function_itself(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    async with serve(site(leaf)) as server:
        # The crawl's own lease is another than the queues': it holds for workers that receive.
        await seed(*(server.url(f"/{number}") for number in range(10)), lease=20.0)
        assert await work(fetcher, place) == []
    assert fetcher.requests["sqs.ReceiveMessage"] == 0
    assert fetcher.requests["sqs.DeleteMessageBatch"] == 0
    assert fetcher.requests["sqs.ChangeMessageVisibilityBatch"] == 0
    assert place.depth() == (0, 0, 0)


async def test_a_page_that_has_ended_is_dropped_unfetched_when_its_message_comes_back(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        batch = event(place)
        assert await call(fetcher, batch) == []
        failed(place, batch)  # the process died before Lambda heard its answer
        other = Fetcher()
        assert await work(other, place) == []
        await other.close()
    assert pages(server.targets) == {"/page": 1}
    assert place.depth() == (0, 0, 0)


async def test_a_page_that_came_often_is_settled_while_others_are_still_fetched(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    slow = asyncio.Event()

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b" /slow " in head:
                await slow.wait()
            await peer.send(reply(b"a page", HTML))

    async with serve(script) as server:
        state = await seed(server.url("/quick"), server.url("/slow"))
        for _ in range(2):
            failed(place, event(place))  # the process died with them
        calling = asyncio.create_task(call(fetcher, event(place)))
        async with asyncio.timeout(10):
            while (await state.counts("c")).done < 1:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        assert not calling.done()
        slow.set()
        assert await calling == []
    assert place.depth()[1] == 2  # Lambda deletes them
    assert (await state.counts("c")).done == 2


async def test_what_is_no_message_of_ours_is_dropped_and_plain_seeds_are_fetched(
    place: Place, seed: Seed, fetcher: Fetcher, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(site(leaf)) as server:
        state = await seed()
        place.send("{no message}")
        place.send(server.url("/plain"))
        assert await work(fetcher, place) == []
        assert pages(server.targets) == {"/plain": 1}
    assert "no seed" in caplog.text
    assert (await state.counts("c")).done == 1
    assert place.depth() == (0, 0, 0)


async def test_what_comes_twice_in_one_event_is_fetched_once(place: Place, seed: Seed, fetcher: Fetcher) -> None:
    async with serve(site(leaf)) as server:
        state = await seed(server.url("/page"))
        for body in (server.url("/plain"), server.url("/plain"), f'{{"url": "{server.url("/plain")}"}}'):
            place.send(body)
        batch = event(place)
        staying = await call(fetcher, {"Records": batch["Records"] * 2})
        assert staying == []
        answered(place, batch, staying)
    assert pages(server.targets) == {"/page": 1, "/plain": 1}
    assert (await state.counts("c")).done == 2
    assert place.depth() == (0, 0, 0)


async def test_a_call_while_aws_is_away_loses_nothing_and_the_next_opens_the_state(
    place: Place, seed: Seed, fetcher: Fetcher, proxy: Proxy
) -> None:
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        batch = event(place)
        proxy.fail("GetQueueUrl", 503, "ServiceUnavailable", times=1_000)
        with pytest.raises(StateUnavailable):
            await call(fetcher, batch)
        proxy.heal()
        failed(place, batch)
        assert await work(fetcher, place) == []
    assert pages(server.targets) == {"/page": 1}


async def test_a_feeder_in_an_event_does_its_work_and_sends_its_successor(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    async with serve(site(leaf)) as server:
        # A page in 20 s: the first pages are on the queue, the others lie in the host's backlog.
        await seed(*(server.url(f"/{number}") for number in range(60)), rate=0.05, ignore_robots=True)
        lines = [item for item in place.items(place.control) if "feeder" in item]
        assert len(lines) == 1
        line = lines[0]
        feed = Feed(feed="c", run=place.run("c"), gate="127.0.0.1", token=line["feeder"]["S"], born=time.time() - 100)
        place.send(encode(feed))
        assert await work(fetcher, place) == []
        after = next(item for item in place.items(place.control) if item["pk"] == line["pk"])
    assert after["feeder"]["S"] not in ("", line["feeder"]["S"])


async def test_pages_whose_turn_is_far_are_sent_again_and_the_others_keep_the_pace(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    async with serve(site(leaf)) as server:
        state = await seed(server.url("/0"), rate=1.0)
        for number in range(1, 20):
            place.send(server.url(f"/{number}"))  # nobody placed these
        began = time.monotonic()
        assert await work(fetcher, place) == []
        took = time.monotonic() - began
        asked = len(server.times)
        apart = [later - earlier for earlier, later in itertools.pairwise(server.times)]
        counts = await state.counts("c")
    assert 3 <= asked <= fetcher_function.WAIT + 3
    assert took < TIMEOUT - RESERVE
    assert min(apart) > 0.5
    visible, in_flight, delayed = place.depth()
    assert in_flight == 0
    assert visible + delayed == counts.discovered - counts.done == 20 - (asked - 1)


async def test_when_time_runs_out_what_is_done_is_kept_and_the_rest_is_sent_again(
    place: Place, seed: Seed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")  # eight pages at a time
    fetcher = Fetcher()

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b" /robots.txt " not in head:
                await asyncio.sleep(1.0)
            await peer.send(reply(b"a page", HTML))

    async with serve(script) as server:
        state = await seed(*(server.url(f"/{number}") for number in range(60)))
        seconds = RESERVE + 2.5
        began = time.monotonic()
        assert await work(fetcher, place, seconds) == []
        assert time.monotonic() - began < seconds - 2
        counts = await state.counts("c")
        asked = pages(server.targets)
        assert 8 <= counts.done == len(asked) < 60
        visible, in_flight, delayed = place.depth()
        assert (visible + delayed, in_flight) == (60 - counts.done, 0)
        again = event(place)
        assert {record["attributes"]["ApproximateReceiveCount"] for record in again["Records"]} == {"1"}
        # Another call goes on with them.
        assert await call(fetcher, again, 100) == []
        assert set(pages(server.targets).values()) == {1}
        assert (await state.counts("c")).done == 60
    await fetcher.close()


async def test_a_page_slower_than_a_call_fails_as_an_attempt_and_does_not_come_for_ever(
    place: Place, seed: Seed, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher_function, "DRAIN", 2.0)  # the page is given up so much earlier

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            if b" /robots.txt " in head:
                await peer.send(reply(b"", status="404 Not Found"))
            else:
                await peer.gone()

    async with serve(script) as server:
        state = await seed(server.url("/hangs"), max_attempts=1)
        assert await work(fetcher, place, RESERVE + 3.0) == []
        counts = await state.counts("c")
    assert (counts.dead, counts.deaths) == (1, {"timeout": 1})
    assert place.depth() == (0, 0, 0)


async def test_a_call_that_is_too_short_begins_nothing(place: Place, seed: Seed, fetcher: Fetcher) -> None:
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        with pytest.raises(TimeoutError, match="too few"):
            await call(fetcher, event(place), RESERVE - 1)
        assert server.targets == []


async def test_a_call_ends_before_its_messages_are_visible_again_however_long_it_may_take(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    for queue in (place.high, place.normal, place.low):
        short = {"VisibilityTimeout": str(int(RESERVE + fetcher_function.HELD) - 1)}
        place.sqs.set_queue_attributes(QueueUrl=place.url(queue), Attributes=short)
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        with pytest.raises(TimeoutError, match="the visibility timeout of its messages"):
            await call(fetcher, event(place), 900)
        assert server.targets == []


async def test_messages_that_could_not_be_settled_stay_and_no_others(
    place: Place, seed: Seed, fetcher: Fetcher, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher_function, "HURRY", 1.0)
    async with serve(site(leaf)) as server:
        await seed(server.url("/first"))  # after which the state is open, and the call's seconds are for its pages
        assert await work(fetcher, place) == []
        state = await seed(*(server.url(f"/{number}") for number in range(3)))
        place.send("{no message}")
        batch = event(place)
        # For as long as this call lasts no page can be marked as ended, nor be sent again.
        proxy.fail("BatchExecuteStatement", 503, "ServiceUnavailable", times=1_000)
        proxy.fail("SendMessageBatch", 503, "ServiceUnavailable", times=1_000)
        staying = await call(fetcher, batch, RESERVE + 5)
        poison = next(record["messageId"] for record in batch["Records"] if record["body"] == "{no message}")
        assert set(staying) == {record["messageId"] for record in batch["Records"]} - {poison}
        proxy.heal()
        answered(place, batch, staying)
        failed(place, {"Records": [record for record in batch["Records"] if record["messageId"] in staying]})
        assert await work(fetcher, place) == []
        # Once AWS answers again, what the first call could not mark is marked by what it left, or fetched again.
        counts = await state.counts("c")
        assert (counts.done, counts.outstanding) == (4, 0)
        assert set(pages(server.targets)) == {"/first", "/0", "/1", "/2"}
        assert max(pages(server.targets).values()) <= 2
    assert place.depth() == (0, 0, 0)


async def test_between_two_calls_nothing_runs_and_what_was_open_is_used_again(
    place: Place, seed: Seed, fetcher: Fetcher
) -> None:
    mine = asyncio.current_task()
    tasks: list[set[asyncio.Task[object]]] = []
    async with serve(site(linked)) as server:
        state = await seed(*(server.url(f"/p{number}") for number in range(8)))
        children = []
        for _ in range(2):
            batch = event(place)
            serving = asyncio.all_tasks()
            assert await call(fetcher, batch) == []
            answered(place, batch, [])
            tasks.append({task for task in asyncio.all_tasks() - serving if "serve" not in repr(task.get_coro())})
            children.append([child.pid for child in psutil.Process().children() if "crawler" in str(child.cmdline())])
        assert await state.workers() == []
        assert (await state.counts("c")).done == 16
    assert mine is asyncio.current_task()
    assert tasks == [set(), set()]
    assert children[0] == children[1] != []


async def test_a_fault_of_the_loop_before_anything_was_worked_off_is_an_error_and_the_next_call_begins_anew(
    place: Place, seed: Seed, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        batch = event(place)
        with monkeypatch.context() as broken:
            broken.setattr("crawler.settle.store", _broken)
            with pytest.raises(RuntimeError, match="broken"):
                await call(fetcher, batch)
        failed(place, batch)
        assert await work(fetcher, place) == []
    assert place.depth() == (0, 0, 0)


async def test_after_a_fault_of_the_loop_what_was_worked_off_does_not_come_back(
    place: Place, seed: Seed, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("crawler.settle.store", _broken)
    async with serve(site(leaf)) as server:
        await seed(server.url("/page"))
        place.send("{no message}")
        assert len(await call(fetcher, event(place))) == 1
    assert "the loop failed" in caplog.text


def _broken(*_: object) -> None:
    raise RuntimeError("broken")


async def test_messages_of_a_queue_that_is_no_lane_are_an_error(place: Place, seed: Seed, fetcher: Fetcher) -> None:
    await seed()
    place.send("https://site.example/", place.dead)
    with pytest.raises(StateMismatch, match="no lane"):
        await call(fetcher, event(place, queue=place.dead))


@pytest.mark.parametrize(
    ("address", "error"), [("", UsageError), ("aws://Nowhere", StateMissing), ("redis://127.0.0.1", UsageError)]
)
async def test_a_state_that_cannot_be_opened_is_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch, address: str, error: type[Exception]
) -> None:
    monkeypatch.setenv("CRAWLER_STATE", address)
    place.send("https://site.example/")
    with pytest.raises(error):
        await call(Fetcher(), event(place))


async def test_a_page_costs_few_requests(
    place: Place, seed: Seed, fetcher: Fetcher, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serve(site(linked)) as server:
        await seed(*(server.url(f"/p{number}") for number in range(100)))
        assert await work(fetcher, place) == []
        before = fetcher.requests.copy()
        assert await work(fetcher, place) == []
    used = fetcher.requests - before
    (line,) = capsys.readouterr().out.splitlines()[-1:]
    told = msgspec.json.decode(line)
    assert told["Pages"] == 100
    assert told["requests"]["s3.PutObject"] == 2
    assert told["requests"].get("s3.ListObjectsV2", 0) == 0
    assert used.total() <= 20, used
