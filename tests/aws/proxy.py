"""A proxy in front of the emulator that fails requests by operation: what AWS does on a bad day, on the wire."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

import aiohttp
from aiohttp import web

Answer = dict[str, Any]
Forward = Callable[[], Awaitable[Answer]]
Rule = Callable[[dict[str, Any], Forward], Awaitable[Answer | None]]
"""Given a request and a way to forward it: the answer, or None to let it through and leave its answer alone."""


class Dropped(Exception):
    """Raised by a rule: close the connection without an answer."""


class Failed(Exception):
    """Raised by a rule: answer with this status and error code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Proxy:
    """Rules by operation (`SendMessageBatch`); each is used up after `times` requests."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._rules: dict[str, list[Rule]] = {}
        self.seen: list[str] = []
        self.endpoint = ""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=16 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.endpoint = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def on(self, operation: str, rule: Rule, times: int = 1) -> None:
        self._rules.setdefault(operation, []).extend([rule] * times)

    def hang_up(self) -> None:
        """Close all connections of clients, without a word."""
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            assert connection.transport is not None
            connection.transport.abort()

    def heal(self) -> None:
        """Forget all rules."""
        self._rules.clear()

    def drop(self, operation: str, times: int = 1) -> None:
        """The request is not executed, and the connection closes."""

        async def rule(_: dict[str, Any], __: Forward) -> Answer:
            raise Dropped

        self.on(operation, rule, times)

    def lose(self, operation: str, times: int = 1) -> None:
        """The request is executed, and its answer lost."""

        async def rule(_: dict[str, Any], forward: Forward) -> Answer:
            await forward()
            raise Dropped

        self.on(operation, rule, times)

    def fail(self, operation: str, status: int, code: str, times: int = 1) -> None:
        async def rule(_: dict[str, Any], __: Forward) -> Answer:
            raise Failed(status, code)

        self.on(operation, rule, times)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        operation = request.headers.get("X-Amz-Target", "?.?").rpartition(".")[2]
        self.seen.append(operation)
        body = await request.read()
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in ("host", "content-length")
        }

        async def send(data: bytes) -> tuple[int, bytes, str]:
            async with self._session.request(
                request.method, self._target + request.path_qs, data=data, headers=headers
            ) as answer:
                return answer.status, await answer.read(), answer.headers.get("Content-Type", "")

        async def forward() -> Answer:
            status, data, _ = await send(json.dumps(asked).encode())
            assert status == 200, data
            result: Answer = json.loads(data)
            return result

        rules = self._rules.get(operation)
        if rules:
            rule = rules.pop(0)
            asked = json.loads(body)
            try:
                told = await rule(asked, forward)
            except Dropped:
                assert request.transport is not None
                request.transport.close()
                return web.Response()
            except Failed as error:
                text = json.dumps({"__type": error.code, "message": "so the test wants it"})
                return web.Response(status=error.status, text=text, content_type="application/x-amz-json-1.0")
            if told is not None:
                return web.Response(text=json.dumps(told), content_type="application/x-amz-json-1.0")
        status, data, kind = await send(body)
        return web.Response(status=status, body=data, headers={"Content-Type": kind})
