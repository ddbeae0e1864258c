"""Seeds: from what a user gives (arguments, a file, standard input) to pages on the frontier, in batches."""

from __future__ import annotations

import itertools
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec

from crawler import urls
from crawler.config import crawl_settings
from crawler.discover import seed_page
from crawler.entrypoints.places import store_address
from crawler.entrypoints.revisiting import earlier_crawl, prepare, resumed
from crawler.errors import UsageError
from crawler.guard import check_address
from crawler.model import Added, CrawlRecord, Page
from crawler.state.port import CrawlState
from crawler.url_key import keys_of

if TYPE_CHECKING:
    from crawler.entrypoints.sitemap import GivenSitemaps

log = logging.getLogger(__name__)

BATCH = 500
SHOWN = 5
"""Lines that are no URL are named one by one up to this many, then counted."""


def check(seeds: Sequence[str], crawl: str | None, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for what can be seen to be wrong before anything is touched."""
    checked = crawl_settings(settings)
    if crawl is not None:
        checked_name(crawl)
    if seeds and not any(seed_page(seed, checked) for seed in seeds):
        raise UsageError(f"{seeds[0]!r} is not a URL that can be crawled: write for example https://example.com/")


async def crawl_to_seed(state: CrawlState, crawl: str | None, given: Mapping[str, Any], store: str) -> CrawlRecord:
    """The crawl that seeds go to: the one named, else the latest (that revisits the same crawl), else a new one; with
    the settings given on top.

    Raises UsageError for settings that make no sense; then nothing was written.
    """
    records = await state.crawls()
    record = resumed(records, crawl, given)
    settings = crawl_settings(given, record.settings if record else None)
    now = time.time()
    name = record.id if record else checked_name(crawl or new_name(now))
    if settings.from_crawl and (record is None or record.settings.from_crawl != settings.from_crawl):
        earlier = earlier_crawl(records, settings.from_crawl, name)
        await prepare(state, earlier, store_address(store or None, record, state))
    if record is None:
        return await state.create(CrawlRecord(id=name, started_at=now, settings=settings, store=store))
    if settings == record.settings:
        return record
    if keys_of(settings) is not keys_of(record.settings):
        # What it has seen is known by its keys: under others it would meet all of it again, or miss what is new.
        raise UsageError(
            f"--keep-param, --drop-param: what crawl {record.id} counts as one page cannot change; "
            "begin another with --crawl NAME"
        )
    await state.amend(record.id, settings)
    return msgspec.structs.replace(record, settings=settings)


def new_name(now: float) -> str:
    """The id of a crawl that the user did not name: when it started (UTC)."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))


def checked_name(crawl: str) -> str:
    """A crawl's id names files and keys, so it is short and plain. Raises UsageError."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", crawl) is None:
        raise UsageError(
            f"--crawl {crawl!r}: use up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return crawl


class Seeded(msgspec.Struct, frozen=True):
    """How many seeds were new, known already, and no URL."""

    new: int
    known: int
    bad: int


async def add_seeds(state: CrawlState, record: CrawlRecord, seeds: Iterable[str], say: Callable[[str], None]) -> Seeded:
    """Add seeds to a crawl. What is no URL is named and left out; UsageError when nothing else was there.

    If the process dies here: run the command again; what was added is known, what was recorded but not queued is
    queued again.
    """
    new = known = bad = 0
    abroad = False
    lines = map(bare, seeds)
    wanted = (line for line in lines if line and not line.startswith("#"))
    while batch := list(itertools.islice(wanted, BATCH)):
        pages: list[Page] = []
        for text in batch:
            page = seed_page(text, record.settings)
            if page is not None:
                pages.append(page)
                abroad = abroad or not _at_home(urls.hostname(page.url))
                continue
            bad += 1
            if bad <= SHOWN:
                say(f"not a URL that can be crawled: {text[:200]!r} (write for example https://example.com/)")
        answers = await state.add(record.id, pages) if pages else []
        new += answers.count(Added.NEW)
        known += len(answers) - answers.count(Added.NEW)
    if bad > SHOWN:
        say(f"{bad} lines in all were no URLs and were left out")
    if bad and not new + known:
        raise UsageError("there was no URL to crawl among the seeds: nothing was added")
    if abroad and not record.settings.contact:
        log.warning("tell sites who you are: --contact URL-or-mail is sent with every request")
    return Seeded(new, known, bad)


def bare(line: str) -> str:
    """A line of a list of seeds without what is around it: also the mark with which some programs begin a file."""
    return line.removeprefix("\ufeff").strip()


def _at_home(host: str) -> bool:
    """Whether a host is this machine or an address of a private network: its owner knows whom to ask."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    return check_address(host, True) is None and check_address(host, False) is not None


def sitemaps_if_given(
    state: CrawlState, record: CrawlRecord, given: Sequence[str]
) -> AbstractAsyncContextManager[GivenSitemaps | None]:
    """`given_sitemaps`; None without any, and then no HTTP client is imported, which takes as long as all the rest of a
    command's start."""
    if not given:
        return nullcontext()
    from crawler.entrypoints.sitemap import given_sitemaps

    return given_sitemaps(state, record, given)


def seed_lines(arguments: Iterable[str], file: str | None) -> Iterator[str]:
    """Arguments, then the lines of a file (`-` = standard input), read as they are needed.

    UsageError at once when the file cannot be opened.
    """
    if file is None or file == "-":
        return itertools.chain(arguments, sys.stdin if file else ())
    try:
        opened = open(file, encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by the generator below
    except OSError as error:
        raise UsageError(f"--file {file}: {error.strerror or error}") from None

    def lines() -> Iterator[str]:
        with opened:
            yield from arguments
            yield from opened

    return lines()
