"""A small site with all that the saved queries ask about, and a crawl of it by the real command."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import command

CRAWL = "small.site-1"

HOPS = 12
"""Redirects in a row, more than the query follows."""

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt.exe\u2066 end"
"""A title that would command a terminal: escape sequences, one of them in a single character, and turned text."""

_LINKS = (
    "/a /b /same/1 /same/2 /same/3 /gone /gone/too /broken /closed/1 /closed/2 /evil /hop/0 /hop/4 /loop/1 /self /away "
    "/view?b=2&a=1 /spelled /tracked http://two.localhost:{port}/ http://two.localhost:{port}/a http://two.localhost:{port}/closed"
)

_TO = {
    "/loop/1": "/loop/2",
    "/loop/2": "/loop/1",
    "/self": "/self",
    "/away": "http://elsewhere.localhost:{port}/",
    # The key of a page, which is not how it was found; and a third way to spell it.
    "/spelled": "/view?a=1&b=2",
    "/tracked": "/view?b=2&a=1&utm_source=x",
    **{f"/hop/{hop}": f"/hop/{hop + 1}" for hop in range(HOPS)},
}


def _answer(host: str, path: str, port: int) -> tuple[int, dict[str, str], str]:
    if path == "/robots.txt":
        return 200, {"Content-Type": "text/plain"}, "User-agent: *\nDisallow: /closed\n"
    if path in _TO:
        return 302, {"Location": _TO[path].format(port=port)}, ""
    if path.startswith("/gone"):
        return 404, {}, "gone"
    if path == "/broken":
        return 500, {"Retry-After": "0"}, "out of order"
    if path == "/" and host == "one.localhost":
        links = "".join(f'<a href="{link}">x</a>' for link in _LINKS.format(port=port).split())
        return 200, {}, f"<title>Start</title>{links}"
    if path.startswith("/same/"):
        return 200, {}, "<title>The same</title>" + "same " * 100
    title = EVIL if path == "/evil" else f"{host} {path}"
    return 200, {}, f'<title>{title}</title><a href="/gone">gone</a>{"text " * len(path)}'


@contextmanager
def small_site() -> Iterator[int]:
    """Serve it on every name below localhost until the block ends; its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            host = self.headers["Host"].partition(":")[0]
            status, headers, text = _answer(host, self.path, server.server_address[1])
            body = text.encode()
            self.send_response(status)
            for name, value in ({"Content-Type": "text/html; charset=utf-8"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def crawl(out: Path) -> list[dict[str, Any]]:
    """Crawl the site into a folder; the rows."""
    with small_site() as port:
        seeds = [f"http://{host}.localhost:{port}/" for host in ("one", "two")]
        run = command.run(
            *("crawl", *seeds, "--out", str(out), "--crawl", CRAWL, "--processes", "1"),
            *("--rate", "0", "--allow-private", "--max-attempts", "2"),
        )
    assert run.returncode == 0, run.stderr
    return command.rows(out)
