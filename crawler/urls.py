"""URLs: what goes on the wire, and the names of hosts in it.

Pure functions. Two forms of a URL are kept apart: the wire URL, made here, is the spelling that was found, serialised
by a WHATWG parser (URL Standard 4.4, 4.5) and nothing more; the key (`url_key.py`) is the canonical form that is only
ever compared, never requested.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import ada_url
from publicsuffixlist import PublicSuffixList

from crawler.charset import Encoding, lookup
from crawler.config import PaceBy, Scope

MAX_URL = 8000
"""Longest URL that is requested, in bytes (RFC 9110 4.1). Longer ones are refused whole, never cut."""

MAX_HREF = 64 * 1024
"""Longest URL that is passed on, so that it may be recorded as too long; a longer one counts as no URL."""

# What needs no work: characters that the parser leaves alone, escapes in upper case of what must stay escaped. A name
# whose last label starts with a letter is no IPv4 address in disguise; punycode is left to the parser.
_NAME = r"(?!xn--)(?:[a-z0-9_-]+\.(?!xn--))*[a-z][a-z0-9-]*"
_BYTE = r"(?:1[0-9]{2}|[1-9]?[0-9])"
_PORT = r"(?!80/|443/)(?:[1-9][0-9]{1,3}|[1-5][0-9]{4})"
_ESCAPED = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
PLAIN = re.compile(
    rf"https?://(?:{_NAME}|{_BYTE}(?:\.{_BYTE}){{3}})(?::{_PORT})?"
    rf"(?:/(?!\.)(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|{_ESCAPED})*)+"
    rf"(?:\?(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?]|{_ESCAPED})*)?"
)


def resolve(href: str, base: str) -> str | None:
    """Make the wire URL of a link found in a document at `base`: absolute, ASCII, without fragment and user info.

    None when it is not http(s), cannot be parsed, or names a host that can never be looked up. Never raises.
    """
    url = serialise(href, base)
    return url if url is not None and can_be_looked_up(host_of(url)) else None


def serialise(href: str, base: str) -> str | None:
    """Parse and serialise (URL Standard 4.4, 4.5); None for a failure or another scheme."""
    try:
        url = ada_url.join_url(base, href)
    except ValueError:
        # The parser takes scalar values only: a lone surrogate becomes U+FFFD (Infra Standard, "scalar value string").
        scalar = href.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return serialise(scalar, base) if scalar != href else None
    if not url.startswith(("http://", "https://")):
        return None
    if "#" in url:
        url = url[: url.index("#")]
    if "@" in url:
        start = url.index("//") + 2
        at = url.rfind("@", start, url.index("/", start))
        url = url[:start] + url[at + 1 :] if at >= 0 else url
    return url


@lru_cache(maxsize=8192)
def can_be_looked_up(host: str) -> bool:
    """Whether DNS has room for the name (RFC 1035 2.3.4); a trailing dot is allowed."""
    if host.startswith("["):
        return True
    labels = host.removesuffix(".").split(".")
    return len(host.removesuffix(".")) <= 253 and all(0 < len(label) <= 63 for label in labels)


def encode_query(href: str, encoding: str) -> str:
    """Percent-encode what is not ASCII in an href's query in the document's encoding (URL Standard 4.4, query state).

    What the encoding lacks becomes a character reference, as in a form. UTF-8 is left to the parser.
    """
    before, mark, query = href.partition("?")
    if not mark or "#" in before:
        return href
    query, hash_mark, fragment = query.partition("#")
    found = lookup(encoding)
    if found is None or found.name in ("utf-8", "utf-16le", "utf-16be", "replacement"):
        return href
    query = re.sub(r"[^\x00-\x7f]+", lambda run: _percent_encode(run[0], found), query)
    return before + mark + query + hash_mark + fragment


def _percent_encode(text: str, encoding: Encoding) -> str:
    try:
        encoded = encoding.codec.encode(text, "strict")[0]
    except UnicodeError:
        if len(text) > 1:
            return "".join(_percent_encode(character, encoding) for character in text)
        return f"%26%23{ord(text)}%3B"
    # Second bytes of old multi-byte encodings can be ASCII; those that the query may contain stay as they are.
    return "".join(chr(b) if 0x21 <= b <= 0x7E and b not in b"\"#<>'" else f"%{b:02X}" for b in encoded)


def too_long(url: str) -> bool:
    """Whether a wire URL is longer than MAX_URL."""
    return len(url) > MAX_URL


def authority(url: str) -> tuple[int, int]:
    """Where `host[:port]` lies in a wire URL."""
    start = url.find("//") + 2
    end = url.find("/", start)
    return start, end if end >= 0 else len(url)


def host_of(url: str) -> str:
    """Host of a wire URL as it stands there."""
    start, end = authority(url)
    colon = url.rfind(":", start, end)
    return url[start : colon if colon > url.rfind("]", start, end) else end] if colon >= 0 else url[start:end]


def hostname(url: str) -> str:
    """Host of a wire URL as gates, scopes and rows name it: no port, no trailing dot, IPv6 without brackets."""
    return host_of(url).lower().removesuffix(".").strip("[]")


def origin(url: str) -> str:
    """`scheme://host[:port]` of a wire URL, without the host's trailing dot: where its robots.txt lies."""
    _, end = authority(url)
    return url[:end].lower().replace(".:", ":").removesuffix(".")


def gate_name(hostname: str, pace_by: PaceBy) -> str:
    """Name of the gate that paces a host: its registrable domain, or itself."""
    return registrable_domain(hostname) if pace_by == "domain" else hostname


def site_name(hostname: str, scope: Scope) -> str:
    """Name of the site a host belongs to, the unit of scope: "" when everything is in scope."""
    if scope == "host":
        return hostname.removeprefix("www.")
    return registrable_domain(hostname) if scope == "domain" else ""


@lru_cache(maxsize=8192)
def registrable_domain(hostname: str) -> str:
    """Public suffix and one label more; an IP address, a single label or a bare public suffix is its own."""
    if ":" in hostname or hostname.rpartition(".")[2].isdigit():
        return hostname
    return _public_suffixes().privatesuffix(hostname) or hostname


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()
