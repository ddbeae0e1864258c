"""Serve the demo site: `python -m crawler.demo.site`, or `running()` for a process of its own.

The site has about 300 pages on the hosts a.localhost, b.localhost and c.localhost, all on one port of 127.0.0.1
(RFC 6761: names under localhost are loopback). It is made anew in memory at each start.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from crawler.demo.content import PAGES, Answer, Site
from crawler.demo.plan import Place, Trait
from crawler.demo.server import Respond, Server


@contextmanager
def running(
    *, pages: int = PAGES, port: int = 0, delay_ms: int = 0, retry_503: int = 0, log: Path | None = None
) -> Iterator[Site]:
    """Run the server in a process of its own; the site as it is served, with its seeds and its truth.

    RuntimeError when it does not start. The server ends with the block, or with this process, however that ends.
    """
    command = [sys.executable, "-m", "crawler.demo.site", "--port", str(port), "--pages", str(pages)]
    command += ["--delay", str(delay_ms), "--retry-503", str(retry_503)]
    command += ["--log", str(log)] if log else []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline().split()
            if not ready:
                raise RuntimeError("the demo site did not start")
            yield Site(urlsplit(ready[-1]).port or 0, pages)
        finally:
            process.terminate()


async def serve(port: int, pages: int, delay_ms: int, retry_503: int, log: Path | None) -> None:
    """Serve until SIGTERM or SIGINT, or until a pipe on stdin closes. Prints one line with the seeds when ready.

    OSError when the port is taken.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if stat.S_ISFIFO(os.fstat(0).st_mode):
        loop.add_reader(0, _read_stdin, stop)
    with contextlib.ExitStack() as opened:
        listening = opened.enter_context(socket.create_server(("127.0.0.1", port)))
        # Appends line by line: a reader sees whole lines at once and may truncate the file to begin anew.
        lines = opened.enter_context(log.open("a", buffering=1)) if log else None
        site = Site(listening.getsockname()[1], pages)
        respond = _flaky(site, retry_503) if retry_503 else site.answer
        listener = await Server(respond, delay=delay_ms / 1000, log=lines).start(listening)
        print(f"serving {pages} pages on", *site.seeds, flush=True)
        await stop.wait()
        listener.close()


def _read_stdin(stop: asyncio.Event) -> None:
    if not os.read(0, 4096):
        stop.set()


def _flaky(site: Site, times: int) -> Respond:
    """Answers as the site does, but the flaky pages answer 503 `times` times first."""
    failed: Counter[Place] = Counter()

    def respond(host: str, target: str) -> Answer:
        place = site.find(host, target)
        if place is None or place.trait is not Trait.FLAKY or failed[place] >= times:
            return site.answer(host, target)
        failed[place] += 1
        return Answer(503, b"later\n", "text/plain")

    return respond


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m crawler.demo.site", description="Serve the demo site on loopback.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--pages", type=int, default=PAGES, help="HTML pages (default: %(default)s)")
    parser.add_argument("--delay", type=int, default=0, metavar="MS", help="milliseconds before each answer")
    parser.add_argument("--retry-503", type=int, default=0, metavar="N", help="some pages answer 503 N times first")
    parser.add_argument("--log", type=Path, metavar="FILE", help="access log: Unix time, host, status, target")
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.pages, options.delay, options.retry_503, options.log))


if __name__ == "__main__":
    main()
