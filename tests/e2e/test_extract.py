"""Crawls with --extract: its results are in the rows, and nothing that a function does costs a page or a link."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from crawler.config import CrawlSettings
from crawler.discover import seed_page
from crawler.loop import Worker
from crawler.model import CrawlRecord
from tests.command import rows, run, status
from tests.faults.crawls import counts, seeded, state_in
from tests.manners.crawls import HTML, crawled, site, working
from tests.servers import reply, serve

pytestmark = pytest.mark.e2e

FAST = ("--rate", "0", "--allow-private", "--processes", "1")

MODULE = """
import os, time
def f(page):
    kind = page.url.rpartition("/")[2]
    if kind == "raises": raise ValueError("no price")
    if kind == "hangs": time.sleep(60)
    if kind == "dies": os._exit(1)
    if kind == "junk": return [1]
    print("printed")
    return {"h1": page.html.css_first("h1").text(), "links": len(page.links)}
"""

KINDS = ("good", "raises", "hangs", "dies", "junk")


def answer(target: str, head: bytes) -> bytes:
    """A start page with links to pages of every kind, each with a link of its own; and a file."""
    if target == "/":
        return reply("".join(f"<a href=/{kind}>x</a>" for kind in (*KINDS, "file")).encode() + b"<h1>home</h1>", HTML)
    if target == "/file":
        return reply(b"%PDF-1.4 x", "Content-Type: application/pdf")
    return reply(
        f"<h1>{target}</h1><a href={target}/after>x</a>".encode() if target.count("/") == 1 else b"<h1>e", HTML
    )


async def test_results_are_in_the_rows_and_failures_cost_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    async with serve(site(answer)) as server:
        arguments = ("crawl", server.url("/"), "--out", "out", *FAST, "--extract", "mine:f")
        result = await asyncio.to_thread(run, *arguments, cwd=tmp_path)
        found = {row["url"].removeprefix(server.address): row for row in rows(tmp_path / "out")}
    assert result.returncode == 0
    assert set(found) == {"/", "/file", *(f"/{k}" for k in KINDS), *(f"/{k}/after" for k in KINDS)}
    assert all(row["outcome"] == "done" and row["attempts"] == 1 for row in found.values())
    assert msgspec.json.decode(found["/"]["extra"]) == {"h1": "home", "links": 6}
    assert msgspec.json.decode(found["/good"]["extra"]) == {"h1": "/good", "links": 1}
    assert found["/file"]["extra"] is None
    assert {kind: found[f"/{kind}"]["error"] for kind in KINDS} == {
        "good": None,
        "raises": "extract: ValueError: no price",
        "hangs": "extract: no result within 5 s",
        "dies": "extract: the process that it ran in died",
        "junk": "extract: a dict is expected, not of type list",
    }
    assert "--extract mine:f failed at 4 of 11 pages" in result.stderr
    assert "Traceback" not in result.stderr
    assert "printed" not in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("spec", "why"), [("absent:f", "there is no module 'absent'"), ("mine:g", "module 'mine' has no 'g'")]
)
def test_a_crawl_does_not_begin_without_the_function(tmp_path: Path, spec: str, why: str) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    result = run("crawl", "http://127.0.0.1:1/", "--out", "out", "--extract", spec, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(f"crawler: --extract {spec}: {why}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_seeds_may_be_added_where_the_module_is_not(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "s.sqlite"), "--store", str(tmp_path / "out"))
    seeded = run("seed", "http://127.0.0.1:1/", *state, "--allow-private", "--extract", "absent:f", cwd=tmp_path)
    assert seeded.returncode == 0
    assert "there is no module 'absent'" in seeded.stderr
    assert "the workers need it" in seeded.stderr
    crawl = str(status(*state[:2])["crawl"])
    worker = run("work", *state, "--crawl", crawl, "--until-complete", cwd=tmp_path)
    assert (worker.returncode, worker.stderr.count("\n")) == (2, 1)
    assert "there is no module 'absent'" in worker.stderr
    assert status(*state[:2])["pending"] == 1
    (tmp_path / "mine.py").write_text("f = 1")
    wrong = run("seed", "http://127.0.0.1:1/x", *state, "--extract", "mine:f", cwd=tmp_path)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert status(*state[:2])["discovered"] == 1


async def test_a_worker_without_the_module_leaves_the_pages_to_others_and_serves_other_crawls(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(site(answer)) as server, asyncio.timeout(60):
        await seeded(tmp_path, [server.url("/only/with/function")], extract="absent:f")
        plain = CrawlSettings(rate=0.0, allow_private=True)
        async with state_in(tmp_path, "seeder") as state:
            await state.create(CrawlRecord(id="d", started_at=time.time(), settings=plain, store=str(tmp_path)))
            page = seed_page(server.url("/good"), plain)
            assert page is not None
            await state.add("d", [page])
            async with working(tmp_path):
                while (await state.counts("d")).outstanding or not caplog.messages:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        assert "/only/with/function" not in server.targets
        assert "/good" in server.targets
    refusals = [
        text for text in caplog.messages if text.startswith("pages are left to other workers: --extract absent")
    ]
    assert len(refusals) == 1
    after = await counts(tmp_path)
    assert (after.pending, after.done, after.dead) == (1, 0, 0)


async def test_a_module_is_found_by_a_worker_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.py").write_text("def f(page): return {'n': 1}")
    monkeypatch.chdir(tmp_path)
    async with serve(site(answer)) as server:
        found = await crawled(tmp_path / "out", server.url("/good"), extract="there:f")
    assert {row["extra"] for row in found.values()} == {'{"n":1}'}


async def test_a_crawl_that_nobody_can_serve_goes_on_once_its_function_is_named_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crawler.contexts.REFRESH", 0.05)
    monkeypatch.setattr("crawler.loop.ELSEWHERE", 0.05)
    (tmp_path / "right.py").write_text("def f(page): return {'n': 2}")
    async with serve(site(answer)) as server, asyncio.timeout(60):
        await seeded(tmp_path, [server.url("/good")], extract="wrong:f")
        async with state_in(tmp_path, "w") as state:
            worker = Worker(state, str(tmp_path), name="w", until_complete=True)
            running = asyncio.create_task(worker.run())
            (record,) = await state.crawls()
            while not caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            await state.amend(record.id, CrawlSettings(rate=0.0, allow_private=True, lease=5.0, extract="right:f"))
            await running
            assert (await state.counts(record.id)).done == 2
