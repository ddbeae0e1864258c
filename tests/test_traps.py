"""Which links are traps, and that the sites people have are none."""

from __future__ import annotations

import itertools
import random
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from crawler import traps
from crawler.config import CrawlSettings
from crawler.demo.content import Site
from crawler.discover import Discoverer, SeenCache
from crawler.fetched import Link
from crawler.model import Lease, Page, Parent
from crawler.state.port import CrawlState
from crawler.trap_memory import BUDGETS, DUPLICATE, PATTERN, PROBE, TrapMemory
from crawler.url_key import STANDARD
from tests.faults.crawls import CRAWL, seeded, state_in

HOST = "https://example.com"
YEAR = 2026


def trap(path: str, depth: int = 3, page: str = "/", before: str = "") -> str:
    return traps.trap(HOST + path, depth, HOST + page, HOST + before if before else "", YEAR)


@pytest.mark.case("H01", "H02")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/x/x/x/x/", "trap-repeat"),
        ("/a/b/a/b/a/b/a/b", "trap-repeat"),
        ("/shop/en/shop/de/shop/fr/shop/", "trap-repeat"),
        ("/1/2/1/2/1/2/1/2/1/2/1/2/", "trap-repeat"),
        ("/a//b//c//d//e", "trap-repeat"),
        ("/" + "/".join(f"s{n}" for n in range(26)), "trap-deep"),
        ("/?q=%252525", "trap-encoding"),
        ("/a%25252525b", "trap-encoding"),
        ("/?&amp;amp;amp;p=2", "trap-encoding"),
        ("/?a=1&amp%3Bamp%3Bamp%253Bp=2", "trap-encoding"),
        ("/?" + "&".join(f"p{n}=1" for n in range(51)), "trap-query"),
        ("/?" + "&".join(f"a[]={n}" for n in range(11)), "trap-query"),
        ("/?" + "&" * 11, "trap-query"),
        ("/events/2077/12/31/", "trap-calendar"),
        ("/events/2090-01-01", "trap-calendar"),
        ("/c?year=7749", "trap-calendar"),
        ("/c?month=3&cal_year=2037", "trap-calendar"),
        ("/c?date=2090-01-01", "trap-calendar"),
        ("/c?date=20900101&view=day", "trap-calendar"),
        ("/c?day=2090-01-01T10:00", "trap-calendar"),
        ("/c?tribe-bar-date=2037-01", "trap-calendar"),
    ],
)
def test_a_link_that_only_a_trap_would_have_is_one(path: str, reason: str) -> None:
    assert trap(path) == reason


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/x/x/x/",
        "/2012/12/12/12/",
        "/tiles/0/0/0/0/0.html",
        "/" + "/".join(f"s{n}" for n in range(25)) + "/",
        "/docs/api/v1/reference/classes/builder/methods/build/parameters/options/",
        "/?q=%2525",
        "/?q=100%25&r=50%25",
        "/lamp;amp/?stamp;amp=1",
        "/?" + "&".join(f"p{n}=1" for n in range(50)),
        "/?" + "&".join(f"a[]={n}" for n in range(10)),
        "/2024/05/12/title",
        "/archive/1889-05-12/ed-1/",
        "/archive/1889/05/",
        "/c?year=1850",
        "/thread/2077/12",
        "/product/7749/2/",
        "/search?from=2020-01-01&to=2099-12-31",
        "/c?start=203712",
        "/c?y=7749&lastyear=1",
        "/c?year=2036",
        "/c?date=latest",
    ],
)
def test_a_link_that_a_site_may_have_is_none(path: str) -> None:
    assert trap(path) == ""


@pytest.mark.parametrize(
    ("page", "link", "reason"),
    [
        ("/cal/2036/12/", "/cal/2037/01/", "trap-calendar"),
        ("/cal/1900/01/", "/cal/1899/12/", "trap-calendar"),
        ("/c?year=1900", "/c?year=1899", "trap-calendar"),
        ("/c?month=1900-01", "/c?month=1899-12", "trap-calendar"),
        # the page is of no calendar, or not of this one, or beyond its bounds itself
        ("/cal/", "/cal/1899/12/", ""),
        ("/paper/1900/01/", "/cal/1899/12/", ""),
        ("/paper/1889/05/12/", "/paper/1889/05/13/", ""),
        ("/thread/2077/11", "/thread/2077/12", ""),
        ("/cal/2030/12/", "/cal/2031/01/", ""),
    ],
)
def test_a_calendar_is_left_where_it_leads_out_of_its_bounds(page: str, link: str, reason: str) -> None:
    assert trap(link, page=page) == reason


@pytest.mark.parametrize(
    ("before", "page", "link"),
    [
        ("/c?m=199", "/c?m=200", "/c?m=201"),
        ("/cal/2031/04/", "/cal/2031/05/", "/cal/2031/06/"),
        ("/s/0f3ac4d2/a", "/s/93bc1e77/a", "/s/a93d4f5c/a"),
        ("/p?t=1&s=a", "/p?s=b&t=2", "/p?t=3&s=a"),
        (
            "/u/123e4567-e89b-12d3-a456-426614174000",
            "/u/223e4567-e89b-12d3-a456-426614174001",
            "/u/323e4567-e89b-12d3-a456-42661417400a",
        ),
    ],
)
def test_pages_that_count_on_are_left_at_a_depth(before: str, page: str, link: str) -> None:
    assert trap(link, traps.CHAIN + 1, page, before) == "trap-chain"
    assert trap(link, traps.CHAIN, page, before) == ""


