"""Serve the demo site: `python -m crawler.demo.site`, or `running()` for a process of its own.

The site has about 300 pages on the hosts a.localhost, b.localhost and c.localhost, all on one port of 127.0.0.1
(RFC 6761: names under localhost are loopback). It is made anew in memory at each start.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from crawler.demo.content import PAGES, Site
from crawler.demo.plan import Place, Trait
from crawler.demo.server import Answer, Respond, serve


@contextmanager
def running(
    *,
    pages: int = PAGES,
    port: int = 0,
    delay_ms: int = 0,
    retry_503: int = 0,
    edited: str = "",
    log: Path | None = None,
) -> Iterator[Site]:
    """Run the server in a process of its own; the site as it is served, with its seeds and its truth.

    RuntimeError when it does not start. The server ends with the block, or with this process, however that ends.
    """
    command = [sys.executable, "-m", "crawler.demo.site", "--port", str(port), "--pages", str(pages)]
    command += ["--delay", str(delay_ms), "--retry-503", str(retry_503)]
    command += ["--edited", edited] if edited else []
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


async def serve_site(
    port: int, pages: int, *, delay_ms: int = 0, retry_503: int = 0, edited: str = "", log: Path | None = None
) -> None:
    """Serve the site until told to stop; prints its seeds when ready. OSError when the port is taken."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        site = Site(listening.getsockname()[1], pages)
        respond = _flaky(site, retry_503) if retry_503 else site.answer
        if edited:
            respond = _edited(site, respond, edited)
        ready = f"serving {pages} pages on {' '.join(site.seeds)}"
        await serve(listening, respond, ready=ready, delay=delay_ms / 1000, log=log)


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


def _edited(site: Site, respond: Respond, url: str) -> Respond:
    """Answers alike, but one page has got a line more."""

    def respond_edited(host: str, target: str) -> Answer:
        answer = respond(host, target)
        if site.canonical(site.origin(host) + target) == url:
            return replace(answer, body=answer.body + b"<p>This was added later.\n")
        return answer

    return respond_edited


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m crawler.demo.site", description="Serve the demo site on loopback.")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--pages", type=int, default=PAGES, help="HTML pages (default: %(default)s)")
    parser.add_argument("--delay", type=int, default=0, metavar="MS", help="milliseconds before each answer")
    parser.add_argument("--retry-503", type=int, default=0, metavar="N", help="some pages answer 503 N times first")
    parser.add_argument("--edited", default="", metavar="URL", help="a page that has got a line more")
    parser.add_argument("--log", type=Path, metavar="FILE", help="access log: Unix time, host, status, target")
    given = parser.parse_args()
    try:
        options = {"delay_ms": given.delay, "retry_503": given.retry_503, "edited": given.edited, "log": given.log}
        asyncio.run(serve_site(given.port, given.pages, **options))
    except (OSError, ValueError) as error:  # the port is taken, the log cannot be written, the site is too small
        sys.exit(f"demo site: {error}")


if __name__ == "__main__":
    main()
