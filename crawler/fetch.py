"""One bounded GET: no redirects, no cookies, checked addresses, and whatever came is kept.

An HTTP answer is a `Response`; everything else is a `FetchFailure` with its kind, and nothing else but cancellation
escapes. aiohttp does the work; where a crawler needs it to behave otherwise, `connection.py` sees to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Iterable
from functools import lru_cache
from types import TracebackType

import aiohttp
from yarl import URL

from crawler.config import MIB
from crawler.connection import Connector, Wire, wire
from crawler.decode import ACCEPT_ENCODING, Decoder
from crawler.errors import FailureKind, FetchFailure
from crawler.exchange import Answer, Client
from crawler.failures import failure, places
from crawler.fetched import Response
from crawler.large import AT_ONCE, LARGE, Room
from crawler.lookup import GuardedResolver
from crawler.user_agent import from_field

CONNECT_TIMEOUT = 10.0
"""Seconds for connecting to one address, TLS included."""

HEADERS_TIMEOUT = 30.0
"""Seconds until the header section is complete; DNS and connecting count, waiting for a free slot does not."""

DEADLINE = 60.0
"""Seconds for a whole request. Shorter than a lease, so that no drip outlives the right to the page."""

GRACE, MIN_RATE = 15.0, 100.0
"""After so many seconds a body must have come at so many bytes a second on average."""

LOOK_EVERY = 5.0
"""Seconds between two looks at the rate."""

_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})


class Fetcher:
    """Fetches for one crawl, at most `concurrency` requests at a time. Open it with `start` or `async with`.

    contact: sent as From when it is a mail address. max_body: decoded bytes kept of a body. allow_private: permits
    loopback and private addresses. longest: seconds that no request outlasts.
    """

    def __init__(
        self,
        user_agent: str,
        contact: str = "",
        allow_private: bool = False,
        max_body: int = 10 * MIB,
        concurrency: int = 64,
        longest: float = DEADLINE,
    ) -> None:
        self._headers = {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": ACCEPT_ENCODING}
        if sender := from_field(contact):
            self._headers["From"] = sender
        self._allow_private, self._max_body, self._longest = allow_private, max_body, longest
        self._slots = asyncio.Semaphore(concurrency)
        self._large = asyncio.Semaphore(AT_ONCE)
        self._client: Client | None = None
        self._resolver = GuardedResolver(allow_private)

    async def start(self) -> None:
        """Make the client in the running loop."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        self._client = Client(Connector(self._resolver, self._allow_private), self._headers, timeout)

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        if self._client is not None:
            await self._client.close()
        await self._resolver.close()

    async def __aenter__(self) -> Fetcher:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def room(self) -> Room:
        """Room for the answers of one page, should they be large."""
        return Room(self._large)

    async def get(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] = (),
        max_body: int | None = None,
        deadline: float | None = None,
        extra: bool = False,
        room: Room | None = None,
    ) -> Response:
        """GET a wire URL, byte for byte as given. Raises FetchFailure.

        max_body: bytes, instead of the fetcher's. deadline: seconds from when the request starts, instead of DEADLINE.
        extra: the request starts at once and is not among the `concurrency`. room: what a large body waits for, time
        that does not count.

        Once the headers are there, the answer counts: a body that ended early, dripped too slowly or outlived the
        deadline is kept as far as it came and marked truncated, "disconnect" or "time". Only when time is up before
        the first byte of a body is that a failure.
        """
        async with contextlib.nullcontext() if extra else self._slots:
            return await self._get(
                url, headers, max_body or self._max_body, min(deadline or DEADLINE, self._longest), room
            )

    async def _get(
        self, url: str, headers: Iterable[tuple[str, str]], max_body: int, deadline: float, room: Room | None
    ) -> Response:
        assert self._client is not None, "start the fetcher first"
        this = Wire()
        wire.set(this)
        body = _Body(max_body)
        response: Answer | None = None
        fetched_at = time.time()
        watch = _Watch(body, deadline)
        try:
            async with watch.timeout:
                response = await self._client.get(*_address(url), headers)
                await body.read(response, this, watch, room)
        except FetchFailure:
            raise
        except aiohttp.ConnectionTimeoutError:
            text = f"no connection within {CONNECT_TIMEOUT:.0f} s{places(this.tried)}"
            raise FetchFailure(FailureKind.CONNECT, text) from None
        except TimeoutError:
            if response is None or not body.size:
                what = "no answer" if response is None else "the header section, but no body"
                raise FetchFailure(FailureKind.TIMEOUT, f"{what} within {watch.elapsed:.0f} s") from None
            body.truncated = body.truncated or "time"
        except Exception as error:
            raise failure(error, secure=url.startswith("https:"), tried=this.tried, answered=this.answered) from error
        finally:
            watch.stop()
            if response is None or not body.begun or not response.content.is_eof():
                # Not to be used again. A polite goodbye would wait for a TLS peer that may never answer it.
                this.abort()
                if response is not None:
                    response.close()
        return body.response(response, this, url, fetched_at, watch.elapsed)


