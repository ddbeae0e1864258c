"""Revisits: what an earlier crawl knows of a page, and whether the page is still the same.

A 304, or an answer with the very bytes of the earlier one, becomes a revisit record; the page's links are those of the
earlier record, which is read back and parsed like any answer. A record that cannot be read vouches for nothing: its
page is asked for anew, without conditions.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from hashlib import sha256

import msgspec

from crawler.archive.folder import validators_name
from crawler.archive.original import Original, read_original
from crawler.archive.stores import ReadRange, Store
from crawler.archive.validators import Known, Validators
from crawler.conditions import conditions, contradicts, refreshed
from crawler.errors import StoreError
from crawler.fetched import Response, Revisit
from crawler.model import CrawlRecord

log = logging.getLogger(__name__)

UNSURE = frozenset({304, 400, 412, 431})
"""Answers to a conditional request after which the page may have to be asked for without conditions: servers refuse
what they do not expect in a GET."""

READING = 8
"""Records read at a time: each may be as large as a page can be."""

PLAIN_LIMIT = 10_000
"""URLs remembered that must be asked for without conditions."""


class Revisits:
    """The earlier crawl, for one crawl in one worker. Made by `open`."""

    def __init__(
        self, crawl: str, validators: Validators, read: ReadRange, max_body: int, stack: AsyncExitStack
    ) -> None:
        self._crawl, self._read, self._max_body, self._stack = crawl, read, max_body, stack
        self._validators: Validators | None = validators
        self._reading = asyncio.Semaphore(READING)
        self._unreadable: set[str] = set()
        self._plain: set[str] = set()

    @classmethod
    async def open(cls, store: Store, earlier: CrawlRecord, max_body: int) -> Revisits | None:
        """Open the earlier crawl's validators; None, and a line for the user, without any. Errors: StoreUnavailable."""
        name = validators_name(earlier)
        validators: Validators | None = None
        why = "there is no such file"
        async with store.existing(name) as path:
            try:
                # A copy loses its name when this context ends; what is open of it stays.
                validators = Validators(path) if path is not None else None
            except StoreError as error:
                why = str(error)
        if validators is None:
            log.warning("every page is fetched as if new: %s: %s", name, why)
            return None
        stack = AsyncExitStack()
        stack.callback(validators.close)
        return cls(earlier.id, validators, await stack.enter_async_context(store.ranges()), max_body, stack)

    async def close(self) -> None:
        """Give back file and connections; it may be repeated."""
        self._validators = None
        await self._stack.aclose()

    # ---------------------------------------------------------------- before the request

    def conditions(self, url: str) -> tuple[tuple[str, str], ...]:
        """The fields that make the request for a wire URL conditional; () for a page that must come anew."""
        known = self._known(url)
        if known is None or url in self._plain:
            return ()
        return conditions(known.etag, known.last_modified, known.fetched_at)

    def _known(self, url: str) -> Known | None:
        """What the earlier crawl knows of a page, if it may be kept as it was then."""
        if self._validators is None:
            return None
        try:
            known = self._validators.find(url)
        except StoreError as error:
            log.warning("pages are fetched as if new: the validators of crawl %s: %s", self._crawl, error)
            self._validators = None
            return None
        if known is None or known.size > self._max_body or known.file in self._unreadable:
            return None
        return known

    # ---------------------------------------------------------------- after the answer

    async def not_modified(self, url: str, answer: Response) -> Revisit | None:
        """What an answer of UNSURE is worth: the unchanged page, or None when it must be asked for anew, plainly."""
        known, original = self._known(url), None
        if known is not None and answer.status == 304 and not contradicts(known.etag, answer):
            original = await self._original(url, known)
        if original is None:
            # Should its turn be far off, the page goes back to the frontier first, and is not to end here again.
            if len(self._plain) >= PLAIN_LIMIT:
                self._plain.clear()
            self._plain.add(url)
            return None
        page = msgspec.structs.replace(
            answer,
            status=200,
            headers=refreshed(original.headers, answer),
            stored=original.stored,
            body=original.body,
            truncated="",
            decoded=original.decoded,
        )
        return Revisit(original.reference, page)

    async def same(self, url: str, answer: Response) -> Revisit | None:
        """The unchanged page, when an answer brought it once more: the bytes as stored are those of the earlier record,
        content coding included, so that either record's header fields go with them."""
        if answer.status != 200 or answer.url != url or answer.truncated:
            return None
        known = self._known(url)
        if known is None or len(answer.body) != known.size or sha256(answer.body).digest() != known.digest:
            return None
        original = await self._original(url, known)
        if original is None or original.stored != answer.stored:
            return None
        return Revisit(original.reference, answer)

    async def _original(self, url: str, known: Known) -> Original | None:
        """The earlier record. A file that cannot be read is not tried again: its pages are fetched as if new."""
        async with self._reading:
            try:
                member = await self._read(known.file, known.offset, known.length)
                original = await asyncio.to_thread(read_original, member, known, url)
            except StoreError as error:
                original, why = None, str(error)
            else:
                why = f"{known.file} has no such record at {known.offset}"
        if original is None:
            if not self._unreadable:
                log.warning("what cannot be read of an earlier crawl is fetched as if new: %s", why)
            self._unreadable.add(known.file)
        return original
