"""URLs: what goes on the wire, what identifies a page, and which host paces it.

Pure functions. Two forms of a URL are kept apart: the wire URL is the spelling that was found, serialised by a WHATWG
parser (URL Standard 4.4, 4.5) and nothing more; the key is the canonical form (RFC 3986 6.2) that is only ever
compared, never requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from hashlib import sha256

import ada_url
from publicsuffixlist import PublicSuffixList

from crawler.charset import Encoding, lookup
from crawler.config import PaceBy, Scope
from crawler.fetched import Link

MAX_URL = 8000
"""Longest URL that is requested, in bytes (RFC 9110 4.1). Longer ones are refused whole, never cut."""

MEMO_URL = 1024
"""Longest URL that is remembered by a Resolver, in bytes: bounds its memory."""

# Query parameters that name a click, a campaign or a visit and never the page.
_TRACKING = re.compile(
    r"""(?: utm_[^=]*                                                                       # Google Analytics
          | _ga | _gl | gclid | gclsrc | dclid | gbraid | wbraid | gad_source | gad_campaignid | srsltid  # Google
          | fbclid | igshid | igsh | mibextid                                               # Meta
          | msclkid | yclid | ysclid | ymclid | _openstat                                   # Microsoft, Yandex
          | twclid | ttclid | li_fat_id | epik | sccid | rdt_cid | ndclid                   # social networks
          | mc_cid | mc_eid | mkt_tok | vero_id | vero_conv | oly_anon_id | oly_enc_id | _kx | _hsenc | _hsmi
          | __hssc | __hstc | __hsfp | hsctatracking                                        # mail and marketing
          | rb_clickid | wickedid | irclickid                                               # affiliates
          | (?: pk | piwik | mtm )_(?: campaign | kwd | keyword | source | medium | content | cid | group | placement )
        )(?: = | \Z )
      | (?: jsessionid | phpsessid | aspsessionid[^=]* | zenid | oscsid )=                   # sessions, by their name
      | (?: sid | session_?id )=(?= [a-z]* [0-9] )[0-9a-z]{24,}\Z                            # and by their value""",
    re.VERBOSE | re.IGNORECASE,
)

# A session of two parameters (ColdFusion), which mean something else when alone.
_PAIR = frozenset({"cfid", "cftoken"})

# A session as a parameter of the last or any path segment (servlets). What is left must not be a dot segment.
_PATH_SESSION = re.compile(r"(?<!/\.)(?<!/\.\.);jsessionid=[0-9a-z.!~:_+*-]*(?=[;/]|\Z)", re.IGNORECASE | re.ASCII)

# What needs no work: characters that the parser leaves alone, escapes in upper case of what must stay escaped. A name
# whose last label starts with a letter is no IPv4 address in disguise; punycode is left to the parser.
_NAME = r"(?!xn--)(?:[a-z0-9_-]+\.(?!xn--))*[a-z][a-z0-9-]*"
_BYTE = r"(?:1[0-9]{2}|[1-9]?[0-9])"
_PORT = r"(?!80/|443/)(?:[1-9][0-9]{1,3}|[1-5][0-9]{4})"
_ESCAPED = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[BCDF])"
_PLAIN = re.compile(
    rf"https?://(?:{_NAME}|{_BYTE}(?:\.{_BYTE}){{3}})(?::{_PORT})?"
    rf"(?:/(?!\.)(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|{_ESCAPED})*)+"
    rf"(?:\?(?:[A-Za-z0-9\-._~!$&()*+,;=:@/?]|{_ESCAPED})*)?"
)

# The first group is a bare `%`, alone or with one digit: an escape right behind it must not turn into its digit, or
# the key would contain an escape that the URL does not.
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]?)?%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def resolve(href: str, base: str) -> str | None:
    """Make the wire URL of a link found in a document at `base`: absolute, ASCII, without fragment and user info.

    None when it is not http(s), cannot be parsed, or names a host that can never be looked up. Never raises.
    """
    url = _serialise(href, base)
    return url if url is not None and _can_be_looked_up(_host(url)) else None


def _serialise(href: str, base: str) -> str | None:
    """Parse and serialise (URL Standard 4.4, 4.5); None for a failure or another scheme."""
    try:
        url = ada_url.join_url(base, href)
    except ValueError:
        # The parser takes scalar values only: a lone surrogate becomes U+FFFD (Infra Standard, "scalar value string").
        scalar = href.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _serialise(scalar, base) if scalar != href else None
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
def _can_be_looked_up(host: str) -> bool:
    """Whether DNS has room for the name (RFC 1035 2.3.4); a trailing dot is allowed."""
    if host.startswith("["):
        return True
    labels = host.removesuffix(".").split(".")
    return len(host.removesuffix(".")) <= 253 and all(0 < len(label) <= 63 for label in labels)