@pytest.mark.parametrize(
    ("before", "page", "link"),
    [
        ("/news/1", "/news/2", "/about"),
        ("/about", "/news/2", "/news/3"),
        ("", "/news/2", "/news/3"),
        ("/news/3", "/news/2", "/news/3"),
        ("/news/one-title", "/news/another-title", "/news/third-title"),
    ],
)
def test_a_deep_link_that_does_not_count_on_is_followed(before: str, page: str, link: str) -> None:
    assert trap(link, traps.CHAIN + 100, page, before) == ""


# ---------------------------------------------------------------- what only many pages show


class Memory:
    """A worker's memory without a state: nothing here is told to the fleet."""

    def __init__(self) -> None:
        self._memory = TrapMemory(cast(CrawlState, None), CRAWL)

    def link(self, path: str) -> str:
        return self._memory.judge(HOST + path)

    def page(self, path: str, body: str) -> None:
        self._memory.fetched(HOST + path, "sha256:" + sha256(body.encode()).hexdigest())


@pytest.mark.case("H01")
@pytest.mark.parametrize("path", ["/p?t={}", "/p/{}", "/soft/a/b/c{}x/d", "/p/{:032x}"])
def test_links_of_a_kind_that_brings_known_bodies_are_left(path: str) -> None:
    memory = Memory()
    for number in range(49):
        memory.page(path.format(number), "the same")
        assert memory.link(path.format(1000 + number)) == ""
    memory.page(path.format(50), "the same")
    assert memory.link(path.format(2000)) == DUPLICATE
    assert memory.link("/another?t=1") == ""


def test_a_page_in_five_that_is_new_makes_no_duplicates() -> None:
    memory = Memory()
    for number in range(1000):
        memory.page(f"/p?t={number}", "the same" if number % 5 else f"new {number}")
        assert memory.link(f"/p?t={1000 + number}") == ""


