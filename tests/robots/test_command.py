"""`crawler robots URL`: what it prints, and what it asks the site."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import command
from tests.servers import Peer, Script, Server, replies, reply, serve

RULES = b"User-agent: *\nDisallow: /private\nAllow: /private/open\nCrawl-delay: 7\nSitemap: /s.xml\n"


async def explained(server: Server, path: str, *options: str) -> dict[str, Any]:
    arguments = ("robots", server.url(path), "--allow-private", "--json", *options)
    result = await asyncio.to_thread(command.run, *arguments)
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = msgspec.json.decode(result.stdout)
    return answer


async def test_the_answer_cites_lines(tmp_path: Path) -> None:
    async with serve(replies(RULES)) as server:
        result = await asyncio.to_thread(
            command.run, "robots", server.url("/private/x"), "--allow-private", cwd=tmp_path
        )
        assert server.targets == ["/robots.txt"]
        assert b"\r\nUser-Agent: crawler/" in server.requests[0]
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        f"disallowed: {server.url('/private/x')} for crawler: the longest rule that matches forbids it",
        f"  robots.txt    {server.url('/robots.txt')} (HTTP 200 OK)",
        "  group         line 1: User-agent: *",
        "  rule          line 2: Disallow: /private",
        "  crawl delay   7 s, line 4: Crawl-delay: 7",
        "  sitemap       /s.xml (line 5)",
    ]
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []


async def test_the_same_for_scripts() -> None:
    async with serve(replies(RULES)) as server:
        answer = await explained(server, "/private/open/x", "--user-agent", "ExampleBot/2.0")
        assert b"\r\nUser-Agent: ExampleBot/2.0\r\n" in server.requests[0]
    assert answer == {
        "url": server.url("/private/open/x"),
        "product_token": "ExampleBot",
        "allowed": True,
        "reason": "the longest rule that matches allows it",
        "source": server.url("/robots.txt"),
        "taken": "HTTP 200 OK",
        "status": 200,
        "redirects": [],
        "group": [{"line": 1, "text": "User-agent: *"}],
        "rule": {"line": 3, "text": "Allow: /private/open"},
        "crawl_delay": 7.0,
        "crawl_delay_line": {"line": 4, "text": "Crawl-delay: 7"},
        "sitemaps": [{"line": 5, "text": "/s.xml"}],
    }


@pytest.mark.parametrize(
    ("status", "allowed", "says"),
    [
        ("404 Not Found", True, "HTTP 404 Not Found: no rules"),
        ("403 Forbidden", True, "HTTP 403 Forbidden: no rules"),
        ("503 Busy", False, "unreachable: HTTP 503 Busy"),
        ("429 Slow Down", False, "unreachable: HTTP 429 Slow Down"),
    ],
)
async def test_how_a_status_is_taken(status: str, allowed: bool, says: str) -> None:
    async with serve(replies(RULES, status=status)) as server:
        answer = await explained(server, "/private")
    assert answer["allowed"] is allowed
    assert says in (answer["taken"], answer["reason"])


async def test_redirects_are_followed_and_shown() -> None:
    async def script(peer: Peer) -> None:
        while head := await peer.request():
            moved = head.startswith(b"GET /robots.txt ")
            await peer.send(reply(b"", "Location: files/r", status="301 Moved") if moved else reply(RULES))

    async with serve(script) as server:
        answer = await explained(server, "/private")
        assert (answer["allowed"], answer["redirects"]) == (False, [server.url("/files/r")])


async def test_a_loop_of_redirects_means_no_rules() -> None:
    async with serve(replies(b"", "Location: /robots.txt", status="302 Found")) as server:
        answer = await explained(server, "/private")
        assert (answer["allowed"], len(answer["redirects"])) == (True, 5)
        assert "more than 5 redirects" in answer["taken"]


TWO_LENGTHS = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("broken", [b"", b"nonsense\r\n\r\n", TWO_LENGTHS])
async def test_a_host_that_cannot_be_asked_is_disallowed(broken: bytes) -> None:
    async with serve(broken) as server:
        answer = await explained(server, "/")
    assert answer["allowed"] is False
    assert answer["reason"].startswith("unreachable: ")


async def test_private_addresses_are_refused_as_in_a_crawl() -> None:
    script: Script = replies(RULES)
    async with serve(script) as server:
        result = await asyncio.to_thread(command.run, "robots", server.url("/"))
        assert server.connections == 0
    assert result.returncode == 0
    assert result.stdout.startswith("disallowed: unreachable: 127.0.0.1 is not crawled")


def test_a_local_file_is_explained_without_a_request(tmp_path: Path) -> None:
    (tmp_path / "robots.txt").write_bytes(b"\xef\xbb\xbfuser-agent: ExampleBot\r\ndisallow: /caf\xe9 # \xe9\r\n")
    result = command.run(
        *("robots", "https://unknown.invalid/caf%E9", "--file", str(tmp_path / "robots.txt")),
        *("--user-agent", "ExampleBot"),
    )
    assert result.returncode == 0
    assert result.stdout.startswith("disallowed: https://unknown.invalid/caf%E9 for ExampleBot")
    assert "line 2: disallow: /caf\ufffd" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), "URL"),
        (("example.com",), "https://example.com/"),
        (("ftp://example.com/",), "https://example.com/"),
        (("https://example.com/", "--file", "gone.txt"), "gone.txt"),
        (("https://example.com/", "--user-agent", "/1.0"), "--user-agent"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(arguments: tuple[str, ...], names: str, tmp_path: Path) -> None:
    result = command.run("robots", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert names in line
    assert result.stdout == ""
