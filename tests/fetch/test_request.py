"""What goes on the wire."""

from __future__ import annotations

import pytest

from crawler.errors import FetchFailure
from crawler.fetch import Fetcher
from tests.servers import replies, serve


@pytest.mark.case("A08")
@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a%28b%29/c%2Fd?q=%2F",
        "/?",
        "/p?",
        "/p??",
        "/p?a?",
        "//p?",
        "/p?a=1&a=2&&=&b",
        "/it's/(x)/!$&'()*+,;=:@",
        "/%7Euser/~user",
        "/a//b///c",
        "/a%2e%2e/b",
        "/%zz%/p%",
        "/q?u=http://x.example/?y=1&p=%2f%2F+%20'",
        '/{}|^`"<>[]\\',
    ],
)
async def test_the_target_goes_on_the_wire_byte_for_byte(fetcher: Fetcher, target: str) -> None:
    async with serve(replies(b"ok")) as server:
        response = await fetcher.get(server.url(target))
    assert server.targets == [target]
    assert response.url == server.url(target)


async def test_a_url_without_a_path_asks_for_the_root(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        await fetcher.get(server.url(""))
        await fetcher.get(server.url("?x"))
        await fetcher.get(server.url("?"))
    assert server.targets == ["/", "/?x", "/?"]


@pytest.mark.case("C03")
async def test_the_request_says_who_asks_and_what_is_understood(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        await fetcher.get(server.url("/"), headers=[("If-None-Match", '"v1"'), ("Cookie", "a=1")])
    lines = server.requests[0].decode().split("\r\n")
    assert lines[0] == "GET / HTTP/1.1"
    assert set(lines[1:-2]) == {
        f"Host: {server.address.removeprefix('http://')}",
        "User-Agent: tester/1.0",
        "From: me@example.com",
        "Accept: */*",
        "Accept-Encoding: gzip, deflate, br, zstd",
        'If-None-Match: "v1"',
        "Cookie: a=1",
    }


@pytest.mark.case("C14")
async def test_cookies_are_not_kept_and_no_contact_is_made_up() -> None:
    odd = [
        "Set-Cookie: a=1; Path=/",
        "Set-Cookie: a{b}=1",
        "Set-Cookie: \xe9=1",
        f"Set-Cookie: b=1; Max-Age={'9' * 400}",
    ]
    async with Fetcher("tester/1.0", allow_private=True) as fetcher, serve(replies(b"ok", *odd)) as server:
        response = await fetcher.get(server.url("/"))
        await fetcher.get(server.url("/"))
    assert len(response.header_all(b"set-cookie")) == 4
    assert b"cookie" not in server.requests[1].lower()
    assert b"\r\nFrom:" not in server.requests[1]


async def test_a_header_field_that_would_become_several_is_not_sent(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        for value in ("a=1\r\nX-Forged: 1", "a=1\nX-Forged: 1", "a=1\0"):
            with pytest.raises(FetchFailure):
                await fetcher.get(server.url("/"), headers=[("Cookie", value)])
    assert server.requests == []


async def test_a_fragment_does_not_go_on_the_wire(fetcher: Fetcher) -> None:
    async with serve(replies(b"ok")) as server:
        await fetcher.get(server.url("/p#part"))
    assert server.targets == ["/p"]
