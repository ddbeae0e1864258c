"""`--dedup bloom` from the command line, and what `verify` can still say of such a crawl."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from crawler.archive.archive import Archive
from crawler.archive.stores import Store, open_store
from crawler.archive.verify import verify
from crawler.archive.verify_report import VerifyReport
from crawler.model import CrawlRecord, Page, dead, done, skipped
from crawler.state.redis import RedisState
from crawler.url_key import STANDARD
from tests import command
from tests.archive import making
from tests.archive.making import add, response, row
from tests.local_site import DemoSite, demo_site_process
from tests.redis_server import RedisServer

DONE = range(6)
RATE = "false-positive rate of 1e-06"

# ---------------------------------------------------------------- the command line


def test_a_crawl_that_forgets_fetches_every_page_once_and_proves_it(
    bloom_server: RedisServer, demo_site: DemoSite, tmp_path: Path
) -> None:
    where = ("--state", bloom_server.address(), "--store", str(tmp_path / "out"))
    options = ("--rate", "0", "--allow-private", "--dedup", "bloom", "--processes", "2")
    crawled = command.run("crawl", *demo_site.seeds, *where, *options)
    assert crawled.returncode == 0, crawled.stderr
    assert RATE in crawled.stderr
    assert set(demo_site.fetched()) == demo_site.truth.fetched
    assert set(demo_site.fetched().values()) == {1}
    rows = command.rows(tmp_path / "out")
    counts = command.status(*where)
    assert len(rows) == counts["discovered"] == counts["done"] + counts["skipped"] + counts["dead"]
    assert {row["url"] for row in rows if row["depth"] > 0} == {row["url"] for row in rows if row["parent_url"]}
    checked = command.run("verify", *where)
    assert checked.returncode == 0, checked.stdout
    demo_site.clear()
    assert command.run("crawl", *demo_site.seeds, *where, "--processes", "1").returncode == 0
    assert demo_site.requests() == []


def test_killed_fetchers_lose_and_double_nothing_although_it_forgets(bloom_server: RedisServer, tmp_path: Path) -> None:
    where = ("--state", bloom_server.address(), "--store", str(tmp_path / "out"))
    options = ("--rate", "0", "--allow-private", "--dedup", "bloom", "--processes", "2", "--concurrency", "8")
    with demo_site_process(tmp_path, delay_ms=40) as site:
        process = command.start("crawl", *site.seeds, *where, *options)
        for kills in range(1, 6):
            least = 40 * kills
            command.wait_for(lambda: len(site.requests()) > least or process.poll() is not None)  # noqa: B023
            for worker in command.workers_of(process)[:1]:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    assert "another takes its place" in errors
    rows, counts = command.rows(tmp_path / "out"), command.status(*where)
    assert {site.canonical(row["url"]) for row in rows if row["outcome"] == "done"} == site.truth.fetched
    assert len(rows) == len({row["url"] for row in rows}) == counts["discovered"] == counts["done"] + counts["skipped"]
    checked = command.run("verify", *where)
    assert checked.returncode == 0, checked.stdout


def test_seeding_tells_the_rate_of_false_positives_and_only_of_a_filter(bloom_server: RedisServer) -> None:
    for more, told in ((("--dedup", "bloom"), True), ((), False)):
        seeded = command.run("seed", "http://a.example/", "--state", bloom_server.address(), *more)
        assert seeded.returncode == 0, seeded.stderr
        assert (RATE in seeded.stdout) is told


def test_the_wrong_place_and_the_wrong_time_are_one_line_and_change_nothing(
    bloom_server: RedisServer, tmp_path: Path
) -> None:
    state = str(tmp_path / "state.sqlite")
    refused = command.run("seed", "http://a.example/", "--state", state, "--dedup", "bloom")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "redis://" in refused.stderr
    seeds = ("seed", "http://a.example/", "--state", bloom_server.address())
    assert command.run(*seeds, "--rate", "3").returncode == 0
    changed = command.run(*seeds, "--dedup", "bloom")
    assert (changed.returncode, changed.stderr.count("\n")) == (2, 1)
    assert "--dedup" in changed.stderr


# ---------------------------------------------------------------- verify


def crawl() -> CrawlRecord:
    return making.crawl(rate=0.0, dedup="bloom")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "out"))


@pytest.fixture
async def state(bloom_server: RedisServer) -> RedisState:
    """A crawl of nine pages: six done, one skipped, one dead, one pending."""
    state = await RedisState.open(bloom_server.address(), worker="w", create=True)
    await state.create(crawl())
    await discover(state, *DONE, "skipped", "dead")
    for lease in await state.claim(100, "c1"):
        name = lease.url.rpartition("/")[2]
        verdict = {"skipped": skipped("robots"), "dead": dead("dns", "no such host")}.get(name, done(100))
        await state.settle([(lease, verdict)])
    await discover(state, "pending")
    return state


async def discover(state: RedisState, *names: int | str) -> None:
    found = [f"http://site.test/{name}" for name in names]
    await state.add("c1", [Page(url=url, digest=STANDARD.digest(url), gate="site.test", site="x") for url in found])


async def checked(store: Store, state: RedisState, more: Callable[[Archive], object]) -> VerifyReport:
    """The report on the rows of those nine pages (without the done one) and what `more` adds."""
    archive = await Archive.open(store, crawl(), "a")
    for number in DONE[1:]:
        add(archive, number, links_new=3)
    archive.row(row("skipped", reason="robots"))
    archive.row(row("dead", outcome="dead", reason="dns"))
    more(archive)
    await archive.flush()
    await archive.close()
    report = await verify(state, store, crawl())
    await state.close()
    return report


async def test_rows_stand_for_the_pages_that_left(store: Store, state: RedisState) -> None:
    report = await checked(store, state, lambda archive: add(archive, 0))
    assert (report.faults, report.pages, report.rows, report.moving) == ([], 9, 8, False)


async def test_a_page_with_rows_of_both_outcomes_is_counted_as_either(store: Store, state: RedisState) -> None:
    def more(archive: Archive) -> None:
        add(archive, 0)
        archive.row(row(1, reason="robots"))
        add(archive, "pending")  # its worker died before it was settled
        archive.record(response("skipped"))  # and one before its row was written

    report = await checked(store, state, more)
    assert (report.faults, report.spare) == ([], 1)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (lambda archive: None, "the counts say 6 done, but 5 pages have a row that says so"),
        (lambda archive: archive.row(row(0, reason="x")), "the counts say 6 done, but 5 pages"),
        (lambda archive: [add(archive, 0), add(archive, "x")], "the counts say 6 done, but 7 pages"),
        (lambda archive: [add(archive, 0), archive.record(response("x"))], "nor is it in the ledger"),
        (lambda archive: [add(archive, 0), archive.row(row("y"))], "the counts say 1 skipped, but 2 pages"),
    ],
)
async def test_a_planted_fault_is_named(
    store: Store, state: RedisState, more: Callable[[Archive], object], fault: str
) -> None:
    report = await checked(store, state, more)
    assert len(report.faults) == 1
    assert fault in report.faults[0]