class _Watch:
    """Lets `timeout` expire when a request takes too long; one timer a request instead of one a read."""

    def __init__(self, body: _Body, deadline: float) -> None:
        self.timeout = asyncio.timeout(None)
        self._body, self._deadline = body, deadline
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._waiting = False
        self._timer = self._loop.call_later(min(GRACE, deadline), self._look)

    @property
    def elapsed(self) -> float:
        """Seconds since the request started."""
        return self._loop.time() - self._began

    def stop(self) -> None:
        """The request has ended."""
        self._timer.cancel()

    async def wait(self, room: Room) -> None:
        """Wait for room, while the server waits for us: time that is not its own."""
        began, self._waiting = self._loop.time(), True
        await room.take()
        self._waiting = False
        self._began += self._loop.time() - began

    def _look(self) -> None:
        elapsed = self.elapsed
        if self._waiting:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)
            return
        if self._body.begun:
            late = elapsed >= GRACE and self._body.size < MIN_RATE * elapsed
        else:
            late = elapsed >= HEADERS_TIMEOUT
        if late or elapsed >= self._deadline:
            self.timeout.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_later(min(LOOK_EVERY, self._deadline - elapsed), self._look)


class _Body:
    """A body as it comes in, cut at the limit: on the wire as stored, and decoded."""

    def __init__(self, limit: int) -> None:
        self.begun = False
        self.size = 0
        """Bytes received."""
        self.truncated = ""
        self._limit = limit
        self._stored: list[bytes] = []
        self._plain: list[bytes] | None = None
        self._plain_stored = False
        self._decoder = Decoder(None, limit)

    async def read(self, response: Answer, this: Wire, watch: _Watch, space: Room | None) -> None:
        """Read to the end, the limit or the connection's end, whichever comes first."""
        self.begun = True
        room = self._limit
        codings = response.headers.getall("Content-Encoding", [])
        transfer = response.headers.getall("Transfer-Encoding", [])
        if transfer and transfer != ["chunked"]:
            # Nobody asked for it, but a body may be compressed for the transfer (RFC 9112 7.2).
            also = [name for name in ",".join(transfer).lower().replace(" ", "").split(",") if name in _COMPRESSED]
            self._plain_stored = bool(also) and not codings
            codings = codings + also
        if codings:
            self._decoder = Decoder(", ".join(codings), self._limit)
            self._plain = []
            # A body that does not compress grows a little by its coding, and that is not to cost its end.
            room += room // 64 + 4096
        content = response.content
        decoded = 0
        try:
            while chunk := await content.readany():
                self.size += len(chunk)
                if self.size > room:
                    chunk = chunk[: room - self.size]
                    self.truncated = "length"
                self._stored.append(chunk)
                if self._plain is not None:
                    self._plain.append(self._decoder.feed(chunk))
                    decoded += len(self._plain[-1])
                if space is not None and not space.taken and max(self.size, decoded) > LARGE:
                    await watch.wait(space)
                if self.truncated or self._decoder.full:
                    return
        except aiohttp.ClientError:
            # Shorter than declared, without its last chunk, reset, or no valid chunk: what came is kept.
            self.truncated = "disconnect"
        if this.was_reset() and "Content-Length" not in response.headers:
            self.truncated = "disconnect"

    def response(self, answer: Answer, this: Wire, url: str, fetched_at: float, elapsed: float) -> Response:
        """The whole answer."""
        stored = body = b"".join(self._stored)
        if self._plain is not None:
            self._plain.append(self._decoder.finish())
            body = b"".join(self._plain) if self._decoder.decoded else stored[: self._limit]
            if self._plain_stored:
                stored = body  # without the transfer coding
        version, reason = answer.version, answer.reason
        return Response(
            url=url,
            status=answer.status,
            reason=reason if reason.isascii() else reason.encode("utf-8", "surrogateescape").decode("latin-1"),
            version=f"HTTP/{version.major}.{version.minor}",
            headers=answer.raw_headers if this.fields is None else this.fields,
            stored=stored,
            body=body,
            fetched_at=fetched_at,
            elapsed=elapsed,
            ip=this.peer,
            truncated=self.truncated or self._decoder.truncated,
            decoded=self._decoder.decoded,
        )


_WIRE_URL = re.compile(r"(https?://[^/?#\x00-\x20\x7f-\U0010ffff]+)([/?][\x21-\x7e]*)?")


def _address(url: str) -> tuple[str, str]:
    """Origin and target of a URL, byte for byte as given. FetchFailure (URL) where it has none."""
    match = _WIRE_URL.fullmatch(url)
    if match is None or not _has_port(match[1]):
        text = f"{url[:200]!r} cannot be requested: it is no absolute http(s) URL"
        raise FetchFailure(FailureKind.URL, text)
    target = (match[2] or "/").partition("#")[0]
    return match[1], target if target.startswith("/") else f"/{target}"


@lru_cache(maxsize=4096)
def _has_port(origin: str) -> bool:
    try:
        return URL(origin, encoded=True).port is not None
    except ValueError:
        return False
