"""The parser process: real children that hang, die and are replaced."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable

import psutil
import pytest

from crawler.errors import CrawlerError
from crawler.fetched import ParsedPage
from crawler.parse import parse
from crawler.parser import Parser
from crawler.parser_process import ADDRESS_SPACE

HTML = "text/html; charset=utf-8"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

# Each attribute is compared with all before it.
ENDLESS = b"<a " + b" ".join(b"a%d" % n for n in range(300_000)) + b">"


def body(n: int) -> bytes:
    return f"<title>page {n}</title><a href=/{n}><a href=/next-{n}>".encode()


def ask(parser: Parser, n: int) -> asyncio.Task[ParsedPage]:
    return asyncio.create_task(parser.parse(f"https://example.com/dir/{n}", HTML, body(n), ["noindex"], "bot"))


def expected(n: int) -> ParsedPage:
    return parse(body(n), HTML, f"https://example.com/dir/{n}", ["noindex"], "bot")


def pid_of(parser: Parser) -> int:
    assert parser.pid is not None
    return parser.pid


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def parser_processes() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "crawler.parser_process" in child.cmdline()]


@pytest.fixture
async def parser() -> AsyncIterator[Parser]:
    parser = Parser(timeout=30)
    await parser.start()
    yield parser
    await parser.close()


async def test_many_pages_at_once_get_their_own_answers(parser: Parser) -> None:
    pages = await asyncio.gather(*(ask(parser, n) for n in range(300)))
    assert pages == [expected(n) for n in range(300)]


async def test_large_bodies_pass_in_both_directions(parser: Parser) -> None:
    large = b"".join(b"<a href=/%d>" % n for n in range(40_000))
    pages = await asyncio.gather(*(parser.parse("https://example.com/", HTML, large, [], "bot") for _ in range(5)))
    assert [len(page.links) for page in pages] == [40_000] * 5


async def test_a_body_is_parsed_up_to_the_limit() -> None:
    parser = Parser(max_body=10)
    page = await parser.parse("https://example.com/", HTML, b"<a href=1><a href=2>", [], "bot")
    assert [link.url for link in page.links] == ["https://example.com/1"]
    await parser.close()


async def test_nested_markup_is_parsed_like_any_other(parser: Parser) -> None:
    pid = pid_of(parser)
    nested = await parser.parse("https://example.com/", HTML, b"<div>" * 40_000 + b"<a href=/x>", [], "bot")
    mixed = b"".join(b"<b x%d>" % n for n in range(2000)) + b"<i>" * 2000 + b"t</b>" * 2000 + b"<a href=/x>"
    formatting = await parser.parse("https://example.com/", HTML, mixed, [], "bot")
    assert not nested.failed
    assert nested.links == formatting.links
    assert parser.pid == pid


@pytest.mark.case("D01")
async def test_an_endless_page_times_out_alone_while_the_loop_goes_on() -> None:
    parser = Parser(timeout=1.0)
    await parser.start()
    pid = pid_of(parser)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    endless = asyncio.create_task(parser.parse("https://example.com/", HTML, ENDLESS, [], "bot"))
    behind = [ask(parser, n) for n in range(20)]
    assert await endless == ParsedPage(failed="timeout")
    assert ticks >= 10
    assert await asyncio.gather(*behind) == [expected(n) for n in range(20)]
    assert parser.pid != pid
    assert is_gone(pid)
    ticker.cancel()
    await parser.close()


async def test_several_endless_pages_cost_a_child_each() -> None:
    parser = Parser(timeout=0.5)
    pages = [asyncio.create_task(parser.parse("https://example.com/", HTML, ENDLESS, [], "bot")) for _ in range(2)]
    last = ask(parser, 1)
    assert [page.failed for page in await asyncio.gather(*pages)] == ["timeout", "timeout"]
    assert await last == expected(1)
    await parser.close()


@pytest.mark.case("D02")
async def test_a_child_killed_in_the_middle_costs_the_page_at_hand(parser: Parser) -> None:
    pid = pid_of(parser)
    os.kill(pid, signal.SIGSTOP)  # so that nothing is answered before the kill
    tasks = [ask(parser, n) for n in range(50)]
    await asyncio.sleep(0)
    os.kill(pid, signal.SIGKILL)
    pages = await asyncio.gather(*tasks)
    assert pages[0] == ParsedPage(failed="crash")
    assert pages[1:] == [expected(n) for n in range(1, 50)]
    assert parser.pid != pid
    with pytest.raises(ProcessLookupError):  # reaped
        os.kill(pid, 0)


async def test_pages_that_follow_while_a_child_is_replaced_are_parsed(parser: Parser) -> None:
    os.kill(pid_of(parser), signal.SIGKILL)
    await until(lambda: parser.pid is None)
    assert await asyncio.gather(*(ask(parser, n) for n in range(5))) == [expected(n) for n in range(5)]


async def test_an_idle_child_that_dies_is_replaced_and_nobody_blamed(parser: Parser) -> None:
    pid = pid_of(parser)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: parser.pid not in (pid, None))
    assert await ask(parser, 1) == expected(1)


async def test_an_answer_that_is_there_counts_even_if_the_loop_was_held_up() -> None:
    parser = Parser(timeout=0.5)
    await parser.start()
    task = ask(parser, 1)
    await asyncio.sleep(0)
    time.sleep(1.0)  # noqa: ASYNC251 - the loop is held up beyond the limit
    assert await task == expected(1)
    await parser.close()


async def test_a_caller_that_goes_away_disturbs_nobody(parser: Parser) -> None:
    os.kill(pid_of(parser), signal.SIGSTOP)
    tasks = [ask(parser, n) for n in range(6)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    os.kill(pid_of(parser), signal.SIGCONT)
    assert await asyncio.gather(*tasks[1::2]) == [expected(n) for n in (1, 3, 5)]


async def test_ctrl_c_and_sigterm_do_not_end_the_child(parser: Parser) -> None:
    pid = pid_of(parser)
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    assert await ask(parser, 1) == expected(1)
    assert parser.pid == pid


@LINUX
async def test_a_page_that_needs_too_much_memory_ends_the_child_only(parser: Parser) -> None:
    pid = pid_of(parser)
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (ADDRESS_SPACE, ADDRESS_SPACE)
    assert resource.prlimit(pid, resource.RLIMIT_CORE) == (0, 0)
    tight = psutil.Process(pid).memory_info().vms + 64 * 1024 * 1024
    resource.prlimit(pid, resource.RLIMIT_AS, (tight, tight))
    page = await parser.parse("https://example.com/", HTML, b"<p " + b"a=1 " * 2_500_000, [], "bot")
    assert page.failed == "crash"
    assert await ask(parser, 1) == expected(1)


PARENT = """
import asyncio
from crawler.parser import Parser

