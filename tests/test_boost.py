"""`--boost`: how it is written, and which place on the scale of priorities a page gets by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawler.config import CrawlSettings, crawl_settings
from crawler.discover import seed_page
from crawler.errors import UsageError
from crawler.model import LOWEST, Lease, Priority
from crawler.state.port import CrawlState
from tests import command
from tests.faults.crawls import seeded, state_in
from tests.manners.crawls import HTML, crawled, site
from tests.servers import reply, serve
from tests.test_traps import HOST, discoverer, lease, link


def test_a_boost_is_a_pattern_and_a_number_behind_the_last_equals_sign() -> None:
    settings = crawl_settings({"boost": ("/news/=3", r"\?id=\d+=-5", "x=+1", "^=0")})
    assert settings.boost == (("/news/", 3), (r"\?id=\d+", -5), ("x", 1), ("^", 0))
    assert crawl_settings({}, settings) == settings
    assert crawl_settings({"boost": ("y=2",)}, settings).boost == (("y", 2),)


@pytest.mark.parametrize("text", ["/news/", "/news/=", "=3", "/news/=6", "/news/=-6", "x=1.5", "x=high", "(=1", ""])
def test_a_boost_that_makes_no_sense_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--boost"):
        crawl_settings({"boost": (text,)})


def test_a_boost_on_the_command_line_is_checked_and_may_come_from_the_environment(tmp_path: Path) -> None:
    seed = ("seed", HOST + "/", "--state", str(tmp_path / "state.sqlite"))
    wrong = command.run(*seed, "--boost", "x=9")
    assert wrong.returncode == 2
    assert "--boost 'x=9'" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    wrong = command.run(*seed, env={"CRAWLER_BOOST": "a=1 b=7"})
    assert wrong.returncode == 2
    assert "--boost 'b=7'" in wrong.stderr
    assert list(tmp_path.iterdir()) == []
    options = ("--boost", "a=1", "--boost", "b=-2", "--max-pages-per-host", "7", "--in-flight-per-host", "3")
    assert command.run(*seed, *options).returncode == 0


async def test_the_options_are_settings_of_the_crawl(tmp_path: Path) -> None:
    options = ("--boost", "a=1", "--boost", "b=-2", "--max-pages-per-host", "7", "--in-flight-per-host", "3")
    result = command.run("seed", HOST + "/", "--state", str(tmp_path / "state.sqlite"), *options)
    assert result.returncode == 0, result.stderr
    async with state_in(tmp_path, "w") as state:
        (record,) = await state.crawls()
    settings = record.settings
    assert settings.boost == (("a", 1), ("b", -2))
    assert (settings.max_pages_per_host, settings.in_flight_per_host) == (7, 3)


BOOSTS = (("/news/", 3), ("/news/today", 3), ("/old/", -4), ("print", -4), (r"\?a=1&b=2$", 1))


def settings_with(*boosts: tuple[str, int], **more: Any) -> CrawlSettings:
    return CrawlSettings(scope="any", boost=boosts, **more)


@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("/", 0),
        ("/news/1", 3),
        ("/news/today", 5),
        ("/old/", -4),
        ("/old/print", -5),
        ("/old/news/", -1),
        ("/?b=2&a=1&utm_source=x", 1),
    ],
)
def test_a_seed_comes_earlier_by_all_boosts_that_match_its_key(path: str, places: int) -> None:
    for priority in Priority:
        page = seed_page(HOST + path, settings_with(*BOOSTS), priority=priority)
        assert page is not None
        assert page.priority == priority - places
        assert 0 <= page.priority <= LOWEST


async def priority(state: CrawlState, settings: CrawlSettings, parent: Lease, path: str) -> int:
    """The place of a page found by a link, which is that of one found by a redirect too."""
    found = discoverer(state, settings)
    (page,) = await found.pages([(parent, [link(HOST + path)])])
    redirected = found.redirect(parent, HOST + path)
    assert redirected is not None
    assert redirected.priority == page.priority
    return page.priority


async def test_boosts_do_not_add_up_along_links(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    settings = settings_with(*BOOSTS)
    async with state_in(tmp_path, "w") as state:
        at, before = int(Priority.NORMAL), "/"
        for path, places in (("/news/1", 3), ("/news/2", 3), ("/news/today", 5), ("/about", 0), ("/old/", -4)):
            at = await priority(state, settings, lease(HOST + before, priority=at), path)
            assert at == Priority.NORMAL - places
            before = path


async def test_a_boost_that_was_amended_meanwhile_leaves_nothing_off_the_scale(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    async with state_in(tmp_path, "w") as state:
        first = lease(HOST + "/a", priority=0)
        assert await priority(state, settings_with(("a", -5), ("b", 5)), first, "/b") == 0
        last = lease(HOST + "/a", priority=LOWEST)
        assert await priority(state, settings_with(("a", 5), ("b", -5)), last, "/b") == LOWEST


async def test_boosted_pages_are_fetched_first_and_lowered_ones_last(tmp_path: Path) -> None:
    links = "".join(f"<a href=/{kind}/{n}>x</a>" for n in range(5) for kind in ("plain", "low", "high"))

    async with serve(site(lambda target, head: reply(links.encode() if target == "/" else b"", HTML))) as server:
        boosts = (("/high/", 5), ("/low/", -1))
        await crawled(tmp_path, server.url("/"), boost=boosts, concurrency=1, ignore_robots=True, rate=100.0)
    kinds = [target.split("/")[1] for target in server.targets[1:]]
    assert kinds == ["high"] * 5 + ["plain"] * 5 + ["low"] * 5
