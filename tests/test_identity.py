"""Who a crawl says it is, as servers see it, and the line that asks for a contact."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawler import __version__
from crawler.config import CrawlSettings, crawl_settings
from crawler.errors import UsageError
from crawler.fetch import Fetcher
from tests import command
from tests.servers import replies, serve

PROJECT = "https://github.com/crawler-project/crawler"
ASKS = "--contact"


def fields(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    return dict(line.split(": ", 1) for line in lines)


@pytest.mark.parametrize(
    ("given", "user_agent", "sender"),
    [
        ({}, f"crawler/{__version__} (+{PROJECT})", None),
        ({"contact": "ops@example.com"}, f"crawler/{__version__} (+ops@example.com)", "ops@example.com"),
        (
            {"contact": "o'brien+crawl@mail.example.com"},
            f"crawler/{__version__} (+o'brien+crawl@mail.example.com)",
            "o'brien+crawl@mail.example.com",
        ),
        ({"contact": "https://example.com/bot"}, f"crawler/{__version__} (+https://example.com/bot)", None),
        ({"contact": "http://example.com/bot@home"}, f"crawler/{__version__} (+http://example.com/bot@home)", None),
        ({"user_agent": "ExampleBot/2.0"}, "ExampleBot/2.0", None),
        ({"user_agent": "ExampleBot/2.0", "contact": "ops@example.com"}, "ExampleBot/2.0", "ops@example.com"),
    ],
)
async def test_a_server_sees_product_version_and_contact(
    given: dict[str, str], user_agent: str, sender: str | None
) -> None:
    settings = crawl_settings(given)
    async with Fetcher(settings.user_agent, settings.contact, allow_private=True) as fetcher:
        async with serve(replies(b"ok")) as server:
            await fetcher.get(server.url("/"))
    sent = fields(server.requests[0])
    assert (sent["User-Agent"], sent.get("From")) == (user_agent, sender)


def test_a_contact_that_comes_later_stands_in_the_user_agent_too() -> None:
    first = crawl_settings({"contact": "old@example.com"})
    later = crawl_settings({"contact": "new@example.com"}, first)
    assert later.user_agent == f"crawler/{__version__} (+new@example.com)"
    assert crawl_settings({"rate": 2.0}, later).user_agent == later.user_agent


def test_a_user_agent_that_was_given_stays() -> None:
    first = crawl_settings({"user_agent": "ExampleBot/2.0"})
    assert crawl_settings({"contact": "new@example.com"}, first).user_agent == "ExampleBot/2.0"


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("ExampleBot/2.0", "ExampleBot"),
        ("ExampleBot/2.0 (+https://example.com/bot)", "ExampleBot"),
        ("ExampleBot", "ExampleBot"),
        ("ExampleBot (+https://example.com/bot)", "ExampleBot"),
        ("ExampleBot(+https://example.com/bot)", "ExampleBot"),
        ("Mozilla/5.0 (compatible; ExampleBot/2.0)", "Mozilla"),
        ("My Crawler/1.0", "My Crawler"),
        ("example_bot-x/1/2", "example_bot-x"),
    ],
)
def test_the_product_token_is_the_user_agent_up_to_the_first_slash_or_comment(user_agent: str, token: str) -> None:
    assert crawl_settings({"user_agent": user_agent}).product_token == token
    assert CrawlSettings().product_token == "crawler"


@pytest.mark.parametrize(
    "user_agent",
    [
        "",
        " ",
        "/1.0",
        "(+https://example.com)",
        "a\nb",
        "a\r\nX: y",
        "a\tb",
        "Bot\0",
        "Böt/1.0",
        "🤖",
        " Bot/1.0",
        "Bot ",
    ],
)
def test_a_user_agent_that_names_no_product_is_refused(user_agent: str) -> None:
    with pytest.raises(UsageError, match="--user-agent"):
        crawl_settings({"user_agent": user_agent})


@pytest.mark.parametrize(
    "contact",
    [
        *("me", "call me", "me@", "@example.com", "me@exa mple.com", "a@b@c", "mailto:me@example.com", "a@b\r\nX: y"),
        *("ftp://example.com", "https://", "https://example.com/a)b", "https://example.com/ü"),
        "https://example.com/" + "x" * 300,
    ],
)
def test_a_contact_is_a_mail_address_or_a_url(contact: str) -> None:
    with pytest.raises(UsageError, match="--contact"):
        crawl_settings({"contact": contact})


def test_headers_are_refused_in_one_line_before_anything_is_made(tmp_path: Path) -> None:
    for option, value in (("--user-agent", "a\nb"), ("--contact", "nobody")):
        result = command.run("crawl", "https://example.com/", option, value, cwd=tmp_path)
        assert result.returncode == 2
        (line,) = result.stderr.splitlines()
        assert option in line
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("seeds", "options", "asks"),
    [
        (["https://example.com/"], [], True),
        (["https://example.com/"], ["--json"], True),
        (["https://example.com/"], ["--quiet"], False),
        (["https://example.com/"], ["--contact", "me@example.com"], False),
        (["https://example.com/"], ["--contact", "https://example.com/bot"], False),
        (["https://example.com/"], ["--user-agent", "ExampleBot/1.0"], True),
        (["http://127.0.0.1:8000/", "http://127.9.9.9/"], [], False),
        (["http://localhost:8000/", "http://a.localhost/"], [], False),
        (["http://[::1]/", "http://10.1.2.3/", "http://192.168.0.9/", "http://[fd00::1]/"], [], False),
        (["http://127.0.0.1:8000/", "https://example.com/"], [], True),
        (["http://93.184.216.34/"], [], True),
        (["http://localhost.example.com/"], [], True),
    ],
)
def test_a_crawl_of_others_sites_is_asked_for_a_contact(
    seeds: list[str], options: list[str], asks: bool, tmp_path: Path
) -> None:
    result = command.run("seed", "--state", str(tmp_path / "s.sqlite"), *seeds, *options)
    assert result.returncode == 0, result.stderr
    said = [line for line in result.stderr.splitlines() if ASKS in line]
    assert len(said) == asks


def test_a_contact_given_once_is_not_asked_for_again(tmp_path: Path) -> None:
    state = str(tmp_path / "s.sqlite")
    command.run("seed", "--state", state, "https://example.com/", "--contact", "me@example.com")
    assert ASKS not in command.run("seed", "--state", state, "https://example.org/").stderr


async def test_every_request_of_a_crawl_says_who_asks(tmp_path: Path) -> None:
    async with serve(replies(b"<a href=/2>2</a>", "Content-Type: text/html")) as server:
        options = ("--allow-private", "--rate", "0", "--processes", "1", "--contact", "me@example.com")
        result = await asyncio.to_thread(
            command.run, "crawl", server.url("/1"), "--out", str(tmp_path / "out"), *options
        )
        assert result.returncode == 0, result.stderr
    assert {"/robots.txt", "/1", "/2"} <= set(server.targets)
    for head in server.requests:
        sent = fields(head)
        assert sent["User-Agent"] == f"crawler/{__version__} (+me@example.com)"
        assert sent["From"] == "me@example.com"