async def main():
    endless = b"<a " + b" ".join(b"a%d" % n for n in range(300_000)) + b">"
    parser = Parser(timeout=600)
    await parser.start()
    task = asyncio.create_task(parser.parse("https://example.com/", "text/html", endless, [], "bot"))
    await asyncio.sleep(0)
    print(parser.pid, flush=True)
    await task

asyncio.run(main())
"""


@LINUX
async def test_the_child_dies_with_its_parent_even_when_it_is_busy() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    await until(lambda: psutil.Process(child).cpu_times().user > 0.2)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await until(lambda: is_gone(child))


@pytest.mark.parametrize("executable", ["/bin/false", "/nonexistent/python"])
async def test_a_child_that_cannot_start_is_one_line(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Parser()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", executable)
        with pytest.raises(CrawlerError, match="does not start") as caught:
            await parser.start()
        assert "\n" not in str(caught.value)
        results = await asyncio.gather(*(ask(parser, n) for n in range(3)), return_exceptions=True)
        assert [type(result) for result in results] == [CrawlerError] * 3
    assert await ask(parser, 1) == expected(1)  # the trouble is over
    await parser.close()


async def test_closing_ends_the_child_and_cancels_what_waits() -> None:
    parser = Parser()
    await parser.start()
    pid = pid_of(parser)
    os.kill(pid, signal.SIGSTOP)
    task = ask(parser, 1)
    await asyncio.sleep(0)
    await parser.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_gone(pid)
    with pytest.raises(CrawlerError):
        await ask(parser, 2)


async def test_closing_while_a_child_is_started_leaves_none_behind() -> None:
    parser = Parser()
    task = ask(parser, 1)
    await until(lambda: bool(parser_processes()))
    (process,) = parser_processes()
    await parser.close()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not process.is_running()
