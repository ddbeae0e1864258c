"""Parsing in a process of its own, so that a page can neither block the event loop nor take the worker down.

One child a worker parses one page at a time and answers in order (`parser_process.py`). Markup can cost a parser the
square of its size, and a fault in its C code is no exception: a child can be killed and replaced, a thread cannot.
When the child dies or takes too long, the first page without an answer is to blame and fails; those behind it are
sent to the next child, unharmed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from crawler.config import MIB
from crawler.errors import CrawlerError
from crawler.fetched import Extracted, ParsedPage
from crawler.parser_process import FRAME, Job
from crawler.sitemap import Listing
from crawler.url_key import STANDARD, Keys

START_TIMEOUT = 60.0
"""Seconds a child may take to report that it is ready."""

AHEAD = 8
"""Pages sent to the child at a time, or copied to be sent: enough to keep it busy. What waits behind a page that takes
long is not to fill the memory twice."""

READ_SIZE = 64 * 1024
"""Bytes read at once; an answer is some 6 kB."""

# A page's tree is freed whole, and the next page needs the room again: keep it instead of giving it back.
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(256 * MIB), "MALLOC_MMAP_THRESHOLD_": str(32 * MIB)}


Parsed = TypeVar("Parsed", ParsedPage, Listing, Extracted)


class _Waiting(Generic[Parsed]):
    """A page or sitemap without an answer yet; its frame is kept for another child."""

    __slots__ = ("_kind", "answer", "frame")

    def __init__(self, frame: bytes, answer: asyncio.Future[Parsed], kind: type[Parsed]) -> None:
        self.frame = frame
        self.answer: asyncio.Future[Parsed] = answer
        self._kind: type[Parsed] = kind

    def answered(self, message: bytes) -> None:
        """Answer, unless the caller has gone. Raises msgspec.MsgspecError for what is no answer."""
        self._settle(msgspec.msgpack.decode(message, type=self._kind))

    def failed(self, reason: str) -> None:
        """Answer that there is nothing."""
        self._settle(self._kind(failed=reason))

    def _settle(self, parsed: Parsed) -> None:
        if not self.answer.done():
            self.answer.set_result(parsed)


_AnyWaiting = _Waiting[ParsedPage] | _Waiting[Listing] | _Waiting[Extracted]


class Parser:
    """A parser process and its successors. While there is a child, every waiting page has been sent to it.

    timeout: seconds one page may take. max_body: bytes of a body that are parsed; the rest is left out.
    program: the module that is the child, and its arguments.
    """

    def __init__(
        self, timeout: float = 5.0, max_body: int = 10 * MIB, program: Sequence[str] = ("crawler.parser_process",)
    ) -> None:
        self._timeout = timeout
        self.program = program
        self._max_body = max_body
        self._encoder = msgspec.msgpack.Encoder()
        self._waiting: deque[_AnyWaiting] = deque()
        self._child: _Child | None = None
        self._former: _Child | None = None
        self._replacing: asyncio.Task[CrawlerError | None] | None = None
        self._room = asyncio.Semaphore(AHEAD)
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._suspect: _AnyWaiting | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the present child; None while there is none."""
        return self._child.pid if self._child is not None else None

    async def start(self) -> None:
        """Start the child. Raises CrawlerError when it does not start, twice in a row."""
        if self._child is None:
            error = await asyncio.shield(self._replacement(None))
            if error is not None:
                raise error

    async def parse(
        self,
        url: str,
        content_type: str | None,
        body: bytes,
        x_robots: Sequence[str],
        token: str,
        keys: Keys = STANDARD,
        *,
        with_simhash: bool = False,
    ) -> ParsedPage:
        """Parse a body that came from `url`, as `crawler.parse.parse` does.

        A page that the child does not survive or takes too long over has `failed` set to "crash" or "timeout".
        Raises CrawlerError when no child can be started.
        """
        body, (keep, drop) = body[: self._max_body], (keys.keep, keys.drop)
        job = Job(body, content_type, url, list(x_robots), token, False, keep, drop, with_simhash)
        return await self.ask(job, ParsedPage)

    async def listing(self, url: str, body: bytes, keys: Keys = STANDARD) -> Listing:
        """Read a sitemap that came from `url`, as `crawler.sitemap.listing` does. Fails as `parse` does."""
        job = Job(body[: self._max_body], None, url, [], "", sitemap=True, keep=keys.keep, drop=keys.drop)
        return await self.ask(job, Listing)

    async def ask(self, job: msgspec.Struct, kind: type[Parsed]) -> Parsed:
        """Have the child do a job that its program knows, which it answers by `kind`. Fails as `parse` does."""
        async with self._room:
            if self._closed:
                raise CrawlerError("the parser is closed")
            message = self._encoder.encode(job)
            answer: asyncio.Future[Parsed] = asyncio.get_running_loop().create_future()
            waiting = _Waiting(FRAME.pack(len(message)) + message, answer, kind)
            self._waiting.append(waiting)
            if self._child is not None:
                self._send(self._child, waiting)
            else:
                self._replacement(None)
            return await answer

    async def close(self) -> None:
        """End the child; pages without an answer are cancelled."""
        self._closed = True
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.gather(self._replacing, return_exceptions=True)
        self._stop_watching()
        while self._waiting:
            self._waiting.popleft().answer.cancel()
        # The former one too: its replacement may not have come to it yet.
        children, self._child, self._former = (self._child, self._former), None, None
        for child in children:
            if child is not None:
                await child.end()

    def _send(self, child: _Child, waiting: _AnyWaiting) -> None:
        child.send(waiting.frame)
        if waiting is self._waiting[0]:
            self._next_at_hand()

    # ---------------------------------------------------------------- one child after the other

    def _replacement(self, former: _Child | None) -> asyncio.Task[CrawlerError | None]:
        """The task that starts a child, after the former one is gone; one at a time."""
        if self._replacing is None:
            self._former = former
            self._replacing = asyncio.create_task(self._replace())
        return self._replacing

    async def _replace(self) -> CrawlerError | None:
        """Start a child and send it what waits; when that fails, what waits fails with the error that is returned."""
        try:
            if self._former is not None:
                await self._former.end()
                self._former = None
            child = await self._start_child()
        except CrawlerError as error:
            while self._waiting:
                if not (answer := self._waiting.popleft().answer).done():
                    answer.set_exception(error)
            return error
        finally:
            self._replacing = None
        self._child = child
        self._waiting = deque(waiting for waiting in self._waiting if not waiting.answer.done())
        for waiting in self._waiting:
            self._send(child, waiting)
        return None

    async def _start_child(self) -> _Child:
        """Two tries: the first may fail by chance, such as a moment without memory."""
        reason = ""
        for _ in range(2):
            child = _Child(self)
            try:
                await child.start()
                return child
            except (OSError, TimeoutError) as error:
                await child.end()
                reason = str(error) or f"no sign of life within {START_TIMEOUT:.0f} s"
            except asyncio.CancelledError:
                await child.end()
                raise
        raise CrawlerError(
            f"the parser process does not start: {reason}; is memory short, or {sys.executable} damaged?"
        )

    def _fail_page_at_hand(self, reason: str) -> None:
        former, self._child = self._child, None
        self._stop_watching()
        if self._waiting:
            self._waiting.popleft().failed(reason)
        self._replacement(former)

    # ---------------------------------------------------------------- called by the child's connection

    def answered(self, child: _Child, message: bytes) -> None:
        """The page at hand is parsed. What a child says after it was given up counts no more."""
        if child is not self._child:
            return
        try:
            self._waiting[0].answered(message)
        except msgspec.MsgspecError:  # its memory is damaged
            self._fail_page_at_hand("crash")
            return
        self._waiting.popleft()
        if self._waiting:
            self._next_at_hand()

    def lost(self, child: _Child) -> None:
        """A child's connection ended. Nobody is to blame when it was idle."""
        if child is self._child:
            self._fail_page_at_hand("crash")

    # ---------------------------------------------------------------- the time limit
    #
    # One timer that is set again when it goes off, instead of one a page. When it finds the page at hand overdue, it
    # looks once more a little later: the answer may have arrived while the event loop itself was held up.

    def _next_at_hand(self) -> None:
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        if self._timer is None:
            self._timer = loop.call_at(self._since + self._timeout, self._watch)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        if not self._waiting:
            return
        at_hand = self._waiting[0]
        if loop.time() < self._since + self._timeout:
            self._timer = loop.call_at(self._since + self._timeout, self._watch)
        elif self._suspect is not at_hand:
            self._suspect = at_hand
            self._timer = loop.call_later(self._timeout / 10, self._watch)
        else:
            self._fail_page_at_hand("timeout")

    def _stop_watching(self) -> None:
        self._suspect = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Child:
    """One child process and the socket to it.

    The socket is read and written by the loop's callbacks without a transport: frames of some 30 kB are neither
    copied into its buffer nor shifted in it.
    """

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._chunk = bytearray(READ_SIZE)
        self._received = bytearray()
        self._unsent: deque[memoryview] = deque()

    @property
    def pid(self) -> int | None:
        """Process id; None before it is started."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises OSError or TimeoutError; call `end` then, too."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = _launch(theirs, self._parser.program)
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._readable)
        async with asyncio.timeout(START_TIMEOUT):
            await self._ready
        if self._socket is None:  # ready, and gone before anybody looked
            raise ConnectionError("it ended at once")

    async def end(self) -> None:
        """Kill and reap. It holds nothing that would have to be saved."""
        self._disconnect()
        if self._process is not None:
            self._process.kill()
            # Giving back a gigabyte takes the system a while.
            await asyncio.to_thread(self._process.wait)

    def send(self, frame: bytes) -> None:
        """Send a frame, now or when there is room."""
        if self._socket is None:
            return
        self._unsent.append(memoryview(frame))
        if len(self._unsent) == 1 and not self._sent(self._socket):
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        assert self._socket is not None
        if self._sent(self._socket):
            self._loop.remove_writer(self._socket)

    def _sent(self, ours: socket.socket) -> bool:
        """Send what the socket takes; True when nothing is left."""
        unsent = self._unsent
        try:
            while unsent:
                sent = ours.send(unsent[0])
                if sent < len(unsent[0]):
                    unsent[0] = unsent[0][sent:]
                else:
                    unsent.popleft()
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # it is gone; reading says so, after the answers that are still there
            unsent.clear()
        return True

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            size = self._socket.recv_into(self._chunk)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._lost()
            return
        received = self._received
        received += memoryview(self._chunk)[:size]
        start = 0
        while len(received) >= start + FRAME.size:
            end = start + FRAME.size + FRAME.unpack_from(received, start)[0]
            if len(received) < end:
                break
            message = bytes(received[start + FRAME.size : end])
            start = end
            if message:
                self._parser.answered(self, message)
            elif not self._ready.done():
                self._ready.set_result(None)
        del received[:start]

    def _lost(self) -> None:
        self._disconnect()
        if not self._ready.done():
            self._ready.set_exception(ConnectionError("it ended at once"))
        self._parser.lost(self)

    def _disconnect(self) -> None:
        ours, self._socket = self._socket, None
        if ours is not None:
            self._loop.remove_reader(ours)
            self._loop.remove_writer(ours)
            ours.close()


def _launch(theirs: socket.socket, program: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the interpreter anew, with this one's module path: a fork would copy the worker's memory and locks."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", program[0], str(theirs.fileno()), str(os.getpid()), *program[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **_MALLOC, "PYTHONPATH": path},
        pass_fds=[theirs.fileno()],
    )
