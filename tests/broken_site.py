"""A site in this process whose broken pages answer 500 until it is mended."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Page = Callable[[], bytes]


class BrokenSite:
    """`broken` paths answer 500 as long as `mended` is False. A page is a function of no argument."""

    def __init__(self, origin: str, pages: Mapping[str, Page], broken: frozenset[str]) -> None:
        self.origin, self.pages, self.broken = origin, dict(pages), broken
        self.mended = False
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def url(self, path: str = "/") -> str:
        return self.origin + path

    def hold(self, path: str) -> threading.Event:
        """Let whoever asks for a page wait until the event is set."""
        event, page = threading.Event(), self.pages[path]

        def late() -> bytes:
            event.wait(30)
            return page()

        self.pages[path] = late
        return event

    def answer(self, path: str) -> tuple[int, bytes]:
        with self._lock:
            self.asked[path] += 1
        if path in self.broken and not self.mended:
            return 500, b"out of order"
        return (200, self.pages[path]()) if path in self.pages else (404, b"")


@contextmanager
def broken_site(pages: Mapping[str, str | Page], *broken: str) -> Iterator[BrokenSite]:
    """Serve pages until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = site.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            if status == 500:
                self.send_header("Retry-After", "0")  # the next attempt comes at once
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing: what was asked is counted."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        origin = f"http://127.0.0.1:{server.server_address[1]}"
        made = {
            path: (lambda text=page: text.encode()) if isinstance(page, str) else page for path, page in pages.items()
        }
        site = BrokenSite(origin, made, frozenset(broken))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
