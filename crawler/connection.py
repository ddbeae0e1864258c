"""aiohttp's connections, with what a crawler needs to know about them, and some behaviours put right.

- A socket is made only to an address that may be connected to, literal addresses included.
- A reply with bytes behind its body is still a reply, and a body that breaks ends there. aiohttp lets the parser's
  complaint take the whole reply in the first case, and its reader wait for ever in the second.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import AddrInfoType, Connection

from crawler.errors import FailureKind, FetchFailure
from crawler.guard import Refused, check_address
from crawler.head import HEAD_BYTES, Chunks, Field, end_of_head, read
from crawler.lookup import GuardedResolver

KEEP_ALIVE = 4.0
"""Seconds an idle connection is kept: enough for a host visited once a second, and less than the five after which
common servers close, so that few requests meet a connection that is just being closed."""

IDLE_HOSTS = 256
"""Hosts to which idle connections are kept at a time; a process may have a thousand files open in all."""

DNS_TTL, DNS_ENTRIES = 300, 10_000
"""Seconds and number of names for which resolved (and checked) addresses are kept."""


RECEIVE = 64 * 1024
"""Bytes read from a socket at a time. asyncio makes a buffer of that size for each read: four times more, its default,
comes fresh from the kernel every time and costs more than a page's parsing of headers."""


class Wire:
    """What happened below one request."""

    def __init__(self) -> None:
        self.fresh = False
        """A connection was made for this request."""
        self.peer = ""
        self.tried: list[str] = []
        """Addresses and ports that a connection was tried to."""
        self.answered = False
        """The server has begun to answer."""
        self.fields: tuple[Field, ...] | None = None
        """The header fields as received, where the parser saw less."""
        self._protocol: ResponseHandler | None = None
        self._transport: asyncio.Transport | None = None

    def uses(self, connection: Connection) -> None:
        """The request goes out on this connection."""
        self._protocol, self._transport = connection.protocol, connection.transport
        if isinstance(self._protocol, _Protocol):
            self._protocol.wire = self
        peer = self._transport.get_extra_info("peername") if self._transport else None
        self.peer = peer[0] if peer else ""

    def was_reset(self) -> bool:
        """Whether the connection ended by an error. Where a body ends with its connection, nothing else says so."""
        return self._protocol is not None and isinstance(self._protocol.exception(), OSError)

    def abort(self) -> None:
        """Drop the connection without another word. It must not have gone back to the pool."""
        if self._transport is not None:
            self._transport.abort()


wire: ContextVar[Wire] = ContextVar("wire")


class Connector(aiohttp.TCPConnector):
    """Connections for a fetcher, which limits the number in use itself."""

    def __init__(self, resolver: GuardedResolver, allow_private: bool) -> None:
        super().__init__(
            resolver=resolver,
            limit=0,
            ttl_dns_cache=DNS_TTL,
            dns_cache_max_size=DNS_ENTRIES,
            keepalive_timeout=KEEP_ALIVE,
            socket_factory=functools.partial(_socket, allow_private),
        )
        self._factory = functools.partial(_protocol, self._loop)

    async def connect(self, *args: Any, **kwargs: Any) -> Connection:
        """Get a connection and note it for the request at hand."""
        connection = await super().connect(*args, **kwargs)
        wire.get().uses(connection)
        return connection

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close or len(self._conns) >= IDLE_HOSTS)


def _socket(allow_private: bool, address: AddrInfoType) -> socket.socket:
    reason = check_address(str(address[4][0]), allow_private)
    if reason is not None:
        raise Refused(reason)
    this = wire.get()
    this.fresh = True
    host, port = str(address[4][0]), address[4][1]
    this.tried.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    family, kind, protocol = address[:3]
    return socket.socket(family, kind, protocol)


class _Protocol(ResponseHandler):
    """Shows the parser a header section by itself, mended where it needs to be, so that the reply is handed on before
    its body can offend; and a chunked body made regular. Interim replies (1xx) are passed over."""

    wire: Wire | None = None
    """The latest request; None before the first."""
    _awaiting = False
    _chunks: Chunks | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if hasattr(transport, "max_size"):
            transport.max_size = RECEIVE

    def set_response_params(self, **params: Any) -> None:
        self._awaiting, self._chunks = True, None
        self._head, self._head_size = bytearray(), 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if not data:
            super().data_received(data)  # a body that was held back goes on
            return
        if self.wire is not None and not self._awaiting and (self._payload is None or self._payload.is_eof()):
            # Nobody asked for this, and it must not be taken for the answer to what is asked next.
            if self.transport is not None:
                self.transport.abort()
            return
        try:
            while self._awaiting and data:
                data = self._read_head(data)
        except FetchFailure as failure:
            self._awaiting = False
            if self.transport is not None:
                self.transport.abort()
            self.set_exception(failure)
            return
        if self._chunks is not None and data:
            data = self._chunks.feed(data)
            if self._chunks.unclear:
                self.force_close()
        if data:
            super().data_received(data)

    def _read_head(self, data: bytes) -> bytes:
        """Take in what belongs to the header section; answers what is left."""
        head, known = self._head, len(self._head)
        head += data if head else data.lstrip(b"\r\n")
        if self.wire is not None and head:
            self.wire.answered = True
        end = end_of_head(head, known) if head else -1
        if self._head_size + max(end, len(head) if end < 0 else 0) > HEAD_BYTES:
            raise FetchFailure(FailureKind.PROTOCOL, f"the header section is longer than {HEAD_BYTES // 1024} KiB")
        if end < 0:
            return b""
        section, rest = bytes(head[:end]), bytes(head[end:])
        found = read(section)
        if found.status == 101:
            raise FetchFailure(FailureKind.PROTOCOL, "the server switched to another protocol")
        self._head, self._head_size = bytearray(), self._head_size + end
        if found.status >= 200:
            self._awaiting = False
            if self.wire is not None:
                self.wire.fields = found.fields
            self._chunks = Chunks() if found.chunked else None
            super().data_received(found.shown)
        return rest

    def connection_lost(self, exc: BaseException | None) -> None:
        payload = self._payload
        super().connection_lost(exc)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body broke"))


def _protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Protocol(loop=loop)
