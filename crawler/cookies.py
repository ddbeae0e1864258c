"""The cookies of one redirect chain, or of one site's session, by the rules of RFC 6265.

Pure. Where browsers have moved on, the RFC's revision (draft-ietf-httpbis-rfc6265bis) is followed: the prefixes
`__Secure-` and `__Host-`, nothing secure from plain http, 400 days at most. The rules are few; the cookie jars of the
libraries at hand send back other values than they were given (quoted anew), or know no public suffixes.

A value is a secret: no text that is made here contains one. Cookies are bytes to their servers and text here; what is
no UTF-8 is left out, for it could not be sent back as it came.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from email.utils import mktime_tz, parsedate_tz
from typing import Literal

import msgspec

from crawler import urls
from crawler.fetched import Response

MOST_COOKIES, MOST_BYTES = 50, 16_000
"""Cookies in a jar, and their bytes when dumped; what was set longest ago makes room."""

PAIR_BYTES, ATTRIBUTE_BYTES = 4096, 1024
"""Longer pairs of name and value are refused, longer attributes ignored (rfc6265bis 5.6)."""

HEADER_BYTES = 8190
"""What many servers take as one header field. Of more cookies than fit, those for the longest paths are sent."""

LONGEST = 400 * 24 * 3600.0
"""Seconds for which a cookie can ask to be kept (rfc6265bis 5.6.1)."""

WORTH = 0.75
"""A cookie set again with nothing new but a later end counts as changed once less than this part of the life it asks
for is left: a server that renews its cookie with every page must not make every page a write."""

Key = tuple[str, str, str]


class Cookie(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One cookie. `domain` has no dot in front; `expires` is Unix seconds, None: it lives as long as the jar."""

    name: str
    value: str
    domain: str
    path: str = "/"
    host_only: bool = True
    secure: bool = False
    expires: float | None = None

    @property
    def key(self) -> Key:
        """Domain, path and name: a cookie with the same three replaces this one (RFC 6265 5.3)."""
        return self.domain, self.path, self.name

    @property
    def sendable(self) -> bool:
        """Whether it may stand in a Cookie field, where a control character or a `;` would begin something else."""
        pair = self.name + self.value
        size = len(pair.encode("utf-8", "replace"))
        return bool(self.name) and "=" not in self.name and size <= PAIR_BYTES and _UNFIT.search(pair) is None

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    def __repr__(self) -> str:
        return f"Cookie({self.name!r}, domain={self.domain!r}, path={self.path!r})"


