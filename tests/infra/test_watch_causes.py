"""Each alarm rings by its cause, made to happen on a deployed stack, and none where all is well."""

from __future__ import annotations

import asyncio
import signal

import pytest

from infra.config import StackConfig
from infra.frontier import LANE_RETENTION
from tests.aws.proxy import Proxy
from tests.emulator import Emulator
from tests.infra.alarm_evaluation import State
from tests.infra.watched import LASTING, LOOK, START, Site, Watched, ended, stopped
from tests.local_site import DemoSite

pytestmark = pytest.mark.emulator


async def test_a_crawl_without_trouble_rings_nothing(watched: Watched, demo_site: DemoSite) -> None:
    await watched.seed(*demo_site.seeds)
    async with watched.janitor() as janitor:
        await janitor.look()
        workers = [watched.worker("--until-complete"), watched.worker("--until-complete")]
        for worker in workers:
            watched.put_lasting(await ended(worker))
        for _ in range(int(LASTING / LOOK) - 1):
            found = await janitor.look()
            assert not found.faults
    assert {name: set(states) for name, states in watched.states().items()} == {
        name: {State.OK} for name in watched.alarms
    }


async def test_a_message_that_kills_its_workers_rings_dead_letters(watched: Watched) -> None:
    await watched.seed("http://deadly.example/")
    watched.put_queues(START)
    kill_workers(watched)
    watched.put_queues(START + LOOK + 1)
    assert watched.states()["DeadLetters"][:2] == [State.OK, State.ALARM]
    assert watched.ringing() == {"DeadLetters"}


async def test_dead_letters_ring_also_when_the_janitor_takes_them_before_they_are_counted(watched: Watched) -> None:
    await watched.seed("http://deadly.example/")
    async with watched.janitor() as janitor:
        await janitor.look()
        kill_workers(watched)
        found = await janitor.look()
        assert found.dead == 1
        assert watched.waiting("DeadLetters") == 0
        await janitor.look()
    assert watched.states()["DeadLetters"][:3] == [State.OK, State.ALARM, State.OK]
    assert watched.ringing() == {"DeadLetters"}


def kill_workers(watched: Watched) -> None:
    """Have the one message on the frontier delivered as often as it may be. Each time its worker dies, and the lease
    ends."""
    lane = watched.queue("FrontierNormal")
    for _ in range(StackConfig().max_receive_count):
        (message,) = watched.sqs.receive_message(QueueUrl=lane)["Messages"]
        handle = message["ReceiptHandle"]
        watched.sqs.change_message_visibility(QueueUrl=lane, ReceiptHandle=handle, VisibilityTimeout=0)
    assert "Messages" not in watched.sqs.receive_message(QueueUrl=lane, WaitTimeSeconds=0)
    assert watched.waiting("DeadLetters") == 1


async def test_a_message_that_waits_half_its_time_rings_oldest_message(watched: Watched, emulator: Emulator) -> None:
    sqs, lane = emulator.client("sqs"), watched.queue("FrontierLow")
    sqs.send_message(QueueUrl=lane, MessageBody="http://patient.example/")
    names = ["SentTimestamp"]
    (message,) = sqs.receive_message(QueueUrl=lane, VisibilityTimeout=0, AttributeNames=names)["Messages"]
    sent = int(message["Attributes"]["SentTimestamp"]) / 1000
    half = LANE_RETENTION.to_seconds() / 2
    for age, rings in ((half - LOOK, False), (half + LOOK, True)):
        now = sent + age
        watched.put_queue("FrontierLow", "ApproximateAgeOfOldestMessage", now - 1, now - 1 - sent)
        assert (watched.alarms["OldestMessage"].state(watched.metrics, now) is State.ALARM) is rings


async def test_a_fleet_that_does_not_start_rings_no_progress(watched: Watched) -> None:
    await watched.seed("http://127.0.0.1:9/")
    async with watched.janitor() as janitor:
        for _ in range(3):
            await janitor.look()
        assert watched.ringing() == set(), "it may yet come"
        await janitor.look()
    assert watched.ringing() == {"NoProgress"}


async def test_a_paused_crawl_rings_nothing(watched: Watched) -> None:
    await watched.seed("http://127.0.0.1:9/")
    async with watched.janitor() as janitor:
        (record,) = await janitor.state.crawls()
        await janitor.state.pause(record.id)
        for _ in range(6):
            await janitor.look()
    assert watched.ringing() == set()


@pytest.mark.parametrize(("sign", "rings"), [(signal.SIGKILL, {"WorkersLost"}), (signal.SIGTERM, set())])
async def test_a_worker_that_is_killed_rings_workers_lost(
    watched: Watched, sign: signal.Signals, rings: set[str]
) -> None:
    async with Site(*[200] * 20) as site, watched.janitor() as janitor:
        await watched.seed(site.url)
        worker = watched.worker()
        await site.until_asked(1)
        await janitor.look()
        worker.send_signal(sign)
        await asyncio.to_thread(worker.communicate, timeout=30)
        await janitor.look()
    assert watched.ringing() == rings


async def test_a_site_that_answers_500_rings_error_share_unless_it_is_a_handful(watched: Watched) -> None:
    async with Site(*[500] * 40) as site:
        await watched.seed(site.url)
        worker = watched.worker()
        await site.until_asked(40)
        lines = await stopped(worker)
    watched.put_lasting(lines, every=300)
    assert watched.ringing() == set()
    watched.put_lasting(lines)
    assert watched.ringing() == {"ErrorShare"}


async def test_pages_given_up_ring_dead_share(watched: Watched) -> None:
    async with Site(*[200] * 30, *[500] * 10) as site:
        await watched.seed(site.url, "--max-attempts", "1")
        watched.put_lasting(await ended(watched.worker("--until-complete")))
    assert watched.ringing() == {"DeadShare"}


async def test_requests_refused_for_their_rate_ring_throttled(watched: Watched, proxy: Proxy) -> None:
    async with Site(*[200] * 40) as site:
        await watched.seed(site.url)
        for operation in ("BatchExecuteStatement", "BatchGetItem", "SendMessageBatch"):
            proxy.fail(operation, 400, "ThrottlingException", times=2)
        lines = await ended(watched.worker("--until-complete", endpoint=proxy.endpoint))
    watched.put_lasting(lines)
    assert watched.ringing() == set(), "one worker alone is refused seldom enough"
    watched.put_lasting(lines, workers=StackConfig().max_workers)
    assert watched.ringing() == {"Throttled"}


async def test_pages_on_no_queue_ring_lost_and_found(watched: Watched, emulator: Emulator) -> None:
    await watched.seed("http://127.0.0.1:9/a", "http://127.0.0.1:9/b")
    emulator.client("sqs").purge_queue(QueueUrl=watched.queue("FrontierNormal"))
    async with watched.janitor() as janitor:
        await janitor.look()
        assert watched.ringing() == set()
        found = await janitor.look()
        assert found.swept == 2
    assert watched.ringing() == {"LostAndFound"}
