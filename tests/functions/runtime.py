"""Lambda's own runtime interface client, with a Runtime API that this process serves it.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.emulator import ACCOUNT, REGION

PATIENCE = 60.0
"""Seconds for an answer."""


class Runtime:
    """A function's process. `invoke` it; between two calls it can be frozen."""

    def __init__(
        self, process: subprocess.Popen[bytes], asked: queue.Queue[Any], told: queue.Queue[Any], log: Path
    ) -> None:
        self.process, self._asked, self._told, self._log = process, asked, told, log
        self._calls = 0

    @property
    def output(self) -> str:
        """What the process has printed."""
        return self._log.read_text()

    def invoke(self, event: Mapping[str, Any], seconds: float = 60.0) -> tuple[str, Any]:
        """What the function answers within its timeout: ("response", value) or ("error", its description)."""
        self._calls += 1
        self._asked.put((f"call-{self._calls}", event, int((time.time() + seconds) * 1000)))
        try:
            kind, body = self._told.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError(f"no answer: {self.output}") from None
        return kind, body

    def kill(self) -> None:
        """End the process, as when it runs out of memory; the call under way has no answer then."""
        self.process.kill()
        self._told.put(("killed", None))

    def freeze(self) -> None:
        """Stop the process and its children, as Lambda does between calls."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)


@contextmanager
def running(handler: str, folder: Path, env: Mapping[str, str], log: Path) -> Iterator[Runtime]:
    """Run a handler from a folder as Lambda would, with nothing but these variables."""
    asked: queue.Queue[Any] = queue.Queue()
    told: queue.Queue[Any] = queue.Queue()

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                name, event, deadline = asked.get(timeout=PATIENCE)
            except queue.Empty:
                return
            self._answer(
                200,
                json.dumps(event).encode(),
                {
                    "Content-Type": "application/json",
                    "Lambda-Runtime-Aws-Request-Id": name,
                    "Lambda-Runtime-Deadline-Ms": str(deadline),
                    "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:under-test",
                    "Lambda-Runtime-Trace-Id": "Root=1-0-0",
                },
            )

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.put((self.path.rpartition("/")[2], body))
            self._answer(202, b"{}", {})

        def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", "awslambdaric", handler],
            cwd=folder,
            env={
                **env,
                "PATH": os.environ["PATH"],
                # The folder's own libraries come before those beside the runtime client.
                "PYTHONPATH": str(folder),
                "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_port}",
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024",
                "AWS_LAMBDA_LOG_FORMAT": "JSON",
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Runtime(process, asked, told, log)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        server.shutdown()
        server.server_close()