def test_plain_paths_are_not_judged_by_their_bodies() -> None:
    memory = Memory()
    for number in range(200):
        memory.page("/" + "abcdefghij"[number % 10] * (number // 10 + 1), "please log in")
    assert memory.link("/help") == ""


def test_a_probe_goes_through_and_heals_a_wrong_verdict() -> None:
    memory = Memory()
    for number in range(60):
        memory.page(f"/p/{number}", "back soon")
    followed = []
    for number in range(100, 100 + 20 * PROBE):
        if memory.link(f"/p/{number}") == "":
            followed.append(number)
            memory.page(f"/p/{number}", f"article {number}")
    assert followed[0] == 100 + PROBE - 1
    assert followed[-50:] == list(range(50 + 20 * PROBE, 100 + 20 * PROBE)), "everything is followed again"


def test_probes_of_a_trap_die_out_even_where_each_page_has_many_links() -> None:
    memory = Memory()
    for number in range(50):
        memory.page(f"/p?t={number}", "the same")
    waiting, fetched = 1, 0
    while waiting and fetched < 1000:
        waiting, fetched = waiting - 1, fetched + 1
        memory.page(f"/p?t={fetched}", "the same")
        waiting += sum(memory.link(f"/p?t={number}") == "" for number in range(5 * PROBE))
    assert 1 < fetched < 20


@pytest.mark.parametrize(("names", "budget"), [("abcde", BUDGETS[4]), ("abcd", BUDGETS[4]), ("abc", BUDGETS[3])])
def test_filters_that_multiply_are_followed_up_to_a_budget(names: str, budget: int) -> None:
    memory = Memory()
    values = itertools.product(range(60), repeat=len(names))
    links = ("/shop?" + "&".join(f"{n}={v}" for n, v in zip(names, chosen, strict=True)) for chosen in values)
    answers = [memory.link(link) for link in itertools.islice(links, budget + 100)]
    assert answers == [""] * budget + [PATTERN] * 100


def test_filters_share_a_budget_whichever_are_chosen() -> None:
    memory = Memory()
    chosen = itertools.combinations((f"f{chr(97 + n)}=1" for n in range(20)), 6)
    answers = [memory.link("/shop?" + "&".join(each)) for each in chosen]
    assert answers.count("") == BUDGETS[4]


# ---------------------------------------------------------------- sites that are none


def assert_followed(links: list[str]) -> None:
    """All links of one page, and then each page with a body of its own."""
    memory = Memory()
    assert {trap(link) for link in links} == {""}
    assert {memory.link(link) for link in links} == {""}
    for link in links:
        memory.page(link, link)
    assert {memory.link(f"{link}0") for link in links[:100]} == {""}


def test_sites_that_people_have_pass() -> None:
    assert_followed([f"/page/{number}" for number in range(5000)])
    assert_followed([f"/product?id={number}" for number in range(20_000)])
    assert_followed([f"/thread?id={thread}&page={n}" for thread in range(40) for n in range(1, 151)])
    assert_followed([f"/forum/topic?page={n}" for n in range(1, 151)])
    assert_followed([f"/{y}/{m:02}/{d:02}/title-{y}" for y in range(1998, 2027) for m in range(1, 13) for d in (1, 28)])
    assert_followed(
        [f"/docs/{v}/api/reference/{a}/{b}/{c}.html" for v in (1, 2) for a in "abc" for b in "def" for c in "ghi"]
    )
    # an old content management system names every page by a parameter among others
    assert_followed([f"/index.php?option=content&view=article&id={n}&catid={n % 9}&Itemid=5" for n in range(9000)])


def test_a_forum_that_is_paged_through_passes() -> None:
    for number in range(3, 151):
        page, before = f"/topic?page={number - 1}", f"/topic?page={number - 2}"
        assert trap(f"/topic?page={number}", number, page, before) == ""


def test_every_url_of_the_demo_site_passes() -> None:
    truth = Site(8000).truth
    pages = sorted(truth.fetched)
    random.Random(1).shuffle(pages)
    memory = TrapMemory(cast(CrawlState, None), CRAWL)
    for url in pages:
        assert traps.trap(url, 5, pages[0], pages[1], YEAR) == ""
        assert memory.judge(url) == ""
        memory.fetched(url, "sha256:" + sha256(url.encode()).hexdigest())


# ---------------------------------------------------------------- in a crawl


class NoRobots:
    """Rules that allow everything."""

    def disallowed(self, url: str) -> bool:
        return False

    async def recall(self, urls: Any) -> None:
        return None


def link(url: str) -> Link:
    return Link(url, STANDARD.digest(url))


def lease(url: str, *, receives: int = 1, depth: int = 0, parent: str = "", priority: int = 10) -> Lease:
    return Lease(
        crawl=CRAWL,
        url=url,
        digest=STANDARD.digest(url),
        gate="example.com",
        depth=depth,
        priority=priority,
        parent_url=parent,
        discovered_at=0.0,
        token="t",
        attempt=1,
        receives=receives,
        start_at=0.0,
        expires_at=0.0,
    )


def discoverer(state: CrawlState, settings: CrawlSettings | None = None) -> Discoverer:
    given = settings or CrawlSettings(scope="any")
    return Discoverer(state, CRAWL, given, SeenCache(), cast(Any, NoRobots()))


def by_path(pages: list[Page]) -> dict[str, str]:
    return {page.url.removeprefix(HOST): page.skip for page in pages}


async def test_a_trap_is_a_page_that_is_skipped(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    async with state_in(tmp_path, "w") as state:
        links = [link(HOST + path) for path in ("/x/x/x/x/", "/c?year=7749", "/fine")]
        pages = await discoverer(state).pages([(lease(HOST + "/"), links)])
        assert by_path(pages) == {"/x/x/x/x/": "trap-repeat", "/c?year=7749": "trap-calendar", "/fine": ""}
        await state.add(CRAWL, pages)
        counts = await state.counts(CRAWL)
        assert counts.skips == {"trap-repeat": 1, "trap-calendar": 1}


async def test_a_redirect_into_a_trap_is_skipped_and_one_that_counts_on_is_a_step_deeper(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    async with state_in(tmp_path, "w") as state:
        found = discoverer(state)
        grown = found.redirect(lease(HOST + "/x/x/x/"), HOST + "/x/x/x/x/")
        assert grown is not None
        assert (grown.skip, grown.depth) == ("trap-repeat", 0)
        counting = found.redirect(lease(HOST + "/r?n=2", depth=7, parent=HOST + "/r?n=1"), HOST + "/r?n=3")
        assert counting is not None
        assert (counting.skip, counting.depth) == ("", 8)


async def test_who_gets_the_page_of_a_dead_worker_comes_to_its_verdicts(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    async with state_in(tmp_path, "w") as state:
        links = [link(f"{HOST}/p?t={number}") for number in range(10)]
        first = discoverer(state)
        for number in range(100, 160):
            first.traps.fetched(f"{HOST}/p?t={number}", "sha256:" + "0" * 64)
        parent = lease(HOST + "/")
        assert set(by_path(await first.pages([(parent, links)])).values()) == {DUPLICATE}
        # It dies here, or after it added them: the next one knows nothing but what the fleet was told.
        again = lease(HOST + "/", receives=2)
        assert set(by_path(await discoverer(state).pages([(again, links)])).values()) == {DUPLICATE}
        assert set(by_path(await discoverer(state).pages([(parent, links)])).values()) == {""}


async def test_children_keep_the_parent_they_were_found_on(tmp_path: Path) -> None:
    await seeded(tmp_path, [HOST + "/"])
    async with state_in(tmp_path, "w") as state:
        (page,) = await discoverer(state).pages([(lease(HOST + "/"), [link(HOST + "/x/x/x/x/")])])
        assert page.parent == Parent(STANDARD.digest(HOST + "/"), HOST + "/")
        assert page.depth == 1
