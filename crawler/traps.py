"""Traps: links that look as if a site made them for ever, told from the URL and how it was found. Pure.

Every rule answers the same for the same link of the same page, so a page that is handed out again finds the same
traps. What can only be told from many pages is in `trap_memory.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from crawler.url_key import STANDARD, Keys
from crawler.urls import authority

REPEATS, NUMBERS = 3, 5
"""How often a segment may occur in a path: a name, and a number, which dates and numbered folders repeat rightly."""

SEGMENTS = 25
"""Segments of a path, at most."""

PARAMETERS, SAME_NAME = 50, 10
"""Parameters of a query, at most, and those of one name (`a[]=1&a[]=2`)."""

CHAIN = 200
"""Depth beyond which nothing is followed that merely counts on: link, page and the page before are of one pattern."""

FIRST_YEAR, YEARS_AHEAD = 1900, 10
"""A calendar that is walked leads back to this year and this many years ahead."""

# An escape that was escaped three times over, and an ampersand to which the same happened in HTML.
_REENCODED = re.compile(r"%(?:25){3}|(?:[Aa][Mm][Pp](?:;|%(?:25)*3[Bb])){3}")

# What varies between pages of one kind: numbers, and tokens of letters and digits too long to be words.
_VARIABLE = re.compile(
    r"""(?<![0-9A-Za-z])(?: [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}    # UUID (RFC 9562 4)
                          | (?=[a-f]*[0-9]) [0-9a-f]{8,}
                          | (?=[A-Za-z]*[0-9]) [0-9A-Za-z]{16,}
                        )(?![0-9A-Za-z])
      | [0-9]+""",
    re.VERBOSE,
)

_FOUR_DIGITS = re.compile(r"[0-9]{4}")
_MONTH, _DAY = r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12][0-9]|3[01])"
_DATE = re.compile(rf"(?<![0-9])([0-9]{{4}})([-/]){_MONTH}\2{_DAY}(?![0-9])")
# Perhaps a month, perhaps the twelfth page of the thread 2077.
_PERHAPS = re.compile(rf"/([0-9]{{4}})[-/]{_MONTH}(?=/|\Z)")
_YEAR_NAME = re.compile(r"(?:.*[^a-z])?(?:year|yr|jahr|annee)\]?", re.IGNORECASE)
_YEAR = re.compile(r"([0-9]{4,6})")
_DATE_NAME = re.compile(r".*(?:date|day|month|week)\]?", re.IGNORECASE)
_DATE_VALUE = re.compile(rf"([0-9]{{4}})-?{_MONTH}(?:-?{_DAY})?(?:[T ].*)?")


def trap(url: str, depth: int, page: str, before: str, year: int, keys: Keys = STANDARD) -> str:
    """Why a link is a trap, as the reason of its skip; "" when it seems to be none.

    `depth` is the link's, `page` the URL of the page it was found on, `before` that of the page which led there ("" for
    a seed), `year` the present one.
    """
    path, query = split(url)
    if _REENCODED.search(url):
        return "trap-encoding"
    if reason := _path_trap(path):
        return reason
    if query.count("&") >= SAME_NAME:
        names = Counter(piece.partition("=")[0] for piece in query.split("&"))
        if names.total() > PARAMETERS or max(names.values()) > SAME_NAME:
            return "trap-query"
    if _leaves_the_calendar(url, page, year):
        return "trap-calendar"
    return "trap-chain" if depth > CHAIN and counts_on(url, page, before, keys) else ""


def split(url: str) -> tuple[str, str]:
    """Path and query of a wire URL."""
    path, _, query = url[url.find("/", url.find("//") + 2) :].partition("?")
    return path, query


def pattern(url: str) -> str:
    """What URLs of one kind have in common: host, path with `#` for numbers and tokens, sorted names of the query."""
    start = url.find("/", url.find("//") + 2)
    path, query = split(url)
    names = sorted(_VARIABLE.sub("#", piece.partition("=")[0]) for piece in query.split("&")) if query else []
    return f"{url[:start]}{_VARIABLE.sub('#', path)}?{'&'.join(names)}"


def counts_on(url: str, page: str, before: str, keys: Keys = STANDARD) -> bool:
    """Whether a link, its page and the page before are three of one pattern."""
    return pattern(url) == pattern(page) == pattern(before) and len({*map(keys.key, (url, page, before))}) == 3


def _path_trap(path: str) -> str:
    segments = path.removesuffix("/").split("/")[1:]
    if len(segments) - len(set(segments)) >= REPEATS:
        for segment, times in Counter(segments).items():
            if times > (NUMBERS if segment.isdigit() else REPEATS):
                return "trap-repeat"
    return "trap-deep" if len(segments) > SEGMENTS else ""


def _leaves_the_calendar(url: str, page: str, year: int) -> bool:
    """Whether a link leads to dates that no page is about.

    One date within the bounds excuses the others: open ranges end in 2099. Archives do reach back beyond FIRST_YEAR,
    and a number is not always a year: there only what leads from a page of a calendar to another, out of the bounds,
    is a trap.
    """
    found = list(_years(url)) if _FOUR_DIGITS.search(url, authority(url)[1]) else []
    last = year + YEARS_AHEAD
    if not found or any(FIRST_YEAR <= each <= last for each, _ in found):
        return False
    if any(certain and each > last for each, certain in found):
        return True
    before = [each for each, _ in _years(page)]
    return any(FIRST_YEAR <= each <= last for each in before) and pattern(url) == pattern(page)


def _years(url: str) -> Iterator[tuple[int, bool]]:
    """Years of the dates in a URL, each with whether it can be anything else."""
    path, query = split(url)
    for match in _DATE.finditer(path):
        yield int(match[1]), True
    for match in _PERHAPS.finditer(path):
        yield int(match[1]), False
    for piece in query.split("&") if query else ():
        name, _, value = piece.partition("=")
        found = _DATE.search(value)
        if found is None and _YEAR_NAME.fullmatch(name):
            found = _YEAR.fullmatch(value)
        if found is None and _DATE_NAME.fullmatch(name):
            found = _DATE_VALUE.fullmatch(value)
        if found is not None:
            yield int(found[1]), True
