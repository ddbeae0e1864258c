"""A way to a server that can be cut: what goes through it meets a network that fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self


class Relay:
    """Listens on loopback and passes bytes on. `deaf` passes requests on and drops the answers."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self.port = 0
        self.deaf = False

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections. Those that stand end with their requests."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        deaf = self.deaf
        with suppress(ConnectionError):
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
            there = asyncio.create_task(_pump(reader, upstream_writer))
            if deaf:
                # The server has done it when it begins to answer.
                await upstream_reader.read(1)
            else:
                await _pump(upstream_reader, writer)
            there.cancel()
            with suppress(asyncio.CancelledError):
                await there
            upstream_writer.close()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
