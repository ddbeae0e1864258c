"""The settings of a crawl, validated once.

They are written to the crawl's record and hold for every worker. `crawl_settings` is the only way in for values a
user typed; what it returns needs no further check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from crawler.errors import UsageError
from crawler.user_agent import check_identity, default_user_agent, product_token

MIB = 1024 * 1024

LEASE = 120.0
"""Seconds for which a fetcher may hold a URL unless the crawl or the state says otherwise."""

Scope = Literal["host", "domain", "any"]
PaceBy = Literal["domain", "host"]
Dedup = Literal["exact", "bloom"]

FALSE_POSITIVES = 1e-6
"""Of the new URLs, the part that `dedup` bloom takes for known: such a page is not fetched."""

Count = Annotated[int, msgspec.Meta(ge=1)]


class CrawlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one crawl.

    rate: requests per second to one host over the whole fleet; 0 = no limit.
    dedup: bloom = done and skipped pages lose their record and are known by a Bloom filter, to save memory.
    max_time, lease: seconds. max_body: decoded bytes kept of one page. lease: None = the state's own.
    max_pages_per_host: a host is what `pace_by` counts as one. in_flight_per_host: requests at one host at a time, over
    the whole fleet; not kept at a rate of 0. boost: regular expression and number of places by which a page whose URL
    matches comes earlier (-5 to 5; several add up). sessions: cookies are kept, and shared by the fleet.
    sitemaps: those that robots.txt names are read.
    from_crawl: id of an earlier crawl on the same state and store, whose pages are asked for only if they changed.
    keep_params, drop_params: names of query parameters that count for what is one page although they are known to
    track, and of others that do not; `*` at the end stands for any rest, `keep_params` win.
    skip_near_duplicates: links of a page whose text hardly differs from that of one seen before are not followed.
    extract: `module:function` that is called for each parsed page; "" = none.
    """

    rate: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1.0
    pace_by: PaceBy = "domain"
    scope: Scope = "host"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_pages: Count | None = None
    max_pages_per_host: Count | None = None
    max_depth: Annotated[int, msgspec.Meta(ge=0)] | None = None
    max_time: Annotated[float, msgspec.Meta(gt=0)] | None = None
    max_body: Annotated[int, msgspec.Meta(ge=1024)] = 10 * MIB
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    in_flight_per_host: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 2
    boost: tuple[tuple[str, Annotated[int, msgspec.Meta(ge=-5, le=5)]], ...] = ()
    sessions: bool = False
    sitemaps: bool = True
    user_agent: Annotated[str, msgspec.Meta(min_length=1, max_length=512)] = default_user_agent()
    contact: str = ""
    ignore_robots: bool = False
    allow_private: bool = False
    lease: Annotated[float, msgspec.Meta(ge=5, le=12 * 3600)] | None = None
    max_attempts: Count = 4
    dedup: Dedup = "exact"
    from_crawl: str | None = None
    keep_params: tuple[str, ...] = ()
    drop_params: tuple[str, ...] = ()
    skip_near_duplicates: bool = False
    extract: str = ""

    @property
    def interval(self) -> float:
        """Seconds between two requests to one host; 0 = no limit."""
        return 1.0 / self.rate if self.rate else 0.0

    @property
    def lease_seconds(self) -> float:
        """How long a fetcher may hold a URL, on a state that has no other opinion."""
        return self.lease or LEASE

    @property
    def product_token(self) -> str:
        """What robots.txt groups are matched with (RFC 9309 2.2.1)."""
        return product_token(self.user_agent)


def crawl_settings(given: Mapping[str, Any], base: CrawlSettings | None = None) -> CrawlSettings:
    """Validate what a user typed, on top of `base` (default: the defaults). Raises UsageError that names the option."""
    base = base or CrawlSettings()
    values = {**msgspec.structs.asdict(base), **given}
    for name in ("include", "exclude"):
        for pattern in values[name]:
            try:
                re.compile(pattern)
            except re.error as error:
                raise UsageError(f"--{name} {pattern!r} is not a regular expression: {error}") from None
    for name in ("keep_params", "drop_params"):
        values[name] = tuple(sorted({_parameter(name, each) for each in values[name]}))
    if values["extract"] and _FUNCTION.fullmatch(values["extract"]) is None:
        raise UsageError(f"--extract {values['extract']!r}: write module:function, for example shop.pages:price")
    values["boost"] = tuple(_boost(each) if isinstance(each, str) else each for each in values["boost"])
    if "user_agent" not in given and base.user_agent == default_user_agent(base.contact):
        values["user_agent"] = default_user_agent(values["contact"])
    check_identity(values["user_agent"], values["contact"])
    try:
        return msgspec.convert(values, CrawlSettings)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$.")
        option = path.rstrip("`").split("[")[0].replace("_", "-")
        raise UsageError(f"--{option}: {text[0].lower()}{text[1:]}" if option else text) from None


_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def _parameter(option: str, text: str) -> str:
    """A name of query parameters, or the beginning of some and `*`; their case does not count."""
    if re.fullmatch(r"[^\s&=#*]*\*?", text) is None or not text:
        option = option.removesuffix("s").replace("_", "-")
        raise UsageError(f"--{option} {text!r}: write the name of a query parameter, or its beginning and '*'")
    return text.lower()


def _boost(text: str) -> tuple[str, int]:
    """Read `RE=N`; the last `=` counts."""
    pattern, _, places = text.rpartition("=")
    if not pattern or re.fullmatch(r"[+-]?[0-5]", places) is None:
        raise UsageError(f"--boost {text!r}: write RE=N with a whole number from -5 to 5, for example '/news/=3'")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--boost {pattern!r} is not a regular expression: {error}") from None
    return pattern, int(places)


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """Read a duration such as `90`, `90s`, `15m`, `2h` or `1d`. Raises UsageError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is not a duration: write for example 90s, 15m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2]]
