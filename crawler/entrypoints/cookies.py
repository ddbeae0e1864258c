"""`--cookies FILE`: cookies as browsers' exporters and curl write them (Netscape format), and their way to the fleet.

Lenient where exporters are sloppy: no first line with the format's name, byte order mark, CRLF, spaces for tabs,
fractions of a second. Strict where a line could be misread. Values are secrets: no message shows a line.
"""

from __future__ import annotations

import codecs
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from crawler import urls
from crawler.cookies import LONGEST, MOST_BYTES, MOST_COOKIES, Cookie, public_suffix
from crawler.errors import UsageError
from crawler.model import CrawlRecord
from crawler.sessions import Sessions
from crawler.state.port import CrawlState

FIELDS = "domain, TRUE or FALSE, path, TRUE or FALSE, expiry, name and value"

LAST_SECOND = 253_402_300_799
"""The end of the year 9999; an expiry beyond it was written in another unit than seconds."""


class CookieFile(msgspec.Struct, frozen=True):
    """What a cookies file holds: the cookies that may still be sent, and how many were left out."""

    cookies: tuple[Cookie, ...] = ()
    expired: int = 0
    unfit: int = 0


class _Misread(Exception):
    """A line that is not what it should be; the text says why."""


def read_cookies(file: str, now: float | None = None) -> CookieFile:
    """Read a cookies file. UsageError, naming file and line, when it cannot be read or a line makes no sense."""
    now = time.time() if now is None else now
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(f"--cookies {file}: {error.strerror or error}") from None
    found: dict[tuple[str, str, str], Cookie] = {}
    expired = unfit = 0
    for number, raw in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        try:
            cookie = _cookie(raw.removesuffix(b"\r"), now)
        except _Misread as why:
            raise UsageError(f"--cookies {file}, line {number}: {why}") from None
        if cookie is None:
            continue
        if cookie.expired(now):
            expired += 1
        elif not cookie.sendable:
            unfit += 1
        else:
            found[cookie.key] = cookie
    if not found:
        raise UsageError(f"--cookies {file}: there is no cookie in it" + (" that has not expired" if expired else ""))
    return CookieFile(tuple(found.values()), expired, unfit)


def given_cookies(file: str | None, settings: dict[str, Any]) -> CookieFile | None:
    """The cookies that the user gave, if so; then `settings` asks for sessions. UsageError as above."""
    if file is None:
        return None
    settings["sessions"] = True
    return read_cookies(file)


async def seed_cookies(state: CrawlState, record: CrawlRecord, file: CookieFile) -> str:
    """Give the fleet the cookies of a file; says what was given. If the process dies here: run the command again."""
    too_many = await Sessions(state, record).seed(file.cookies)
    sites = {urls.registrable_domain(cookie.domain) for cookie in file.cookies}
    text = f"{len(file.cookies) - too_many} cookies for {len(sites)} sites"
    if file.expired:
        text += f", {file.expired} left out because they have expired"
    if file.unfit:
        text += f", {file.unfit} left out that cannot be sent (no name, too long, control characters)"
    if too_many:
        text += f", {too_many} left out because a site has room for {MOST_COOKIES} of {MOST_BYTES:,} bytes in all"
    return text


def _cookie(raw: bytes, now: float) -> Cookie | None:
    """One line; None for an empty one or a comment."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise _Misread("it is no UTF-8 text") from None
    text = text.removeprefix("#HttpOnly_")
    if not text.strip() or text.startswith("#"):
        return None
    fields = text.split("\t") if "\t" in text else text.split()
    if len(fields) == 6 and "\t" in text:
        fields.append("")  # an editor took the tab before an empty value
    if len(fields) != 7:
        raise _Misread(f"{len(fields)} fields instead of 7 ({FIELDS}, with tabs between them)")
    domain, below, path, secure, expiry, name, value = (field.strip(" ") for field in fields)
    if not path.startswith("/"):
        raise _Misread("the path (field 3) does not begin with '/'")
    host = _host(domain)
    return Cookie(
        name=name,
        value=value,
        domain=host,
        path=path,
        host_only=not _boolean(below, 2) or public_suffix(host),
        secure=_boolean(secure, 4),
        expires=_expires(expiry, now),
    )


def _host(domain: str) -> str:
    """The host as URLs name it."""
    name = domain.removeprefix(".")
    wire = urls.resolve(f"http://{name}/", "http://none/") if re.fullmatch(r"[^\s/:?#@\\%]+", name) else None
    if wire is None:
        raise _Misread("the domain (field 1) is no host name")
    return urls.hostname(wire)


def _boolean(text: str, field: int) -> bool:
    if text.upper() not in ("TRUE", "FALSE"):
        raise _Misread(f"field {field} is neither TRUE nor FALSE")
    return text.upper() == "TRUE"


def _expires(text: str, now: float) -> float | None:
    """Unix seconds; 0, -1 or nothing mark a cookie that ends with the browser's session."""
    if text in ("", "0", "-1"):
        return None
    if re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text) is None:
        raise _Misread("the expiry (field 5) is no number of seconds since 1970")
    if float(text) > LAST_SECOND:
        raise _Misread("the expiry (field 5) is beyond the year 9999: it must be in seconds since 1970")
    return min(float(text), now + LONGEST)
