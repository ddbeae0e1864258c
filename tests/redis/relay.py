"""A relay between a client and a Redis that loses answers: the server has done its work, and nobody learns of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress


class Relay:
    """Listens on `port`. `losing` is how many answers to scripts are still to be lost, each with its connection."""

    def __init__(self, target: int) -> None:
        self.losing = 0
        self.lost = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def address(self, original: str) -> str:
        """The address of the same state through here."""
        return original.replace(str(self._target), str(self.port))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        doomed = False

        def asked(data: bytes) -> bool:
            nonlocal doomed
            doomed = doomed or (self.losing > 0 and b"\r\nEVAL" in data)
            return True

        def answered(_: bytes) -> bool:
            if doomed:
                self.losing -= 1
                self.lost += 1
            return not doomed

        pumps = {
            asyncio.create_task(_pump(reader, back, asked)),
            asyncio.create_task(_pump(there, writer, answered)),
        }
        self._tasks |= pumps
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.close()
        await asyncio.wait(pumps)
        self._tasks -= pumps


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, passes: Callable[[bytes], bool]) -> None:
    with suppress(ConnectionError, asyncio.CancelledError):
        while (data := await source.read(1 << 16)) and passes(data):
            sink.write(data)
            await sink.drain()


@asynccontextmanager
async def relaying(target: int) -> AsyncIterator[Relay]:
    """A relay to a port of the loopback."""
    relay = Relay(target)
    relay._server = await asyncio.start_server(relay._serve, "127.0.0.1", 0)
    try:
        yield relay
    finally:
        relay._server.close()
        for task in relay._tasks:
            task.cancel()
        await relay._server.wait_closed()
