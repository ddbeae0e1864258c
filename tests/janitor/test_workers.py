"""The fleet as the janitor sees it: who fell silent, and who is not needed any more."""

from __future__ import annotations

from crawler.model import Beat
from tests.contract.words import page
from tests.janitor.looking import Fleet, Watched


async def beat(fleet: Fleet, worker: str, ago: float = 0.0, held: int = 0) -> None:
    await fleet.state.beat(Beat(worker=worker, at=fleet.clock() - ago, held=held))


async def idle(fleet: Fleet, janitor: Watched) -> None:
    """A crawl that came to its end, and a worker that is still there."""
    record = await fleet.begin()
    await fleet.finish(record)
    await janitor.look()
    assert (await janitor.look()).completed == ["c1"]
    await beat(fleet, "w", ago=-300)


async def test_a_worker_that_fell_silent_is_lost_once(fleet: Fleet, janitor: Watched) -> None:
    await janitor.look()
    await beat(fleet, "silent")
    await beat(fleet, "left")
    await fleet.state.beat(Beat(worker="left", at=0.0))
    found = await janitor.look()
    assert (found.workers, found.workers_lost) == (0, 1)
    assert janitor.last()["WorkersLost"] == 1
    assert (await janitor.look()).workers_lost == 0


async def test_a_worker_silent_for_less_than_a_minute_is_lost_at_the_next_look(fleet: Fleet, janitor: Watched) -> None:
    await janitor.look()
    await beat(fleet, "w", ago=-4.5 * 60)
    assert (await janitor.look()).workers_lost == 0
    assert (await janitor.look()).workers_lost == 1


async def test_the_first_look_does_not_know_who_was_lost_since_when(fleet: Fleet, janitor: Watched) -> None:
    await beat(fleet, "w")
    assert (await janitor.look()).workers_lost == 0


async def test_workers_stop_at_the_second_look_at_which_nothing_is_to_be_fetched(
    fleet: Fleet, janitor: Watched
) -> None:
    await idle(fleet, janitor)
    found = await janitor.look()
    assert (found.workers, found.stopped, janitor.stopped) == (1, True, 1)


async def test_where_no_worker_is_none_is_stopped(fleet: Fleet, janitor: Watched) -> None:
    await idle(fleet, janitor)
    await fleet.state.beat(Beat(worker="w", at=0.0))
    assert not (await janitor.look()).stopped
    assert janitor.stopped == 0


async def test_workers_stay_while_a_crawl_runs(fleet: Fleet, janitor: Watched) -> None:
    await idle(fleet, janitor)
    await fleet.begin("c2", pages=[page("/", "b.example")])
    for _ in range(3):
        await beat(fleet, "w", ago=-300)
        assert not (await janitor.look()).stopped


async def test_workers_stay_while_one_holds_a_page_of_whatever_crawl(fleet: Fleet, janitor: Watched) -> None:
    await idle(fleet, janitor)
    await beat(fleet, "w", ago=-300, held=1)
    assert not (await janitor.look()).stopped
    await beat(fleet, "w", ago=-300)
    assert not (await janitor.look()).stopped  # that was the first look without
    await beat(fleet, "w", ago=-300)
    assert (await janitor.look()).stopped


async def test_workers_stop_when_all_crawls_are_paused(fleet: Fleet, janitor: Watched) -> None:
    await fleet.begin()
    await fleet.state.pause("c1")
    await janitor.look()
    await beat(fleet, "w", ago=-300)
    assert (await janitor.look()).stopped


async def test_a_fleet_that_is_not_ours_is_not_stopped(fleet: Fleet, janitor: Watched) -> None:
    await idle(fleet, janitor)
    janitor.stop = None  # type: ignore[assignment,method-assign]
    found = await janitor.look()
    assert (found.workers, found.stopped, found.faults) == (1, False, [])
