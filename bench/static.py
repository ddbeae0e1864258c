"""Serve the site where there is no nginx: `python -m bench.static FOLDER PORT LOG`."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from urllib.parse import parse_qs, unquote

from crawler.demo.server import Answer, serve

_TYPES = {
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".txt": "text/plain; charset=utf-8",
    ".xml": "application/xml",
}


class Files:
    """Answers from one folder a host, as `nginx.conf.template` does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, host: str, target: str) -> Answer:
        path, _, query = target.partition("?")
        if path.startswith("/go/"):
            return Answer(301, location=target.removeprefix("/go"))
        if path == "/view":
            path = f"/view/{parse_qs(query).get('id', [''])[0]}.html"
        elif path.endswith("/"):
            path += "index.html"
        home = self._folder / host
        file = (home / unquote(path).lstrip("/")).resolve()
        if not file.is_relative_to(home) or not file.is_file():
            return Answer(404, b"not found\n", "text/html")
        kind = "application/pdf" if path.startswith("/download/") else "text/html; charset=utf-8"
        return Answer(200, file.read_bytes(), _TYPES.get(file.suffix, kind))


def main(folder: str, port: str, log: str) -> None:
    with socket.create_server(("127.0.0.1", int(port))) as listening:
        asyncio.run(serve(listening, Files(Path(folder).resolve()), ready="ready", log=Path(log)))


if __name__ == "__main__":
    main(*sys.argv[1:])
