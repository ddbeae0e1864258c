"""Fetches a robots.txt file, redirects followed, and says what its status means (RFC 9309 2.3.1).

Up to five redirects are followed (2.3.1.2); a longer chain, one that leads nowhere, and any 4xx but 429 mean that there
is no file (2.3.1.3). 5xx, 429 and a request without an HTTP answer mean that nothing is known (2.3.1.4).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import msgspec

from crawler import retry
from crawler.errors import FailureKind, FetchFailure
from crawler.fetch import Fetcher
from crawler.fetched import Response
from crawler.redirect import REDIRECTS, redirect_target
from crawler.robots_file import MAX_FILE

DEADLINE = 15.0
"""Seconds for one request: a host that never answers must not keep its pages waiting for long."""

MOST_HOPS = 5
"""Redirects followed."""

PATH = "/robots.txt"


class Download(msgspec.Struct, frozen=True):
    """What a download brought. `body` is b"" where there is no file; `taken` says how the answer was understood.

    url: where the last answer came from. redirects: the targets followed, in order. status: the last answer's; None
    when the file came from `known`.
    """

    body: bytes
    url: str
    status: int | None
    taken: str
    redirects: tuple[str, ...] = ()


class Failed(Exception):
    """No file this time. kind: a failure kind, or "status". wait: seconds the server asks for, None if it does not."""

    def __init__(self, kind: str, error: str, wait: float | None = None, redirects: tuple[str, ...] = ()) -> None:
        super().__init__(error)
        self.kind, self.wait, self.redirects = kind, wait, redirects


Hop = Callable[[str], Awaitable[bytes | None]]
"""Called before a redirect's target is asked: waits for its turn, or answers with the file where it is known."""


async def direct(_: str) -> bytes | None:
    """A hop of nobody who shares a host: at once."""
    return None


async def download(
    fetcher: Fetcher,
    origin: str,
    hop: Hop = direct,
    *,
    partial: bool,
    deadline: float = DEADLINE,
    clock: Callable[[], float] = time.time,
) -> Download:
    """Fetch the file of an origin. `partial`: one that ended early is used as far as it came. Raises Failed."""
    url = f"{origin}{PATH}"
    redirects: list[str] = []
    while True:
        response = await _get(fetcher, url, deadline, redirects)
        status = response.status
        if status == 429 or status >= 500:
            wait = retry.retry_after(response.header(b"retry-after"), response.header(b"date"), clock())
            raise Failed("status", _line(response), wait, tuple(redirects))
        if status in REDIRECTS and (target := redirect_target(response)):
            if len(redirects) == MOST_HOPS:
                return Download(b"", url, status, f"more than {MOST_HOPS} redirects: no rules", tuple(redirects))
            redirects.append(target)
            url = target
            known = await hop(target)
            if known is not None:
                return Download(known, url, None, "known already", tuple(redirects))
            continue
        if not 200 <= status < 300:
            return Download(b"", url, status, f"{_line(response)}: no rules", tuple(redirects))
        if not response.decoded and b"agent" not in response.body.lower():
            # A coding that is only said to be there harms nothing; bytes that cannot be read are no permission.
            raise Failed(FailureKind.PROTOCOL, "robots.txt cannot be decoded", None, tuple(redirects))
        if response.truncated in ("disconnect", "time") and not partial:
            raise Failed(FailureKind.RESET, "robots.txt ended early", None, tuple(redirects))
        return Download(response.body, url, status, _line(response), tuple(redirects))


async def _get(fetcher: Fetcher, url: str, deadline: float, redirects: list[str]) -> Response:
    try:
        return await fetcher.get(url, max_body=MAX_FILE + 1, deadline=deadline, extra=True)
    except FetchFailure as failure:
        kind: str = failure.kind
        if redirects and kind in (FailureKind.PRIVATE, FailureKind.URL):
            kind = FailureKind.CONNECT  # what may not be asked is the redirect's target, and not this host
        raise Failed(kind, str(failure), None, tuple(redirects)) from failure


def _line(response: Response) -> str:
    return f"HTTP {response.status} {response.reason}".rstrip()