_UNFIT = re.compile(r"[\x00-\x1f\x7f;\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_Dump = tuple[Literal[1], tuple[Cookie, ...]]


class Jar:
    """Cookies, and what answers have changed about them since the jar was made or loaded.

    `changes` has a cookie under the key of each that was set, None under that of each that was removed. `clock`
    answers Unix seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.changes: dict[Key, Cookie | None] = {}
        self._clock = clock
        self._cookies: dict[Key, Cookie] = {}

    def __len__(self) -> int:
        return len(self._cookies)

    def header(self, url: str) -> str | None:
        """The value of the Cookie field of a request for a wire URL (RFC 6265 5.4); None when there is none."""
        if not self._cookies:
            return None
        now, https, host, path = self._clock(), _is_https(url), urls.hostname(url), _path(url)
        fitting = [
            cookie
            for cookie in self._cookies.values()
            if (cookie.domain == host or (not cookie.host_only and host.endswith(f".{cookie.domain}")))
            and _path_matches(path, cookie.path)
            and (https or not cookie.secure)
            and not cookie.expired(now)
        ]
        fitting.sort(key=lambda cookie: len(cookie.path), reverse=True)
        pairs: list[str] = []
        room = HEADER_BYTES
        for cookie in fitting:
            pair = f"{cookie.name}={cookie.value}"
            size = len(pair.encode()) + len("; ")
            if size <= room:
                pairs.append(pair)
                room -= size
        return "; ".join(pairs) or None

    def read(self, url: str, response: Response) -> bool:
        """Take the Set-Cookie fields of the answer to a request for `url`; True when that changed something.

        Never raises: a field that makes no sense, or asks for what it may not have, is ignored.
        """
        fields = [value for name, value in response.headers if name.lower() == b"set-cookie"]
        now, https = self._clock(), _is_https(url)
        changed = False
        for field in fields[:MOST_COOKIES]:
            cookie = parse(field, url, now)
            if cookie is not None and self._take(cookie, https, now):
                changed = True
        if changed:
            self._make_room()
        return changed

    def apply(self, changes: Mapping[Key, Cookie | None]) -> None:
        """Make the changes that another jar has seen."""
        for key, cookie in changes.items():
            self._set(key, cookie)
        self._make_room()

    def dump(self) -> bytes:
        """All that `load` needs; b"" when there is no cookie. Little more than MOST_BYTES."""
        now = self._clock()
        alive = tuple(cookie for cookie in self._cookies.values() if not cookie.expired(now))
        return msgspec.msgpack.encode((1, alive)) if alive else b""

    @classmethod
    def load(cls, data: bytes, clock: Callable[[], float] = time.time) -> Jar:
        """The jar that was dumped; an empty one for what is no dump of this version."""
        jar = cls(clock)
        try:
            _, cookies = msgspec.msgpack.decode(data, type=_Dump)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return jar
        for cookie in cookies:
            if cookie.sendable:
                jar._set(cookie.key, cookie)
        jar._make_room()
        return jar

    def _take(self, cookie: Cookie, https: bool, now: float) -> bool:
        key = cookie.key
        old = self._cookies.get(key)
        if old is not None and old.expired(now):
            old = None
        if old is not None and old.secure and not https:
            return False  # plain http, which anybody on the way can write, does not touch it (rfc6265bis 5.7)
        if cookie.expired(now):
            if old is None:
                return False
            self._set(key, None)
            self.changes[key] = None
            return True
        if old is not None and _as_good(old, cookie, now):
            return False
        self._set(key, cookie)
        self.changes[key] = cookie
        return True

    def _set(self, key: Key, cookie: Cookie | None) -> None:
        """What is set anew goes behind the others."""
        self._cookies.pop(key, None)
        if cookie is not None:
            self._cookies[key] = cookie

    def _make_room(self) -> None:
        sizes = [(key, len(msgspec.msgpack.encode(cookie))) for key, cookie in self._cookies.items()]
        total = sum(size for _, size in sizes)
        for key, size in sizes:
            if len(self._cookies) <= MOST_COOKIES and total <= MOST_BYTES:
                return
            del self._cookies[key]
            total -= size


def parse(field: bytes, url: str, now: float) -> Cookie | None:
    """Read the value of a Set-Cookie field that came with the answer to `url` (RFC 6265 5.2 and 5.3).

    None when it is to be ignored. A cookie whose `expires` has passed asks for its removal.
    """
    try:
        text = field.decode()
    except UnicodeDecodeError:
        return None
    pair, *rest = text.split(";")
    name, equals, value = (part.strip(" \t") for part in pair.partition("="))
    if not equals or _CONTROL.search(text) is not None:
        return None
    attributes = _attributes(rest)
    host, domain = urls.hostname(url), attributes.get("domain", "").lower().removeprefix(".")
    if domain and domain != host and (public_suffix(domain) or not host.endswith(f".{domain}")):
        return None
    secure = "secure" in attributes
    if secure and not _is_https(url):
        return None
    path = attributes.get("path", "")
    lower = name.lower()
    if lower.startswith("__secure-") and not secure:
        return None
    if lower.startswith("__host-") and not (secure and not domain and path == "/"):
        return None
    cookie = Cookie(
        name=name,
        value=value,
        domain=domain or host,
        path=path if path.startswith("/") else _default_path(url),
        # A host that is itself a public suffix, or an address, has no hosts below that are its own.
        host_only=not domain or public_suffix(domain),
        secure=secure,
        expires=_expires(attributes, now),
    )
    return cookie if cookie.sendable else None


def public_suffix(domain: str) -> bool:
    """Whether the names below a domain are other people's: a public suffix, a single label. So are those below an
    address, which is no name."""
    below = f"x.{domain}"
    return urls.registrable_domain(below) == below


def _attributes(rest: list[str]) -> dict[str, str]:
    """Attributes by lower-case name; the last of a name counts."""
    found: dict[str, str] = {}
    for text in rest:
        name, _, value = (part.strip(" \t") for part in text.partition("="))
        if len(value.encode()) <= ATTRIBUTE_BYTES:
            found[name.lower()] = value
    return found


def _expires(attributes: Mapping[str, str], now: float) -> float | None:
    """When the cookie ends: Max-Age wins, what cannot be read is ignored (RFC 6265 5.2.1, 5.2.2)."""
    age = attributes.get("max-age", "")
    if re.fullmatch(r"-?[0-9]+", age):
        return now + min(int(age), LONGEST) if not age.startswith("-") and int(age) else 0.0
    try:
        date = parsedate_tz(attributes.get("expires", ""))
        at = None if date is None else float(mktime_tz(date))
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return None if at is None else min(at, now + LONGEST)


def _as_good(old: Cookie, new: Cookie, now: float) -> bool:
    """Whether what is kept may stand for what is set now: the same, and not so much shorter or longer of life."""
    if msgspec.structs.replace(old, expires=new.expires) != new:
        return False
    if old.expires is None or new.expires is None:
        return old.expires == new.expires
    return WORTH * (new.expires - now) <= old.expires - now <= new.expires - now


def _is_https(url: str) -> bool:
    return url.startswith("https:")


def _path(url: str) -> str:
    """Path of a wire URL."""
    rest = url.partition("//")[2].partition("?")[0]
    return rest[rest.find("/") :] if "/" in rest else "/"


def _default_path(url: str) -> str:
    """RFC 6265 5.1.4."""
    return _path(url).rpartition("/")[0] or "/"


def _path_matches(path: str, prefix: str) -> bool:
    """RFC 6265 5.1.4."""
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))
