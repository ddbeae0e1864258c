"""Adding pages: links that this process knows to be in the visited set are answered here, the rest by one script."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.model import Added, Page
from crawler.state.redis import records
from crawler.state.redis.client import Server
from crawler.state.seen import SeenPages

_AT_ONCE = 1000
"""Pages of one script: it holds the server up for some 20 ms. Each page is atomic, a call need not be."""

_ANSWERS = {"n": Added.NEW, "k": Added.KNOWN, "a": Added.AGAIN}


class Adder:
    """`add` of one state."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._seen = SeenPages[bytes, bytes]()  # crawl's number and digest, and the digest of the parent
        self._numbers: dict[str, bytes] = {}

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added] | None:
        """One answer a page, in order; None when there is no such crawl."""
        answers: list[Added] = []
        for start in range(0, max(len(pages), 1), _AT_ONCE):
            some = await self._add(crawl, pages[start : start + _AT_ONCE])
            if some is None:
                return None
            answers += some
        return answers

    async def _add(self, crawl: str, pages: Sequence[Page]) -> list[Added] | None:
        while True:
            number = self._numbers.get(crawl)
            answers, asked = self._answered(number, pages)
            reply = await self._ask(crawl, number, [pages[index] for index in asked])
            if reply is None:
                return None
            self._numbers[crawl] = reply[0]
            if len(reply) == 1:
                continue  # the crawl was dropped and made anew: what is remembered says nothing about it
            number, marks, parents = reply
            for place, index in enumerate(asked):
                answers[index] = _ANSWERS[chr(marks[place])]
                self._seen.put(number + pages[index].digest, parents[16 * place : 16 * place + 16])
            return answers

    def _answered(self, number: bytes | None, pages: Sequence[Page]) -> tuple[list[Added], list[int]]:
        """Answers from memory, and the indices of the pages that must be asked for: seeds always, for their scope."""
        answers, asked = [Added.KNOWN] * len(pages), []
        for index, page in enumerate(pages):
            parent = self._seen.get(number + page.digest) if number and page.parent else None
            if parent is None or page.parent is None:
                asked.append(index)
            elif parent == page.parent.digest:
                answers[index] = Added.AGAIN
        return answers, asked

    async def _ask(self, crawl: str, number: bytes | None, pages: Sequence[Page]) -> list[bytes] | None:
        parents: dict[bytes, tuple[int, str]] = {}
        rows = []
        for page in pages:
            of = 0
            if page.parent is not None:
                of, _ = parents.setdefault(page.parent.digest, (len(parents) + 1, page.parent.url))
            rows.append((of, page.priority, page.depth, page.gate, page.url, records.words(page.skip), page.site))
        request = (crawl, number and number.decode(), [url for _, url in parents.values()], rows)
        digests = b"".join([page.digest for page in pages])
        reply: list[bytes] | None = await self._server.run("add", request, digests, b"".join(parents))
        return reply
