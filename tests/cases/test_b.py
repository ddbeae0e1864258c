"""robots.txt: groups of other names, rules behind redirects, and delays of all kinds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler.robots import MAX_DELAY
from tests.faults.crawls import CRAWL, counts, seeded, state_in
from tests.manners.crawls import HTML, crawled, redirect, working
from tests.robots.reading import allowed, parse
from tests.servers import Peer, Script, reply, serve


@pytest.mark.case("B03")
@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("User-agent: Ex\nAllow: /\n\nUser-agent: *\nDisallow: /", False),
        ("User-agent: ExampleBot/1.0\nDisallow: /", False),
        ("User-agent: Example\nDisallow: /\n\nUser-agent: *\nAllow: /", True),
        ("User-agent: examplebot\nAllow: /\n\nUser-agent: *\nDisallow: /", True),
    ],
)
def test_only_the_whole_name_is_a_group_of_ones_own(text: str, open_: bool) -> None:
    assert allowed(text, "/x", "ExampleBot") is open_


@pytest.mark.case("B04")
@pytest.mark.parametrize(
    "text",
    [
        "User-agent: *\n\nDisallow: /a",
        "User-agent: examplebot\nDisallow: /b\n\nUser-agent: *\nAllow: /\n\nUser-agent: examplebot\nDisallow: /a",
        "User-agent: examplebot\nCrawl-delay: 5\nUser-agent: *\nDisallow: /",
        "User-agent: examplebot\nSitemap: https://site.example/s.xml\nUser-agent: *\nDisallow: /",
    ],
)
def test_a_group_ends_where_another_begins_behind_a_rule(text: str) -> None:
    assert not allowed(text, "/a", "ExampleBot")


@pytest.mark.case("B05", "B06")
@pytest.mark.parametrize(
    ("rules", "path", "open_"),
    [
        ("Disallow: /a\nAllow: /a/b", "/a/b", True),
        ("Disallow: /a\nAllow: /a/b", "/a/c", False),
        ("Disallow: /p\nAllow: /p", "/p", True),
        ("Disallow: /*?", "/x?y", False),
        ("Disallow: /*?", "/x", True),
        ("Disallow: /*.json$", "/d.json", False),
        ("Disallow: /*.json$", "/d.json?x", True),
        ("Disallow: /" + "*a" * 30 + "*b", "/" + "a" * 2000, True),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /a%2Fb", "/a%2fb", False),
        ("Disallow: /*%2F*", "/a/b/c", True),
        ("Disallow: /ü/", "/%C3%BC/", False),
        ("Disallow: /~joe", "/%7Ejoe", False),
        ("Disallow: /a%2Ab", "/aXb", True),
        ("Disallow: /a%2Ab", "/a*b", False),
    ],
)
def test_which_rule_decides(rules: str, path: str, open_: bool) -> None:
    assert allowed(f"User-agent: *\n{rules}\n", path) is open_


def hosted(rules: bytes, *, to: str = "") -> Script:
    """A site whose /ok leads to /private/x of `to`, or of its own."""

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            match head.split(b" ", 2)[1]:
                case b"/robots.txt":
                    await peer.send(reply(rules))
                case b"/ok":
                    await peer.send(redirect(f"{to}/private/x"))
                case _:
                    await peer.send(reply(b"leaf", HTML))

    return script


PRIVATE = b"User-agent: *\nDisallow: /private/\n"


@pytest.mark.case("B08")
async def test_a_redirect_to_what_the_own_rules_forbid_is_not_followed(tmp_path: Path) -> None:
    async with serve(hosted(PRIVATE)) as server:
        rows = await crawled(tmp_path, server.url("/ok"))
    assert server.targets == ["/robots.txt", "/ok"]
    assert rows[server.url("/ok")]["redirect_to"] == server.url("/private/x")
    forbidden = rows[server.url("/private/x")]
    assert (forbidden["outcome"], forbidden["reason"]) == ("skipped", "robots")


@pytest.mark.case("B08")
async def test_a_redirect_to_what_another_hosts_rules_forbid_is_not_followed(tmp_path: Path) -> None:
    async with serve(hosted(PRIVATE), host="127.0.0.2") as other, serve(hosted(b"", to=other.address)) as server:
        rows = await crawled(tmp_path, server.url("/ok"), scope="any")
    assert (server.targets, other.targets) == (["/robots.txt", "/ok"], ["/robots.txt"])
    assert rows[other.url("/private/x")]["reason"] == "robots"


@pytest.mark.case("B10")
@pytest.mark.parametrize(
    ("line", "delay", "capped"),
    [
        ("Crawl-delay: 0.5", 0.5, False),
        ("Crawl-delay: 1e9", MAX_DELAY, True),
        ("Crawl-delay: 3600", 3600.0, False),
        ("Crawl-delay: -1", None, False),
        ("Crawl-delay: 10s", None, False),
        ("Crawl-delay: inf", None, False),
        ("Crawl-delay:", None, False),
        ("", None, False),
    ],
)
def test_a_delay_is_a_number_or_nothing(line: str, delay: float | None, capped: bool) -> None:
    rules = parse(f"User-agent: *\nDisallow: /x\n{line}\n")
    assert (rules.crawl_delay, rules.delay_capped) == (delay, capped)


@pytest.mark.case("B10")
async def test_pages_of_a_host_that_asks_for_an_hour_between_requests_are_not_held(tmp_path: Path) -> None:
    """The lease lasts seconds and the delay an hour: the other pages are in the frontier, nobody holds them."""
    delay = b"User-agent: *\nCrawl-delay: 3600\n"
    async with serve(hosted(delay)) as slow, serve(hosted(b""), host="127.0.0.2") as other:
        pages = [slow.url(f"/{number}") for number in range(20)]
        await seeded(tmp_path, [*pages, *(other.url(f"/{number}") for number in range(20))], rate=50.0)
        async with working(tmp_path), asyncio.timeout(20):
            while (now := await counts(tmp_path)).done < 20 or now.leased:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.05)
    assert slow.targets[0] == "/robots.txt"
    # What was in hand when the rules came may still go: no more than may be in flight, and one.
    assert len(slow.targets) <= 4
    assert len(other.targets) == 21
    assert now.pending >= 17
    async with state_in(tmp_path, "reader") as state:
        turns = {host.gate: host async for host in state.hosts(CRAWL)}
    assert turns["127.0.0.1"].interval == 3600
