"""A way to a server that can be cut: what goes through it meets a network that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self


class Relay:
    """Listens on loopback and passes bytes on. `deaf` passes requests on and drops the answers."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self.port = 0
        self.deaf = False
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.down()
        await asyncio.gather(*self._serving)

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Refuse new connections. Those that stand go on."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._serving.add(task)
        await task

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        # Deaf: the server has done it when it begins to answer.
        back: Coroutine[Any, Any, object] = upstream_reader.read(1) if self.deaf else _pump(upstream_reader, writer)
        ways: list[asyncio.Task[Any]] = [asyncio.create_task(_pump(reader, upstream_writer)), asyncio.create_task(back)]
        _, other = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in other:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, upstream_writer):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
