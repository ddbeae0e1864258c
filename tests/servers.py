"""Small TCP servers that answer byte by byte as a test says, well-behaved or not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class Peer:
    """One connection, seen from the server."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self._reader, self._writer = server, reader, writer

    async def request(self) -> bytes:
        """The next request's head, its empty line included; b"" when the client has gone."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        self.server.requests.append(head)
        self.server.times.append(time.monotonic())
        self.server.asked.set()
        return head

    async def some(self) -> bytes:
        """Some bytes, as soon as any have come; b"" when the client has gone."""
        try:
            return await self._reader.read(65536)
        except ConnectionError:
            return b""

    async def send(self, data: bytes) -> None:
        """Put bytes on the wire. Raises ConnectionError when the client has gone."""
        self._writer.write(data)
        await self._writer.drain()

    async def drip(self, data: bytes, pause: float) -> None:
        """Send byte by byte until the client goes away."""
        for at in range(len(data)):
            await self.send(data[at : at + 1])
            await asyncio.sleep(pause)

    async def gone(self) -> None:
        """Wait until the client closes."""
        try:
            while await self._reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        """Close with a TCP reset."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class Server:
    """A running server: what it was asked, and how many connections it has had and still has."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests: list[bytes] = []
        self.times: list[float] = []
        """When they came, monotonic seconds."""
        self.connections = 0
        self.open = 0
        self.asked = asyncio.Event()
        """Set once a request has come."""
        self.idle = asyncio.Event()
        """Set while no connection is open."""

    def url(self, path: str = "/") -> str:
        """URL of a path on this server."""
        return self.address + path

    @property
    def targets(self) -> list[str]:
        """The targets of all requests, in order."""
        return [head.split(b" ", 2)[1].decode() for head in self.requests]


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def serve(
    script: Script | bytes, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Serve every connection by a script, after which it is closed. Bytes are the answer to one request."""
    script_ = _answer(script) if isinstance(script, bytes) else script
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        server.connections += 1
        server.open += 1
        server.idle.clear()
        try:
            await script_(Peer(server, reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            talks.discard(task)
            server.open -= 1
            if not server.open:
                server.idle.set()

    listener = await asyncio.start_server(talk, host, port, ssl=tls)
    bound = listener.sockets[0].getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    server = Server(f"{'https' if tls else 'http'}://{name}:{bound}")
    server.idle.set()
    try:
        yield server
    finally:
        listener.close()
        for task in list(talks):
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def _answer(data: bytes) -> Script:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(data)

    return script


def reply(body: bytes = b"", *headers: str, status: str = "200 OK", version: str = "HTTP/1.1") -> bytes:
    """A correct reply, framed by its length."""
    lines = [f"{version} {status}", *headers, f"Content-Length: {len(body)}"]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n" + body


def replies(body: bytes = b"", *headers: str, status: str = "200 OK") -> Script:
    """Answers every request of a connection alike, as long as the client asks."""

    async def script(peer: Peer) -> None:
        while await peer.request():
            await peer.send(reply(body, *headers, status=status))

    return script
