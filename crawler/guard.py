"""Which addresses a crawl may connect to (RFC 6890), checked where names become addresses.

A page, a redirect, a robots.txt line or a DNS answer must not lead into the network that the crawler runs in: the reply
would end up in an archive. What was checked is what is connected to: the resolver (`lookup.py`) hands out checked
addresses only, and the fetcher checks once more where it makes a socket, whatever way the address came.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from crawler.errors import FailureKind, FetchFailure

# IANA special-purpose registries; the first network that contains an address names it.
_V4 = [
    (IPv4Network(network), reason)
    for network, reason in (
        ("169.254.0.0/16", "link-local"),
        ("100.100.100.200/32", "metadata"),  # Alibaba
        ("168.63.129.16/32", "metadata"),  # Azure
        ("192.0.0.192/32", "metadata"),  # Oracle
        ("127.0.0.0/8", "loopback"),
        ("10.0.0.0/8", "private"),
        ("172.16.0.0/12", "private"),
        ("192.168.0.0/16", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("0.0.0.0/8", "unspecified"),
        ("224.0.0.0/4", "multicast"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6 = [
    (IPv6Network(network), reason)
    for network, reason in (
        ("fe80::/10", "link-local"),
        ("fd00:ec2::/32", "metadata"),  # AWS: instance metadata, credentials of containers
        ("fd20:ce::254/128", "metadata"),  # Google
        ("::1/128", "loopback"),
        ("::/128", "unspecified"),
        ("fc00::/7", "private"),
        ("fec0::/10", "private"),
        ("64:ff9b:1::/48", "reserved"),  # translates to addresses that cannot be told (RFC 8215)
        ("ff00::/8", "multicast"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("3fff::/20", "reserved"),
    )
]
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_V4_COMPATIBLE = IPv6Network("::/96")

_WITH_PRIVATE = frozenset({"loopback", "private", "carrier-grade NAT"})
"""What `allow_private` permits. Link-local and metadata addresses are never a crawl's business."""


@lru_cache(maxsize=4096)
def check_address(ip: str, allow_private: bool) -> str | None:
    """Why an address must not be connected to, in a word or two; None when it may be."""
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        return "not an address"
    if isinstance(address, IPv4Address):
        reasons = [_named(address, _V4)]
    elif embedded := _embedded(address):
        # The packet ends at the IPv4 address inside, so that is the one that counts.
        reasons = [_named(inner, _V4) for inner in embedded]
    else:
        reasons = [_named(address, _V6) or (None if address in _GLOBAL_V6 else "reserved")]
    for reason in reasons:
        if reason is not None and not (allow_private and reason in _WITH_PRIVATE):
            return reason
    return None


def _named(
    address: IPv4Address | IPv6Address, table: list[tuple[IPv4Network, str]] | list[tuple[IPv6Network, str]]
) -> str | None:
    return next((reason for network, reason in table if address in network), None)


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses inside: mapped and compatible (RFC 4291), 6to4 (RFC 3056), Teredo (RFC 4380), NAT64 (RFC 6052)."""
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address.sixtofour:
        return [address.sixtofour]
    if address.teredo:
        return list(address.teredo)
    if address in _NAT64 or (address in _V4_COMPATIBLE and int(address) > 0xFFFF):
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return []


class Refused(OSError):
    """The address must not be connected to; its text says why in a word or two."""


def refusal(host: str, reason: str) -> FetchFailure:
    """The failure for a host none of whose addresses may be connected to."""
    return FetchFailure(FailureKind.PRIVATE, f"{host} is not crawled: its address is {reason}")
