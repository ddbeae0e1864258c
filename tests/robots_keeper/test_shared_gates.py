"""What a robots.txt does to its host's gate, and what it must not do to a gate that serves other hosts too."""

from __future__ import annotations

import pytest

from crawler.model import Page, Why
from crawler.robots import Robots
from crawler.robots_fact import Unreachable
from crawler.state.port import CrawlState
from tests.robots_keeper.workers import CRAWL, GATE, RULES, Clock, asked, sequence, worker
from tests.servers import replies, reply, serve


async def why(state: CrawlState) -> Why:
    """What makes the gate as slow as it is, as `status` shows it."""
    await state.add(CRAWL, [Page(url="http://127.0.0.1/", digest=b"0" * 16, gate=GATE)])
    (host,) = [host async for host in state.hosts(CRAWL)]
    return host.why


@pytest.mark.parametrize("status", ["503 Busy", "429 Slow Down", "500 Oops"])
async def test_siblings_of_a_failing_host_go_on(clock: Clock, status: str) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(b"", status=status)) as server:
        answer, _ = await keeper.rules(server.url("/"), "site.example", 0.0)
        assert isinstance(answer, Unreachable)
        assert await state.turn(CRAWL, "site.example") <= clock()


async def test_siblings_of_a_host_that_asks_for_a_pause_go_on(clock: Clock) -> None:
    async with worker(":memory:", clock) as (keeper, state):
        async with serve(replies(b"", "Retry-After: 900", status="503 Busy")) as server:
            answer, _ = await keeper.rules(server.url("/"), "site.example", 0.0)
            assert isinstance(answer, Unreachable)
            assert answer.until > clock() + 800
            assert await state.turn(CRAWL, "site.example") <= clock()


@pytest.mark.parametrize(
    ("fields", "seconds", "reason"),
    [
        ((), 15, Why.BACKOFF),
        (("Retry-After: soon",), 15, Why.BACKOFF),
        (("Retry-After: 300",), 300, Why.RETRY_AFTER),
        (("Date: Mon, 03 Jan 2028 10:00:00 GMT", "Retry-After: Mon, 03 Jan 2028 10:05:00 GMT"), 300, Why.RETRY_AFTER),
        (("Date: Mon, 03 Jan 2028 10:00:00 GMT", "Retry-After: Monday, 03-Jan-28 10:05:00 GMT"), 300, Why.RETRY_AFTER),
        (("Date: Mon, 03 Jan 2028 10:00:00 GMT", "Retry-After: Mon Jan  3 10:05:00 2028"), 300, Why.RETRY_AFTER),
        (("Retry-After: 999999",), 3600, Why.RETRY_AFTER),
    ],
)
@pytest.mark.parametrize("status", ["503 Busy", "429 Slow Down"])
async def test_the_hosts_own_gate_closes_for_as_long_as_it_asks(
    clock: Clock, status: str, fields: tuple[str, ...], seconds: float, reason: Why
) -> None:
    async with worker(":memory:", clock) as (keeper, state), serve(replies(b"", *fields, status=status)) as server:
        answer = await asked(keeper, server)
        assert isinstance(answer, Unreachable)
        assert await why(state) == reason
        opens = await state.turn(CRAWL, GATE)
        assert opens == pytest.approx(answer.until, abs=0.001)
        assert seconds - 1 <= opens - clock() <= max(seconds, 45)


async def test_a_pause_is_kept_even_where_a_good_copy_stands_in(clock: Clock) -> None:
    steps = [reply(RULES), reply(b"", "Retry-After: 600", status="503 Busy")]
    async with worker(":memory:", clock) as (keeper, state), serve(sequence(*steps)) as server:
        await asked(keeper, server)
        clock.ahead += 25 * 3600
        assert isinstance(await asked(keeper, server), Robots)
        assert await state.turn(CRAWL, GATE) > clock() + 590


async def test_a_crawl_delay_that_is_no_longer_asked_for_ends(clock: Clock) -> None:
    slow, quick = b"User-agent: *\nCrawl-delay: 20\n", b"User-agent: *\nCrawl-delay: 4\n"
    steps = [reply(slow), reply(quick), reply(RULES)]
    async with worker(":memory:", clock, rate=1.0) as (keeper, state), serve(sequence(*steps)) as server:
        for seconds in (20, 4, 1):
            await asked(keeper, server)
            clock.ahead += 3600  # no turn is owed any more
            first = await state.turn(CRAWL, GATE)
            assert await state.turn(CRAWL, GATE) == pytest.approx(first + seconds)
            clock.ahead += 25 * 3600


async def test_a_crawl_delay_is_not_ended_by_another_host_or_crawler(clock: Clock) -> None:
    slow = b"User-agent: SlowBot\nCrawl-delay: 20\n\nUser-agent: *\nDisallow:\n"
    async with worker(":memory:", clock, rate=1.0, user_agent="SlowBot/1") as (keeper, state):
        async with serve(replies(slow)) as one, serve(replies(RULES)) as two:
            await asked(keeper, one)
            clock.ahead += 60
            await asked(keeper, two)
            clock.ahead += 60
            first = await state.turn(CRAWL, GATE)
            assert await state.turn(CRAWL, GATE) == pytest.approx(first + 20)


async def test_capped_delays_are_told_once_an_origin_and_counted(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    absurd = b"User-agent: *\nCrawl-delay: 86400\n"
    async with worker(":memory:", clock) as (keeper, _), serve(replies(absurd)) as one, serve(replies(absurd)) as two:
        for server in (one, two, one):
            await asked(keeper, server)
            clock.ahead += 25 * 3600
    told = [record.getMessage() for record in caplog.records if "Crawl-delay" in record.getMessage()]
    assert len(told) == 2
    assert "capped so far: 1" in told[0]
    assert "capped so far: 2" in told[1]


@pytest.mark.case("H03")
async def test_of_so_many_origins_only_it_is_remembered_that_their_delay_was_told(
    clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.crawl_delay.MOST_TOLD", 2)
    absurd = b"User-agent: *\nCrawl-delay: 86400\n"
    async with worker(":memory:", clock) as (keeper, _), serve(replies(absurd)) as server:
        for name in "abcd":
            await keeper.rules(server.url("/").replace("127.0.0.1", f"{name}.localhost"), f"{name}.localhost", 0.0)
    assert "capped so far: 4" in caplog.text
    assert len(keeper._delays._told) == 2
