"""`crawler pause` and `resume`, with real processes; what a paused crawl costs the others."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from crawler import sitemaps
from crawler.config import CrawlSettings
from crawler.model import CrawlRecord
from crawler.state.port import CrawlState
from crawler.state.redis import RedisState
from crawler.state.sqlite import SqliteState
from tests import command
from tests.aws.places import Place
from tests.contract.words import page
from tests.e2e.test_local import assert_complete_and_sound, crawl
from tests.emulator import Emulator
from tests.local_site import DemoSite, demo_site_process
from tests.redis_server import RedisServer
from tests.servers import reply, serve
from tests.sitemaps.reading import Answers, index, reader, urlset
from tests.sitemaps.reading import page as lease_of
from tests.sitemaps.reading import site as sitemap_site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[DemoSite]:
    with demo_site_process(tmp_path, pages=150, delay_ms=200) as running:
        yield running


def since(site: DemoSite, at: float) -> int:
    """How many requests the site has had since a time."""
    return sum(request.at >= at for request in site.requests())


# ---------------------------------------------------------------- one machine


@pytest.mark.e2e
def test_a_running_crawl_rests_with_its_processes_and_goes_on(site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    state = ("--state", str(out))
    process = command.start(*crawl(site, out, "--processes", "2", "--concurrency", "2"))
    command.wait_for(lambda: len(site.fetched()) > 10)
    paused = command.run("pause", *state)
    assert paused.returncode == 0, paused.stderr
    assert "is paused: " in paused.stdout
    command.wait_for(lambda: command.status(*state)["leased"] == 0)
    quiet = time.time()
    before = command.status(*state)
    assert (before["state"], before["paused"]) == ("stopped", True)
    assert before["workers_alive"] == 2
    command.workers_of(process)[0].kill()
    assert "is paused already" in command.run("pause", *state).stdout
    assert "state            paused" in command.run("status", *state).stdout
    command.wait_for(lambda: len(command.workers_of(process)) == 2)
    assert command.status(*state)["done"] == before["done"]
    assert since(site, quiet) == 0
    assert process.poll() is None
    resumed = command.run("resume", *state)
    assert "goes on: " in resumed.stdout
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert set(site.fetched().values()) == {1}
    assert_complete_and_sound(site, out)
    for name in ("pause", "resume"):
        assert f"is complete: there is nothing to {name}" in command.run(name, *state).stdout


@pytest.mark.e2e
def test_crawling_again_lets_a_paused_crawl_go_on(site: DemoSite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = crawl(site, out, "--processes", "1", "--concurrency", "4")
    process = command.start(*arguments)
    command.wait_for(lambda: len(site.fetched()) > 10)
    told = command.run("pause", "--state", str(out), "--json")
    assert msgspec.json.decode(told.stdout).items() >= {"state": "stopped", "paused": True, "changed": True}.items()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    seeded = command.run("seed", site.seeds[0], "--state", str(out))
    assert "is paused" in seeded.stderr
    assert command.status("--state", str(out))["paused"]
    again = command.run(*arguments[: arguments.index("--quiet")], *arguments[arguments.index("--quiet") + 1 :])
    assert again.returncode == 0, again.stderr
    assert "the crawl was paused: it goes on" in again.stderr
    assert_complete_and_sound(site, out)


def test_what_cannot_be_paused_is_one_line(tmp_path: Path) -> None:
    for name in ("pause", "resume"):
        result = command.run(name, "--state", str(tmp_path / "nowhere.sqlite"))
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 1


async def test_a_state_of_the_version_before_can_be_paused(tmp_path: Path) -> None:
    path = str(tmp_path / "state.sqlite")
    state = await SqliteState.open(path, worker="w", create=True)
    await state.create(CrawlRecord(id="c", started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    await state.add("c", [page("/")])
    await state.close()
    older = sqlite3.connect(path)
    older.executescript("ALTER TABLE crawl DROP COLUMN paused; PRAGMA user_version = 2;")
    older.close()
    state, other = await SqliteState.open(path, worker="w"), await SqliteState.open(path, worker="w2")
    assert not (await other.crawls())[0].paused
    assert await state.pause("c")
    assert await other.claim(1) == []
    await other.resume("c")
    assert len(await other.claim(1)) == 1
    await state.close()
    await other.close()


async def test_long_sitemaps_are_left_at_the_next_file_and_read_on_behind_the_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemaps, "ROOM", 0.0)
    answers: Answers = {"/s.xml": reply(index("/0.xml", "/1.xml"))}
    answers |= {f"/{number}.xml": reply(urlset(f"/{number}")) for number in range(2)}
    async with serve(sitemap_site(answers)) as server, reader(tmp_path / "state.sqlite") as worker:
        lease = await lease_of(worker.state, server)
        monkeypatch.setattr(worker, "_add", lambda links, durable: worker.state.pause(lease.crawl))
        assert not await worker.read(server, "/s.xml", lease=lease)
        assert server.targets == ["/s.xml", "/0.xml"]
        monkeypatch.undo()
        await worker.state.resume(lease.crawl)
        assert await worker.read(server, "/s.xml", lease=lease)
        assert server.targets.count("/0.xml") == 1
        assert worker.found == [server.url("/1")]


# ---------------------------------------------------------------- what others pay

HOSTS, PAGES = 300, 3_000


async def beside(state: CrawlState, count: int) -> None:
    """A crawl with work, beside a paused one with so many pages."""
    for name in ("asleep", "awake"):
        await state.create(CrawlRecord(id=name, started_at=time.time(), settings=CrawlSettings(rate=0.0)))
    await state.add("asleep", [page(f"/{number}", f"h{number % HOSTS}.example") for number in range(count)])
    await state.add("awake", [page(f"/{number}", f"a{number}.example") for number in range(40)])
    await state.pause("asleep")
    assert len(await state.claim(10)) == 10  # and all lanes were looked at once


async def test_a_claim_reads_nothing_of_a_paused_crawl_in_sqlite(tmp_path: Path) -> None:
    steps: dict[int, int] = {}
    for count in (1, PAGES):
        state = await SqliteState.open(str(tmp_path / f"{count}.sqlite"), worker="w", create=True)
        await beside(state, count)
        taken = 0

        def step() -> int:
            nonlocal taken
            taken += 1
            return 0

        await state._database.read(lambda db: db.set_progress_handler(step, 10))
        assert len(await state.claim(10)) == 10
        steps[count] = taken
        await state.close()
    assert steps[PAGES] <= steps[1] * 1.1, steps


async def test_a_claim_reads_nothing_of_a_paused_crawl_in_redis(redis_server: RedisServer) -> None:
    calls: dict[int, int] = {}
    for count in (1, PAGES):
        state = await RedisState.open(redis_server.address(), worker="w", create=True)
        await beside(state, count)

        async def total(state: RedisState = state) -> int:
            stats = await state._server.info("commandstats")
            return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")

        before = await total()
        assert len(await state.claim(10)) == 10
        calls[count] = await total() - before
        await state.close()
    assert calls[PAGES] <= calls[1]


# ---------------------------------------------------------------- AWS


@pytest.mark.e2e
@pytest.mark.emulator
def test_on_aws_the_queues_are_empty_while_a_crawl_is_paused(site: DemoSite, emulator: Emulator) -> None:
    place = Place(emulator)
    emulator.client("s3").create_bucket(Bucket="shelf")
    env = {**emulator.environment, "CRAWLER_STATE": f"aws:{place.address}"}

    def run(*arguments: str) -> str:
        result = command.run(*arguments, env=env)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def depth() -> int:
        return sum(sum(place.depth(queue)) for queue in (place.high, place.normal, place.low))

    run("seed", *site.seeds, "--rate", "0", "--allow-private", "--crawl", "c", "--concurrency", "2")
    workers = [command.start("work", "--until-complete", env=env) for _ in range(2)]
    command.wait_for(lambda: len(site.fetched()) > 10)
    assert "is paused: " in run("pause")
    command.wait_for(lambda: depth() == 0)
    quiet = time.time()
    paused = command.status(env=env)
    assert (paused["state"], paused["leased"], paused["paused"]) == ("stopped", 0, True)
    assert paused["pending"] > 0
    workers[0].kill()
    workers[0].communicate()
    assert "is paused already" in run("pause")
    assert run("sweep").startswith("0 pages")
    assert (depth(), since(site, quiet)) == (0, 0)
    assert "goes on: " in run("resume")
    workers[0] = command.start("work", "--until-complete", env=env)
    for worker in workers:
        _, errors = worker.communicate(timeout=100)
        assert worker.returncode == 0, errors
    assert set(site.fetched()) == site.truth.fetched
    assert set(site.fetched().values()) == {1}
    run("merge")
    assert "nothing is missing" in run("verify")
    assert command.status(env=env)["done"] == len(site.truth.fetched)
