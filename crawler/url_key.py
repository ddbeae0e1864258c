"""Keys: the canonical form of a URL (RFC 3986 6.2), which says what is one page. Only ever compared, never requested.

Pure. Which query parameters count is an option of a crawl, so a crawl's keys are made by its `Keys` everywhere: where
links are found, in the visited set, in rows, filters and checks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from crawler.config import CrawlSettings
from crawler.tracking import PATH_SESSION, SESSION, SESSION_NAME, SESSION_PAIR, TRACKING, Names
from crawler.urls import PLAIN, authority, host_of, serialise

# The first group is a bare `%`, alone or with one digit: an escape right behind it must not turn into its digit, or
# the key would contain an escape that the URL does not.
_ESCAPE = re.compile(r"(%[0-9A-Fa-f]?)?%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Keys:
    """How one crawl tells pages apart.

    `keep`: names of query parameters that count although they are known to track. `drop`: names of others that do not
    count. `*` at the end of a name stands for any rest; `keep` wins.
    """

    def __init__(self, keep: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> None:
        self.keep, self.drop = keep, drop
        self._keep, self._drop = Names(keep), Names(drop)
        # Few names occur in many URLs.
        self._name_counts = lru_cache(maxsize=4096)(self._look_up)

    def key(self, url: str) -> str:
        """Make the canonical form: equal for two URLs only if they must name the same page. Idempotent, never raises.

        Scheme, host, port, dot segments as the parser serialises them; the host's trailing dot, user info and fragment
        dropped; escapes of unreserved characters decoded, the others in upper case (RFC 3986 6.2.2). Query pieces are
        kept as they are, sorted by name (equal names keep their order), without tracking parameters and session ids;
        so is a session id in the path. Case and slashes of the path, an empty query and a missing value are left
        alone. What is no http(s) URL is its own key.
        """
        if PLAIN.fullmatch(url) is None:
            cleaned = _clean(url)
            if cleaned is None:
                return url
            url = cleaned
        if ";" in url:
            _, end = authority(url)
            path, mark, query = url[end:].partition("?")
            url = url[:end] + PATH_SESSION.sub("", path) + mark + query
        start = url.find("?") + 1
        if not start or start == len(url):
            return url
        pieces = url[start:].split("&")
        kept = [piece for piece in pieces if self._counts(piece)]
        if len(kept) > 1 and "cf" in url[start:].lower() and {_name(piece).lower() for piece in kept} >= SESSION_PAIR:
            kept = [p for p in kept if _name(p).lower() not in SESSION_PAIR or _name(p) in self._keep]
        if len(kept) < len(pieces) and not any(kept):
            return url[: start - 1]
        if len(kept) > 1:
            kept.sort(key=_name)
        return url[:start] + "&".join(kept)

    def digest(self, url: str) -> bytes:
        """Identify a page in 16 bytes: the first half of SHA-256 of its key in UTF-8."""
        return sha256(self.key(url).encode("utf-8", "surrogatepass")).digest()[:16]

    def _counts(self, piece: str) -> bool:
        counts = self._name_counts(_name(piece))
        return SESSION.match(piece) is None if counts is None else counts

    def _look_up(self, name: str) -> bool | None:
        """Whether a parameter counts; None where its value matters, too."""
        if name in self._keep:
            return True
        if name in self._drop or name in TRACKING:
            return False
        return None if SESSION_NAME.fullmatch(name) else True


@lru_cache(maxsize=64)
def keys_for(keep: tuple[str, ...], drop: tuple[str, ...]) -> Keys:
    """The keys of these options, made once."""
    return Keys(keep, drop)


def keys_of(settings: CrawlSettings) -> Keys:
    """The keys of a crawl."""
    return keys_for(settings.keep_params, settings.drop_params)


STANDARD = keys_for((), ())
"""The keys of a crawl without such options."""


def _name(piece: str) -> str:
    return piece.partition("=")[0]


def _clean(url: str) -> str | None:
    serialised = serialise(url, url)
    if serialised is None:
        return None
    host = host_of(serialised)
    if host.endswith(".") and not host.endswith("..") and host != ".":
        serialised = serialised.replace(host, host[:-1], 1)
    return _ESCAPE.sub(_unescape, serialised)


def _unescape(match: re.Match[str]) -> str:
    bare, digits = match.groups()
    character = chr(int(digits, 16))
    return character if not bare and character in _UNRESERVED else f"{bare or ''}%{digits.upper()}"
