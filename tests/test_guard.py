"""Addresses that a crawl must not reach."""

from __future__ import annotations

import asyncio
import socket

import pytest

from crawler import lookup
from crawler.errors import FailureKind, FetchFailure
from crawler.guard import check_address
from crawler.lookup import GuardedResolver

PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1"]
PUBLIC_INSIDE = ["64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:8.8.8.8", "2001:0:808:808::f7f7:f7f7"]
ONLY_WITH_PRIVATE = [
    ("127.0.0.1", "loopback"),
    ("127.255.1.2", "loopback"),
    ("::1", "loopback"),
    ("10.1.2.3", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("fd12:3456::1", "private"),
    ("fec0::1", "private"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::7f00:1", "loopback"),
    ("::127.0.0.1", "loopback"),
    ("2002:7f00:1::", "loopback"),
    ("2002:a00:1::1", "private"),
    ("64:ff9b::10.0.0.1", "private"),
    ("64:ff9b::7f00:1", "loopback"),
    ("2001:0:808:808::80ff:fffe", "loopback"),
    ("2001:0:a00:1::f7f7:f7f7", "private"),
]
NEVER = [
    ("169.254.169.254", "link-local"),
    ("169.254.170.2", "link-local"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("febf::1", "link-local"),
    ("fd00:ec2::254", "metadata"),
    ("fd00:ec2::23", "metadata"),
    ("fd20:ce::254", "metadata"),
    ("64:ff9b:1::a00:1", "reserved"),
    ("64:ff9b:1::a9fe:a9fe", "reserved"),
    ("::a9fe:a9fe", "link-local"),
    ("::ffff:0:7f00:1", "reserved"),
    ("2001:0:a9fe:a9fe::f7f7:f7f7", "link-local"),
    ("2001:0:808:808::5601:5601", "link-local"),
    ("100.100.100.200", "metadata"),
    ("168.63.129.16", "metadata"),
    ("::ffff:169.254.169.254", "link-local"),
    ("64:ff9b::a9fe:a9fe", "link-local"),
    ("2002:a9fe:a9fe::1", "link-local"),
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("::", "unspecified"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("ff02::1", "multicast"),
    ("192.0.2.1", "reserved"),
    ("198.18.0.1", "reserved"),
    ("203.0.113.9", "reserved"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("2001:db8::1", "reserved"),
    ("100::1", "reserved"),
    ("5f00::1", "reserved"),
    ("not an address", "not an address"),
    ("0x7f.1", "not an address"),
]


@pytest.mark.parametrize("ip", PUBLIC + PUBLIC_INSIDE)
def test_public_addresses_are_allowed(ip: str) -> None:
    assert check_address(ip, False) is None
    assert check_address(ip, True) is None


@pytest.mark.case("C17")
@pytest.mark.parametrize(("ip", "reason"), ONLY_WITH_PRIVATE)
def test_loopback_and_private_addresses_need_permission(ip: str, reason: str) -> None:
    assert check_address(ip, False) == reason
    assert check_address(ip, True) is None


@pytest.mark.case("C17")
@pytest.mark.parametrize(("ip", "reason"), NEVER)
def test_link_local_metadata_and_reserved_addresses_are_refused_always(ip: str, reason: str) -> None:
    assert check_address(ip, False) == reason
    assert check_address(ip, True) == reason


def answering(monkeypatch: pytest.MonkeyPatch, *ips: str) -> list[str]:
    """Make the system's resolver answer with `ips`; answers the list of names it is asked for."""
    asked: list[str] = []

    def getaddrinfo(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(socket.AF_INET6 if ":" in ip else socket.AF_INET, 1, 6, "", (ip, 0)) for ip in ips]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


async def resolved(
    host: str, allow_private: bool = False, family: socket.AddressFamily = socket.AF_UNSPEC
) -> list[str]:
    resolver = GuardedResolver(allow_private)
    try:
        return [found["host"] for found in await resolver.resolve(host, 80, family)]
    finally:
        await resolver.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost."])
async def test_localhost_is_loopback_and_no_name_server_is_asked(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answering(monkeypatch, "8.8.8.8")
    assert await resolved(host, allow_private=True) == ["127.0.0.1", "::1"]
    assert await resolved(host, allow_private=True, family=socket.AF_INET) == ["127.0.0.1"]
    with pytest.raises(FetchFailure) as refused:
        await resolved(host)
    assert refused.value.kind == FailureKind.PRIVATE
    assert asked == []


async def test_a_name_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "10.0.0.1", "::1")
    with pytest.raises(FetchFailure, match=r"rebind\.example .* address is private") as refused:
        await resolved("rebind.example")
    assert refused.value.kind == FailureKind.PRIVATE


async def test_refused_addresses_are_dropped_from_an_answer_that_has_others(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "10.0.0.1", "8.8.8.8", "169.254.169.254", "2606:4700::1")
    assert await resolved("mixed.example") == ["8.8.8.8", "2606:4700::1"]
    assert await resolved("mixed.example", allow_private=True) == ["10.0.0.1", "8.8.8.8", "2606:4700::1"]


async def test_a_name_without_address_is_an_oserror() -> None:
    with pytest.raises(OSError, match=r"\S"):
        await resolved("no-such-name.invalid")


async def test_a_lookup_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def getaddrinfo(*_: object, **__: object) -> list[object]:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(lookup, "LOOKUP_TIMEOUT", 0.05)
    with pytest.raises(socket.gaierror, match="no answer within"):
        await resolved("slow.example")
    release.set()
