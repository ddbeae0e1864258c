"""Sites without an end: the crawl ends by itself, with every ordinary page, and says what it left out."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crawler import trap_memory, traps
from tests.manners.crawls import HTML, crawled, redirect, site
from tests.servers import reply, serve

pytestmark = pytest.mark.e2e

ORDINARY = ["/", "/about", *(f"/news/{number}" for number in range(1, 41)), "/archive/2024/05/12/a-title"]

Pages = Callable[[str], bytes | None]


def page(*links: str, text: str = "") -> bytes:
    return reply(f"<p>{text}</p>{''.join(f'<a href={link!r}>x</a>' for link in links)}".encode(), HTML)


async def crawl(trap: Pages, entrance: str, folder: Path) -> dict[str, list[str]]:
    """Crawl a site that has ordinary pages and, behind its start page, a trap. What became of the trap's URLs, without
    the host: `done`, and the reasons for which others were skipped."""

    def answer(target: str, head: bytes) -> bytes:
        made = trap(target)
        if made is not None:
            return made
        return page(*ORDINARY, entrance, text=target) if target in ORDINARY else reply(status="404 Not Found")

    async with serve(site(answer)) as server:
        rows: dict[str, dict[str, Any]] = await crawled(folder, server.url("/"))
        ends: dict[str, list[str]] = {}
        for url, row in rows.items():
            ends.setdefault(row["reason"] or row["outcome"], []).append(url.removeprefix(server.address))
    assert set(ORDINARY) <= set(ends["done"])
    assert Counter(server.targets) == Counter([*ends["done"], "/robots.txt"])
    return {why: [url for url in urls if url not in ORDINARY] for why, urls in ends.items()}


@pytest.fixture
def short_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain is fetched page after page, so a long one takes long."""
    monkeypatch.setattr(traps, "CHAIN", 30)


@pytest.mark.case("H01")
async def test_a_calendar_by_number_is_left_at_the_length_of_a_chain(short_chain: None, tmp_path: Path) -> None:
    def calendar(target: str) -> bytes | None:
        month = re.fullmatch(r"/c\?m=(-?\d+)", target)
        return page(f"/c?m={int(month[1]) + 1}", "/about", text=target) if month else None

    ends = await crawl(calendar, "/c?m=1", tmp_path)
    assert len(ends["done"]) == 30
    assert ends["trap-chain"] == ["/c?m=31"]


async def test_a_calendar_with_years_is_left_ten_years_ahead_and_long_before(tmp_path: Path) -> None:
    def calendar(target: str) -> bytes | None:
        found = re.fullmatch(r"/cal/(\d{4})/(\d\d)/", target)
        if not found:
            return None
        month = int(found[1]) * 12 + int(found[2]) - 1
        months = (month - 120, month - 12, month + 12, month + 120)
        return page(*(f"/cal/{at // 12}/{at % 12 + 1:02}/" for at in months), text=target)

    ends = await crawl(calendar, "/cal/2026/11/", tmp_path)
    years = {int(url[5:9]) for url in ends["done"]}
    assert min(years) == 1900
    assert 2036 <= max(years) <= 2037 + 10
    assert set(ends) == {"done", "trap-calendar"}


@pytest.mark.case("H01")
async def test_a_path_that_grows_is_left(tmp_path: Path) -> None:
    def soft(target: str) -> bytes | None:
        return page("x/", text="nothing here") if target.startswith("/soft/") else None

    ends = await crawl(soft, "/soft/", tmp_path)
    assert ends["done"] == ["/soft/", "/soft/x/", "/soft/x/x/", "/soft/x/x/x/"]
    assert ends["trap-repeat"] == ["/soft/x/x/x/x/"]


async def test_a_path_that_grows_in_many_directions_is_left_for_its_bodies(tmp_path: Path) -> None:
    def soft(target: str) -> bytes | None:
        return page("a/", "b/", "c/", "d/", "e/", text="nothing here") if target.startswith("/soft/") else None

    ends = await crawl(soft, "/soft/", tmp_path)
    assert len(ends["done"]) < 5000
    assert ends["trap-duplicate"]


@pytest.mark.case("H01")
async def test_a_session_id_makes_no_new_page(tmp_path: Path) -> None:
    sessions = itertools.count()

    def shop(target: str) -> bytes | None:
        if not target.startswith("/shop"):
            return None
        session = f"{next(sessions):032x}"
        return page(*(f"/shop/{item};jsessionid={session}" for item in range(5)), f"/shop?sid={session}")

    ends = await crawl(shop, "/shop", tmp_path)
    assert len(ends["done"]) == 6
    assert set(ends) == {"done"}


async def test_filters_that_multiply_are_left_at_their_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trap_memory, "BUDGETS", {3: 400, 4: 300})

    def shop(target: str) -> bytes | None:
        if not target.startswith("/shop?"):
            return None
        chosen = dict(piece.split("=") for piece in target[6:].split("&"))
        more = [chosen | {name: str(int(value) + 1)} for name, value in chosen.items()]
        return page(*("/shop?" + "&".join(f"{n}={v}" for n, v in each.items()) for each in more), text=target)

    ends = await crawl(shop, "/shop?brand=1&colour=1&price=1&size=1&sort=1", tmp_path)
    assert len(ends["done"]) == 300
    assert ends["trap-pattern"]


async def test_redirects_that_count_on_are_left(short_chain: None, tmp_path: Path) -> None:
    def door(target: str) -> bytes | None:
        found = re.fullmatch(r"/door\?n=(\d+)", target)
        return redirect(f"/door?n={int(found[1]) + 1}") if found else None

    ends = await crawl(door, "/door?n=1", tmp_path)
    assert 30 <= len(ends["done"]) <= 33
    assert len(ends["trap-chain"]) == 1


@pytest.mark.case("H02")
async def test_a_query_echoed_into_links_is_left_when_it_grows(tmp_path: Path) -> None:
    def echo(target: str) -> bytes | None:
        if not target.startswith("/echo?"):
            return None
        return page(target.replace("%", "%25"), f"{target}&p=1", text=target)

    ends = await crawl(echo, "/echo?q=%25", tmp_path)
    assert len(ends["done"]) < 100
    assert {"trap-encoding", "trap-query"} <= set(ends)