class Resolver:
    """Turns the hrefs of many pages into links, and remembers at most `limit` of them by wire URL.

    A site repeats its links from page to page. Most hrefs become their wire URL by being put behind the origin or the
    folder; if that guess is a wire URL met before, it is right, for parsing a serialised URL gives it back unchanged
    (URL Standard 4.5). The memo is dropped whole when full.
    """

    def __init__(self, limit: int = 40_000) -> None:
        self._limit = limit
        self._links: dict[str, Link] = {}

    def at(self, base: str, encoding: str = "utf-8") -> Callable[[str], Link | None]:
        """Return the function from href to link (None: see `resolve`) for a document of that base URL and encoding."""
        root = base[: base.find("/", base.find("//") + 2)]
        folder = base[: base.partition("?")[0].rfind("/") + 1]
        known = self._links

        def link(href: str) -> Link | None:
            guess = _guess(href, root, folder)
            return known.get(guess) or self._make(href, guess, base, encoding)

        return link

    def _make(self, href: str, guess: str, base: str, encoding: str) -> Link | None:
        url: str | None = guess
        if _PLAIN.fullmatch(guess) is None or not _can_be_looked_up(_host(guess)):
            url = resolve(href if href.isascii() else encode_query(href, encoding), base)
            if url is None or url in self._links:
                return self._links.get(url or "")
        assert url is not None
        link = Link(url, digest(url))
        if len(url) <= MEMO_URL:
            if len(self._links) >= self._limit:
                self._links.clear()
            self._links[url] = link
        return link


def _guess(href: str, root: str, folder: str) -> str:
    """What the wire URL of an href would be if nothing in it had to be changed; "" where that needs a parser."""
    first = href[:1]
    if first == "/":
        url = root + href if href[1:2] != "/" else root[: root.index("/")] + href
    elif href.startswith(("http://", "https://")):
        url = href
    elif ":" in href or not (first.isalnum() or first == "."):
        return ""  # perhaps a scheme; or relative to the document itself
    else:
        while href.startswith("../") and len(folder) > len(root) + 1:
            folder, href = folder[: folder.rindex("/", 0, -1) + 1], href[3:]
        url = folder + href
    mark = url.find("#")
    return url if mark < 0 else url[:mark]


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


def key(url: str) -> str:
    """Make the canonical form: equal for two URLs only if they must name the same page. Idempotent, never raises.

    Scheme, host, port, dot segments as the parser serialises them; the host's trailing dot, user info and fragment
    dropped; escapes of unreserved characters decoded, the others in upper case (RFC 3986 6.2.2). Query pieces are kept
    as they are, sorted by name (equal names keep their order), without tracking parameters and session ids; so is a
    session id in the path. Case and slashes of the path, an empty query and a missing value are left alone. What is no
    http(s) URL is its own key.
    """
    if _PLAIN.fullmatch(url) is None:
        cleaned = _clean(url)
        if cleaned is None:
            return url
        url = cleaned
    if ";" in url:
        _, end = _authority(url)
        path, mark, query = url[end:].partition("?")
        url = url[:end] + _PATH_SESSION.sub("", path) + mark + query
    start = url.find("?") + 1
    if not start or start == len(url):
        return url
    pieces = url[start:].split("&")
    kept = [piece for piece in pieces if _TRACKING.match(piece) is None]
    if len(kept) > 1 and "cf" in url[start:].lower() and {_name(piece).lower() for piece in kept} >= _PAIR:
        kept = [piece for piece in kept if _name(piece).lower() not in _PAIR]
    if len(kept) < len(pieces) and not any(kept):
        return url[: start - 1]
    if len(kept) > 1:
        kept.sort(key=_name)
    return url[:start] + "&".join(kept)


def _clean(url: str) -> str | None:
    serialised = _serialise(url, url)
    if serialised is None:
        return None
    host = _host(serialised)
    if host.endswith(".") and not host.endswith("..") and host != ".":
        serialised = serialised.replace(host, host[:-1], 1)
    return _ESCAPE.sub(_unescape, serialised)


def _unescape(match: re.Match[str]) -> str:
    bare, digits = match.groups()
    character = chr(int(digits, 16))
    return character if not bare and character in _UNRESERVED else f"{bare or ''}%{digits.upper()}"


def _name(piece: str) -> str:
    return piece.partition("=")[0]


def digest(url: str) -> bytes:
    """Identify a page in 16 bytes: the first half of SHA-256 of its key in UTF-8."""
    return sha256(key(url).encode("utf-8", "surrogatepass")).digest()[:16]


def _authority(url: str) -> tuple[int, int]:
    """Where `host[:port]` lies in a wire URL."""
    start = url.find("//") + 2
    end = url.find("/", start)
    return start, end if end >= 0 else len(url)


def _host(url: str) -> str:
    start, end = _authority(url)
    colon = url.rfind(":", start, end)
    return url[start : colon if colon > url.rfind("]", start, end) else end] if colon >= 0 else url[start:end]


def hostname(url: str) -> str:
    """Host of a wire URL as gates, scopes and rows name it: no port, no trailing dot, IPv6 without brackets."""
    return _host(url).lower().removesuffix(".").strip("[]")


def origin(url: str) -> str:
    """`scheme://host[:port]` of a wire URL, without the host's trailing dot: where its robots.txt lies."""
    _, end = _authority(url)
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
