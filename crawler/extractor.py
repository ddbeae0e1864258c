"""The worker's side of `--extract`: a process of its own in which a user's function is called, page by page.

It is not the one that parses: whatever the function does to its interpreter, however long it takes, even if it crashes,
every page keeps its links. A page at which it hangs or dies has no `extra`, the pages behind it go to the next child.
"""

from __future__ import annotations

import logging

from crawler.errors import CrawlerError, NotImportable, UsageError
from crawler.extract import Request
from crawler.fetched import Extracted, ParsedPage, Response
from crawler.parser import Parser

log = logging.getLogger(__name__)


class Extractor:
    """One function; `start` before the first page.

    timeout: seconds it may take over one page.
    """

    def __init__(self, spec: str, timeout: float = 5.0) -> None:
        trace = log.isEnabledFor(logging.DEBUG)
        self._spec = spec
        self._child = Parser(timeout, program=("crawler.extract_process", spec, str(int(trace))))
        self._whys = {"timeout": f"no result within {timeout:g} s", "crash": "the process that it ran in died"}
        self._called = self._failed = 0
        self._first = ""

    async def start(self) -> None:
        """Import the function. Raises UsageError when it cannot be had here, NotImportable when its module is to
        blame; `close` then, too."""
        try:
            await self._child.start()
            answer = await self._child.ask(Request("", 0, (), b""), Extracted)
        except CrawlerError:
            raise NotImportable(
                f"--extract {self._spec}: importing it ends the process, or takes more than a minute"
            ) from None
        if answer.refused:
            raise UsageError(answer.refused) if answer.importable else NotImportable(answer.refused)

    async def extract(self, page: Response, parsed: ParsedPage) -> Extracted:
        """What the function makes of a page; `error` says in a line why there is nothing."""
        request = Request(
            page.url,
            page.status,
            page.headers,
            page.body,
            parsed.title,
            parsed.lang,
            parsed.canonical_url,
            parsed.charset,
            tuple(link.url for link in parsed.links),
        )
        try:
            answer = await self._child.ask(request, Extracted)
        except CrawlerError:  # a replacement that does not start: a new one is tried at the next page
            answer = Extracted(failed="crash")
        error = answer.error or self._whys.get(answer.failed, "") or answer.refused
        self._called += 1
        if error:
            self._failed += 1
            self._first = self._first or error
            return Extracted(error=f"extract: {error}")
        return answer

    async def close(self) -> None:
        """End the child; says at how many pages the function failed."""
        if self._failed:
            log.warning(
                "--extract %s failed at %d of %d pages, at the first with: %s (the rows' error column has each)",
                self._spec,
                self._failed,
                self._called,
                self._first,
            )
        await self._child.close()


async def check_function(spec: str) -> None:
    """Raise UsageError when the function cannot be had on this machine."""
    extractor = Extractor(spec)
    try:
        await extractor.start()
    finally:
        await extractor.close()
