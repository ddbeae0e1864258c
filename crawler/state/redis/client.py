"""The connection to a Redis: a script a call, repeated through a restart for a while, its errors in our words."""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any, TypeAlias

import msgspec
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from crawler.errors import StateUnavailable, UsageError
from crawler.state.redis.address import Address
from crawler.state.redis.clock import Clock

PATIENCE = 10.0
"""Seconds after which a call that got no answer, repeated or not, is unavailable."""

_ANSWER_SECONDS = 4.0
"""For one attempt: a connection that died unnoticed is left then."""

_SHORT_PAUSE, _LONG_PAUSE = 0.02, 1.0
_CONNECTIONS = 8

_PARTS = re.compile(r"^-- parts +(.+)$", re.MULTILINE)

_PASSING = (ConnectionError, ReadOnlyError, ClusterDownError, TryAgainError)
_PASSING_WORDS = ("BUSY", "NOREPLICAS")

Request: TypeAlias = Sequence[object]

_encode = msgspec.msgpack.Encoder().encode


class Script(msgspec.Struct, frozen=True):
    """A script's text, and the name under which the server knows it once it was run."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script of that name in this folder, behind what all share and the parts that it says it needs.

    A server runs all of the text at every call, so it is not given parts that do nothing.
    """
    own = _source(name)
    named = _PARTS.search(own)
    parts = named[1].split(", ") if named else []
    text = "\n".join([*map(_source, ("common", *parts)), own])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _source(name: str) -> str:
    return (files("crawler.state.redis") / f"{name}.lua").read_text("utf-8")


def _message(now: float | None, request: Request) -> bytes:
    try:
        return _encode((now, *request))
    except UnicodeEncodeError as error:  # a crawl, host or worker named by bytes that were no UTF-8
        raise UsageError(f"{error.object!r} is not text") from None


class Server:
    """Runs scripts. Many tasks may use it at once."""

    def __init__(self, address: Address, clock: Clock) -> None:
        self._address, self._clock = address, clock
        self._key = f"{{{address.name}}}:state"
        self._redis = self._connect()
        self._elsewhere = False
        self._closed = False

    async def run(self, name: str, request: Request, *blobs: bytes, repeated: Request | None = None) -> Any:
        """Run a script, again (with `repeated` for a request) when an answer may have been lost.

        Every script may be run again. Raises StateUnavailable.
        """
        now = self._clock.now()
        messages = chain([request], repeat(request if repeated is None else repeated))
        source = script(name)

        async def attempt(redis: Redis) -> Any:
            arguments = (_message(now, next(messages)), *blobs)
            try:
                return await redis.evalsha(source.sha, 1, self._key, *arguments)
            except NoScriptError:  # new, restarted or flushed: nothing was run
                return await redis.eval(source.text, 1, self._key, *arguments)

        return await self._insist(attempt)

    async def info(self, section: str) -> dict[str, Any]:
        """A section of what the server says of itself. Raises StateUnavailable."""

        async def attempt(redis: Redis) -> Any:
            return await redis.info(section)

        found: dict[str, Any] = await self._insist(attempt)
        return found

    async def setting(self, name: str) -> str | None:
        """A value of the server's configuration; None when it shows none to this user. Raises StateUnavailable."""

        async def attempt(redis: Redis) -> Any:
            try:
                return (await redis.config_get(name)).get(name)
            except ResponseError:
                return None

        value = await self._insist(attempt)
        return value.decode() if isinstance(value, bytes) else value

    async def close(self) -> None:
        """Let go of the connections. Closing again does nothing."""
        self._closed = True
        await self._redis.aclose()

    # ------------------------------------------------------------ attempts

    async def _insist(self, attempt: Callable[[Redis], Awaitable[Any]]) -> Any:
        """Attempt until there is an answer, through a restart, a failover or a moved slot, or until PATIENCE ends."""
        pause, problem = _SHORT_PAUSE, "no answer"
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._closed:
                    redis = self._redis
                    try:
                        async with asyncio.timeout(_ANSWER_SECONDS):
                            return await attempt(redis)
                    except TimeoutError:
                        problem = "no answer"
                    except MovedError as error:  # in a cluster another node serves our slot
                        await self._reconnect(redis, error.host, error.port)
                    except AuthenticationError as error:
                        raise self._unavailable(f"it refuses the user or the password: {error}") from None
                    except _PASSING as error:
                        problem = "connection refused" if "Connect call failed" in str(error) else str(error)
                        if self._elsewhere or isinstance(error, ReadOnlyError):
                            await self._reconnect(redis)  # who is the master now?
                    except ResponseError as error:
                        problem = str(error)
                        if not problem.startswith(_PASSING_WORDS):
                            raise self._refusal(error) from None
                    except RedisError as error:
                        raise self._unavailable(str(error)) from None
                    await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                    pause = min(pause * 2, _LONG_PAUSE)
        except TimeoutError:
            raise self._unavailable(problem) from None
        raise StateUnavailable(f"the crawl state {self._address.shown} was closed")

    def _connect(self, host: str | None = None, port: int | None = None) -> Redis:
        pool = BlockingConnectionPool.from_url(
            self._address.url,
            max_connections=_CONNECTIONS,
            timeout=None,
            retry=Retry(NoBackoff(), 0),  # ours: one that knows what may have happened
            socket_timeout=None,  # ours: the client's costs a task a call, and can swallow a cancellation
            socket_connect_timeout=None,
            protocol=2,
        )
        if host is not None:
            pool.connection_kwargs.update(host=host, port=port)
        return Redis.from_pool(pool)

    async def _reconnect(self, redis: Redis, host: str | None = None, port: int | None = None) -> None:
        """Leave this connection for one to the address, or to a node that was named. Calls under way are repeated."""
        if redis is self._redis:
            self._redis, self._elsewhere = self._connect(host, port), host is not None
            await redis.aclose()

    # ------------------------------------------------------------ words

    def _unavailable(self, problem: str) -> StateUnavailable:
        return StateUnavailable(f"the Redis at {self._address.shown} does not serve: {problem}")

    def _refusal(self, error: ResponseError) -> StateUnavailable:
        text = str(error)
        if isinstance(error, OutOfMemoryError) or "OOM" in text:
            return self._unavailable("its memory is full (maxmemory): nothing is lost, give it more")
        if "MISCONF" in text:
            return self._unavailable("it cannot save to its disk and takes no writes: see its log")
        if isinstance(error, NoPermissionError):
            return self._unavailable(f"this user has not the right to: {text}")
        return self._unavailable(text)
