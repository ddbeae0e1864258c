"""Addresses and URLs that are refused."""

from __future__ import annotations

import socket

import pytest

from crawler.errors import FailureKind
from crawler.fetch import Fetcher
from crawler.urls import resolve
from tests.fetch.getting import failure
from tests.servers import replies, serve


@pytest.mark.case("C17")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::7f00:1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[::]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "[::1]",
        "0.0.0.0",
        "0x7f.1",
        "0x7f000001",
    ],
)
async def test_the_own_network_is_refused_before_a_connection_is_made(host: str) -> None:
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret"), host="127.0.0.1") as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", host))
    assert failed.kind == FailureKind.PRIVATE
    assert "not crawled" in str(failed)
    assert server.connections == 0


@pytest.mark.parametrize("host", ["2130706433", "127.1", "017700000001"])
async def test_numbers_that_are_no_canonical_address_are_refused(host: str) -> None:
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret")) as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", host))
    assert failed.kind == FailureKind.URL
    assert server.connections == 0


@pytest.mark.case("C17")
@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:a9fe:a9fe]"])
async def test_metadata_addresses_are_refused_with_permission_too(fetcher: Fetcher, host: str) -> None:
    assert (await failure(fetcher, f"http://{host}/latest/meta-data/")).kind == FailureKind.PRIVATE


@pytest.mark.case("C17")
async def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))])
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret")) as server:
        failed = await failure(fetcher, server.url().replace("127.0.0.1", "rebind.example"))
    assert failed.kind == FailureKind.PRIVATE
    assert server.connections == 0


@pytest.mark.case("A06")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "/relative",
        "ftp://host.example/",
        "http://",
        "http:///path",
        "http://host.example:99999/",
        "http://[::1/",
        "http://host.example/a b",
        "http://host.example/\r\nX-Evil: 1",
        "http://hóst.example/",
        "http://host.example\r\nX-Evil: 1/",
        "http://host .example/",
        "http://" + "a" * 70 + ".example/",
        "http://a..b.example/",
        "http://xn--/",
    ],
)
async def test_a_url_that_cannot_be_requested_is_a_failure_of_its_own(fetcher: Fetcher, url: str) -> None:
    assert (await failure(fetcher, url)).kind in (FailureKind.URL, FailureKind.DNS)


@pytest.mark.parametrize(
    "spelling",
    [
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.1",
        "127.0.1",
        "0x7F000001",
        "017700000001",
        "１２７.0.0.1",
        "127.0.0.1.",
    ],
)
async def test_a_link_to_an_odd_spelling_of_loopback_is_refused(spelling: str) -> None:
    """As links are resolved before they are requested."""
    async with Fetcher("tester/1.0") as fetcher, serve(replies(b"secret"), host="127.0.0.1") as server:
        url = resolve(server.url().replace("127.0.0.1", spelling), "http://host.example/")
        assert url is not None
        failed = await failure(fetcher, url)
        assert server.connections == 0
    assert failed.kind == FailureKind.PRIVATE
