"""How sitemaps are asked for, what of them is read, and what is told of the others."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from crawler import sitemaps
from crawler.errors import StateUnavailable
from crawler.model import Why
from crawler.sitemaps import ATTEMPTS, LEVELS, MOST_FILES, MOST_HOPS
from crawler.state.port import CrawlState
from tests.manners.crawls import crawled, redirect
from tests.servers import Peer, Script, reply, serve
from tests.sitemaps.reading import CRAWL, Answers, index, page, reader, site, urlset

LIST = urlset("/a", "/b")


@pytest.mark.case("E01")
@pytest.mark.parametrize(
    "answer",
    [
        reply(LIST, "Content-Type: text/xml"),
        reply(LIST, "Content-Type: text/html"),
        reply(LIST, "Content-Type: application/x-gzip"),
        reply(gzip.compress(LIST), "Content-Type: application/x-gzip"),
        reply(gzip.compress(LIST), "Content-Type: application/octet-stream"),
        reply(gzip.compress(LIST), "Content-Encoding: gzip", "Content-Type: text/xml"),
        reply(gzip.compress(gzip.compress(LIST)), "Content-Encoding: gzip"),
        reply(LIST, "Content-Encoding: gzip"),
        reply(gzip.compress(LIST), "Content-Encoding: x-unknown"),
        reply(LIST, status="203 Non-Authoritative Information"),
    ],
)
async def test_a_file_is_what_its_bytes_are_whatever_is_said_of_them(answer: bytes) -> None:
    async with serve(site({"/s.xml.gz": answer})) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml.gz")
        assert worker.found == [server.url("/a"), server.url("/b")]


@pytest.mark.case("E02", "E07")
async def test_names_are_resolved_and_may_be_of_other_hosts_and_each_is_read_once() -> None:
    async with serve(site({"/s.xml": reply(LIST)})) as other, serve(site({"/s.xml": reply(LIST)})) as server:
        async with reader(":memory:") as worker:
            named = (
                "/s.xml",
                "s.xml",
                server.url("/s.xml#x"),
                other.url("/s.xml"),
                "mailto:a@example.com",
                "/robots.txt",
            )
            assert await worker.read(server, *named)
            assert worker.found == [server.url("/a"), server.url("/b"), other.url("/a"), other.url("/b")]
    assert (server.targets, other.targets) == (["/s.xml"], ["/s.xml"])


async def test_redirects_are_followed_and_relative_names_belong_to_where_they_lead() -> None:
    async with serve(site({"/x/s.xml": reply(LIST)})) as other:
        answers: Answers = {"/s.xml": redirect("/t.xml"), "/t.xml": redirect(other.url("/x/s.xml"))}
        async with serve(site(answers)) as server, reader(":memory:") as worker:
            assert await worker.read(server, "/s.xml")
            assert worker.found == [other.url("/a"), other.url("/b")]


async def test_a_redirect_loop_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(site({"/s.xml": redirect("/s.xml")})) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml")
        assert len(server.targets) == 1 + MOST_HOPS
    assert "HTTP 302" in caplog.text


@pytest.mark.parametrize("status", ["500 Oops", "503 Busy", "429 Slow Down", "599 Odd"])
async def test_a_server_in_trouble_is_asked_again(status: str) -> None:
    answers: Answers = {"/s.xml": [reply(b"", status=status), reply(b"", status=status), reply(LIST)]}
    async with serve(site(answers)) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml")
        assert worker.found == [server.url("/a"), server.url("/b")]
        assert len(worker.waits) == 2
        assert min(worker.waits) > 10


@pytest.mark.case("E04")
async def test_what_cannot_be_had_is_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    answers: Answers = {
        "/500.xml": reply(b"", status="500 Oops"),
        "/login.xml": reply(b"<!DOCTYPE html><html><a href='/x'>x</a></html>"),
        "/good.xml": reply(urlset("/a", "nonsense")),
    }
    async with serve(site(answers)) as server, reader(":memory:") as worker:
        with caplog.at_level(logging.INFO):
            assert await worker.read(server, "/500.xml", "/404.xml", "/login.xml", "/good.xml", "http://127.0.0.1:1/")
        assert server.targets == ["/500.xml"] * ATTEMPTS + ["/404.xml", "/login.xml", "/good.xml"]
        assert worker.found == [server.url("/a")]
        (line,) = [record.getMessage() for record in caplog.records if record.name == "crawler.sitemaps"]
        assert line == (
            f"sitemaps of {server.address}: 1 URLs in 5 files; 4 files cannot be had, the first: "
            f"{server.url('/500.xml')}: HTTP 500 Oops; 1 damaged entries, 0 beyond the limit of a file"
        )


async def test_a_body_that_ends_early_is_asked_for_again_and_then_used_as_far_as_it_came() -> None:
    whole = reply(urlset(*(f"/{number}" for number in range(100))))
    async with serve(_cut(whole[: len(whole) * 9 // 10])) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml")
        assert len(server.targets) == ATTEMPTS
        assert worker.found == [server.url(f"/{number}") for number in range(len(worker.found))]
        assert len(worker.found) > 80


def _cut(data: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)

    return script


async def test_a_wait_that_the_server_asks_for_holds_the_gate_for_all() -> None:
    answers: Answers = {"/s.xml": [reply(b"", "Retry-After: 120", status="503 Busy"), reply(LIST)]}
    async with serve(site(answers)) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml")
        (host,) = [host async for host in worker.state.hosts(CRAWL)]
        assert host.why is Why.RETRY_AFTER
        assert max(worker.waits) > 100


async def test_every_request_is_made_in_a_turn_of_its_host() -> None:
    async with serve(site({"/s.xml": redirect("/t.xml"), "/t.xml": reply(index("/u.xml"))})) as server:
        async with reader(":memory:", rate=0.01) as worker:
            lease = await page(worker.state, server)
            assert await worker.read(server, "/s.xml", lease=lease)
            # Three requests after the page's own, 100 seconds from one to the next.
            assert [round(wait, -1) for wait in worker.waits[:1]] == [100]
            assert await worker.state.turn(CRAWL, lease.gate) - lease.start_at > 390
    assert server.targets == ["/s.xml", "/t.xml", "/u.xml"]


async def test_addresses_that_must_not_be_asked_are_not() -> None:
    async with serve(site({"/s.xml": reply(LIST)})) as server, reader(":memory:", allow_private=False) as worker:
        assert await worker.read(server, "/s.xml")
        assert (worker.found, server.targets, worker.waits) == ([], [], [])


@pytest.mark.case("E02")
async def test_indexes_are_followed_so_far_and_no_further() -> None:
    answers: Answers = {f"/{n}.xml": reply(index(f"/{n}.xml", f"/{n + 1}.xml")) for n in range(10)}
    async with serve(site(answers)) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/0.xml")
        assert server.targets == [f"/{n}.xml" for n in range(LEVELS + 1)]


async def test_so_many_files_are_read_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    answers: Answers = {"/s.xml": reply(index(*(f"/{number}.xml" for number in range(MOST_FILES + 20))))}
    async with serve(site(answers)) as server, reader(":memory:") as worker:
        assert await worker.read(server, "/s.xml")
        assert len(server.targets) == MOST_FILES
    assert "21 files left out" in caplog.text


# ---------------------------------------------------------------- once for the fleet


async def test_one_page_of_an_origin_is_elected_and_stays_so() -> None:
    async with serve(site({})) as server, serve(site({})) as other, reader(":memory:") as worker:
        first, second = await page(worker.state, server), await page(worker.state, server, "/second")
        assert await worker.sitemaps.falls_to(first)
        assert not await worker.sitemaps.falls_to(second)
        assert await worker.sitemaps.falls_to(first)
        assert await worker.sitemaps.falls_to(await page(worker.state, other))
        assert await worker.read(server, "/s.xml", lease=first)
        assert not await worker.sitemaps.falls_to(first)


async def test_another_worker_goes_on_where_one_was_stopped(tmp_path: Path) -> None:
    path = f"{tmp_path}/state.sqlite"
    answers: Answers = {
        "/s.xml": reply(index("/0.xml", "/1.xml", "/2.xml")),
        "/0.xml": reply(urlset("/0")),
        "/1.xml": [reply(b"", status="503 Busy"), reply(urlset("/1"))],
        "/2.xml": reply(urlset("/2")),
    }
    async with serve(site(answers)) as server:
        async with reader(path) as worker, reader(path) as successor:
            lease = await page(worker.state, server)
            assert await worker.sitemaps.falls_to(lease)
            pause = worker.sitemaps._pause

            async def stop_at_the_wait(until: float) -> bool:
                await pause(until)
                return not worker.waits

            worker.sitemaps._pause = stop_at_the_wait
            assert not await worker.read(server, "/s.xml", lease=lease)
            assert worker.found == [server.url("/0")]
            assert await successor.sitemaps.falls_to(lease)
            assert await successor.read(server, "/s.xml", lease=lease)
            assert successor.found == [server.url("/1"), server.url("/2")]
            assert not await successor.sitemaps.falls_to(lease)
    assert server.targets.count("/0.xml") == 1
    assert server.targets.count("/s.xml") == 2


class LossyState:
    """Loses the replies of its first calls."""

    def __init__(self, state: CrawlState) -> None:
        self._state, self.lost = state, set[str]()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._state, name)
        if name not in ("recall", "remember", "turn", "counts"):
            return call

        async def lossy(*arguments: object, **given: object) -> object:
            answer = await call(*arguments, **given)
            if name not in self.lost:
                self.lost.add(name)
                raise StateUnavailable("the reply was lost")
            return answer

        return lossy


async def test_replies_of_the_state_that_get_lost_do_no_harm() -> None:
    answers: Answers = {"/s.xml": reply(LIST)}
    async with serve(site(answers)) as server:
        async with reader(":memory:", wrap=lambda state: cast(CrawlState, LossyState(state)), max_pages=100) as worker:
            lease = await page(worker.state, server)
            with pytest.raises(StateUnavailable):
                await worker.sitemaps.falls_to(lease)
            with pytest.raises(StateUnavailable):
                await worker.sitemaps.falls_to(lease)
            assert await worker.sitemaps.falls_to(lease)
            assert await worker.read(server, "/s.xml", lease=lease)
            assert len(worker.found) == 2
            assert not await worker.sitemaps.falls_to(lease)


# ---------------------------------------------------------------- limits of the crawl


async def test_nothing_is_read_for_a_crawl_whose_time_is_over() -> None:
    async with serve(site({"/s.xml": reply(LIST)})) as server, reader(":memory:", max_time=1e-9) as worker:
        assert await worker.read(server, "/s.xml")
        assert server.targets == []


async def test_a_crawl_with_a_limit_of_pages_reads_no_more_than_it_has_use_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sitemaps, "ROOM", 0.2)

    def answer(target: str, _: bytes) -> bytes:
        if target.endswith(".xml"):
            number = int(target[1:-4])
            return reply(urlset(*(f"/page/{number}/{n}" for n in range(20))))
        return reply(b"<p>page</p>", "Content-Type: text/html")

    async def script(peer: Peer) -> None:
        robots = b"".join(b"Sitemap: /%d.xml\n" % number for number in range(100))
        while head := await peer.request():
            target = head.split(b" ", 2)[1].decode()
            await peer.send(reply(robots) if target == "/robots.txt" else answer(target, head))

    async with serve(script) as server:
        rows = await crawled(tmp_path / "out", server.url("/"), max_pages=30)
    assert sum(row["outcome"] == "done" for row in rows.values()) == 30
    assert len([target for target in server.targets if target.endswith(".xml")]) < 10


# ---------------------------------------------------------------- every URL passes what links pass


@pytest.mark.case("E07")
async def test_listed_urls_pass_scope_filters_robots_length_and_traps(tmp_path: Path) -> None:
    listed = [
        "/good",
        "http://127.0.0.7:9/elsewhere",
        "/filtered",
        "/secret/1",
        f"/{'x' * 8100}",
        "/a/b/" * 5 + "c",
        "/",
    ]

    async def script(peer: Peer) -> None:
        while head := await peer.request():
            match head.split(b" ", 2)[1]:
                case b"/robots.txt":
                    await peer.send(reply(b"User-agent: *\nDisallow: /secret\nSitemap: /s.xml"))
                case b"/s.xml":
                    await peer.send(reply(urlset(*listed)))
                case _:
                    await peer.send(reply(b"<p>page</p>", "Content-Type: text/html"))

    async with serve(script) as server:
        rows = await crawled(tmp_path / "out", server.url("/"), exclude=("filtered",))
    found = {url[len(server.address) :][:9]: (row["outcome"], row["reason"], row["depth"]) for url, row in rows.items()}
    assert found == {
        "/": ("done", None, 0),
        "/good": ("done", None, 1),
        "/secret/1": ("skipped", "robots", 1),
        "/xxxxxxxx": ("skipped", "url-too-long", 1),
        "/a/b//a/b": ("skipped", "trap-repeat", 1),
    }
