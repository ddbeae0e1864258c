"""A site of good pages among hostile ones, on one port and many host names, in a thread of its own."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.hostile.grammar import Act, Reply, broken, shown, slow

TICK = 0.05
HOSTS = 12
"""Hosts with hostile pages, and as many with pages that do not end."""

ROBOTS = b"\xef\xbb\xbfnonsense\r\nUser-agent: *\r\nDisallow: /forbidden\r\n" + b"\xff\0" * 100
LINKS = 12
"""Hostile pages that a good one links to."""


class HostileSite:
    """`good` URLs have the digest of their body; `kept` URLs, which come broken, their title; `bad` URLs have nothing
    that could be had. What a URL answers is decided by the seed alone."""

    def __init__(self, port: int, seed: int, *, good: int, hostile: int, slow: int) -> None:
        self.origin = f"http://good.localhost:{port}"
        self.asked: Counter[str] = Counter()
        self._replies: dict[str, Reply] = {}
        self.good: dict[str, str] = {}
        self.kept: dict[str, str] = {}
        self.bad: set[str] = set()
        self.forbidden: set[str] = set()
        self._bodies: dict[str, bytes] = {}
        for number in range(hostile):
            self._hostile(port, number, random.Random(f"{seed} {number}"))
        for number in range(slow):
            url = f"http://slow{number % HOSTS}.localhost:{port}/slow/{number}"
            self._replies[url] = slow_reply(random.Random(f"{seed} slow {number}"), self.origin)
            self.bad.add(url)
        self._write_good(good)

    def _hostile(self, port: int, number: int, rng: random.Random) -> None:
        url = f"http://h{number % HOSTS}.localhost:{port}/hostile/{number}"
        title = f"page {number}"
        make = shown if rng.random() < 0.6 else broken
        reply = self._replies[url] = make(rng, title, self.origin)
        if reply.kept:
            self.kept[url] = title
        else:
            self.bad.add(url)
        if number % 10 == 0:
            self.forbidden.add(f"http://h{number % HOSTS}.localhost:{port}/forbidden/{number}")

    def _write_good(self, good: int) -> None:
        others = sorted([*self._replies, *self.forbidden])
        random.Random(0).shuffle(others)
        share = -(-len(others) // good)
        for number in range(good):
            links = [f"/good/{number * 2 + 1}", f"/good/{number * 2 + 2}"]
            links = [link for link, at in zip(links, (1, 2), strict=True) if number * 2 + at < good]
            links += others[number * share : (number + 1) * share]
            anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links)
            body = f"<!doctype html><title>good {number}</title>{anchors}{'text ' * (number % 500)}".encode()
            url = f"{self.origin}/good/{number}"
            self._bodies[url] = body
            self.good[url] = "sha256:" + hashlib.sha256(body).hexdigest()

    @property
    def seed(self) -> str:
        """The page from which all others are found."""
        return f"{self.origin}/good/0"

    def answers(self, url: str) -> str:
        """The beginning of what a URL answers, for people."""
        return repr(self._replies[url].steps)[:1000]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answer((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"), reader, writer):
                    pass
        finally:
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection is good for another."""
        target = head.split(" ", 2)[1]
        host = head.partition("\r\nHost: ")[2].partition("\r\n")[0]
        url = f"http://{host}{target}"
        self.asked[url] += 1
        if url in self._bodies:
            return await _well(writer, self._bodies[url])
        if target == "/robots.txt":
            return await _well(writer, ROBOTS)
        reply = self._replies.get(url)
        if reply is None:
            return await _well(writer, b"nothing here", "404 Not Found")
        if reply.flaky and self.asked[url] == 1:
            reply = Reply([Act.RESET], kept=False)
        for step in reply.steps:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            elif step is Act.TICK:
                await asyncio.sleep(TICK)
            elif step is Act.WAIT:
                await reader.read()
            else:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        return False


def slow_reply(rng: random.Random, good: str) -> Reply:
    return slow(rng, "", good)


async def _well(writer: asyncio.StreamWriter, body: bytes, status: str = "200 OK") -> bool:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    return True


@contextmanager
def hostile_site(seed: int, *, good: int, hostile: int, slow: int = 0) -> Iterator[HostileSite]:
    """Serve until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    site = HostileSite(listener.getsockname()[1], seed, good=good, hostile=hostile, slow=slow)
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with await asyncio.start_server(site.talk, sock=listener, limit=1 << 20):
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()

    def run() -> None:
        asyncio.set_event_loop(loop)
        task = loop.create_task(serve())
        started.append(task)
        ready.set()
        loop.run_until_complete(task)
        rest = asyncio.all_tasks(loop)
        for each in rest:
            each.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.close()

    started: list[asyncio.Task[None]] = []
    ready = threading.Event()
    thread = threading.Thread(target=run, name="hostile site")
    thread.start()
    ready.wait()
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(started[0].cancel)
        thread.join()
