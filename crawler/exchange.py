"""One GET and its answer over aiohttp's connections and parser, without its session, requests and responses: a crawler
uses little of what those can do, and they took a quarter of a worker's time on the event loop.

A request is repeated only when a connection that had been used before turned out to be closed (RFC 9112 9.3.1). aiohttp
also repeats on new connections, which would be two requests for one turn at a host's gate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from crawler.connection import Connector, wire
from crawler.head import HEAD_BYTES

ORIGINS = 4096
"""Origins of which the constant part of requests is remembered."""

_BREAKS = re.compile(r"[\r\n\0]")


class Answer:
    """A reply whose header section is there. Its connection goes back to the pool when `content` has been read to its
    end; `close` gives it up before."""

    def __init__(self, connection: Connection, message: RawResponseMessage, content: StreamReader) -> None:
        self.status, self.reason, self.version = message.code, message.reason, message.version
        self.headers, self.raw_headers = message.headers, message.raw_headers
        self.content = content
        self._connection = connection
        content.on_eof(connection.release)

    def close(self) -> None:
        """Drop the connection, unless it has gone back to the pool."""
        self._connection.close()


class _Origin(NamedTuple):
    """`route` tells the connector where to connect, `fields` is the header section of a request without what is its
    own."""

    route: aiohttp.ClientRequest
    fields: str


class Client:
    """Sends the requests of a fetcher, with `headers` in each. `timeout` is of connecting."""

    def __init__(self, connector: Connector, headers: Mapping[str, str], timeout: aiohttp.ClientTimeout) -> None:
        self._connector, self._headers, self._timeout = connector, headers, timeout
        self._origin = lru_cache(maxsize=ORIGINS)(self._new_origin)

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        await self._connector.close()

    async def get(self, origin: str, target: str, headers: Iterable[tuple[str, str]]) -> Answer:
        """GET `target` of an origin (`scheme://host[:port]`); redirects are not followed. Raises what aiohttp does."""
        this = wire.get()
        where = self._origin(origin)
        request = f"GET {target} HTTP/1.1\r\n{where.fields}{_lines(headers)}\r\n".encode()
        try:
            return await self._exchange(where.route, request)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if this.fresh or this.answered:
                raise
        return await self._exchange(where.route, request)

    async def _exchange(self, route: aiohttp.ClientRequest, request: bytes) -> Answer:
        try:
            connection = await self._connector.connect(route, [], self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        try:
            protocol = connection.protocol
            assert protocol is not None, "a connection that was just handed out"
            protocol.set_response_params(
                read_until_eof=True,
                auto_decompress=False,
                # The header section as a whole is bounded.
                max_line_size=HEAD_BYTES,
                max_field_size=HEAD_BYTES,
                max_headers=HEAD_BYTES,
            )
            if protocol.transport is None or protocol.transport.is_closing():
                raise aiohttp.ServerDisconnectedError
            protocol.transport.write(request)
            message, content = await protocol.read()
        except BaseException:
            connection.close()
            raise
        return Answer(connection, message, content)

    def _new_origin(self, origin: str) -> _Origin:
        route = aiohttp.ClientRequest("GET", URL(origin, encoded=True), headers=self._headers)
        return _Origin(route, _lines(route.headers.items()))


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    lines = [f"{name}: {value}" for name, value in headers]
    if any(_BREAKS.search(line) for line in lines):
        raise ValueError("a header field would become several")
    return "".join(f"{line}\r\n" for line in lines)
