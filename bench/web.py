"""Serve the measured site in processes of their own, whose CPU is not the crawler's: nginx, or the bundled server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

START_SECONDS = 20


def server_name() -> str:
    """What will serve, for the report's heading; says what is missing when it is not nginx."""
    if _nginx():
        return "nginx"
    return "the bundled Python server (no nginx here; it is slower and shares the cores: apt-get install nginx-light)"


@contextmanager
def served(site: Path, port: int, run: Path) -> Iterator[Path]:
    """Serve `site` on 127.0.0.1:`port` until the block ends; the access log, complete once the block has ended.

    SystemExit when the port is taken or the server does not start.
    """
    run.mkdir(parents=True, exist_ok=True)
    log = run / "access.log"
    log.write_bytes(b"")
    _require_free(port)
    with subprocess.Popen(_command(site, port, run, log), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            _wait_listening(process, port)
            yield log
        finally:
            process.terminate()


def _nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def _command(site: Path, port: int, run: Path, log: Path) -> list[str]:
    nginx = _nginx()
    if nginx is None:
        return [sys.executable, "-m", "bench.static", str(site), str(port), str(log)]
    template = Template(Path(__file__).with_name("nginx.conf.template").read_text())
    user = "user root;" if os.geteuid() == 0 else ""  # else the workers could not read a folder of root's
    configuration = run / "nginx.conf"
    configuration.write_text(template.substitute(root=site.resolve(), run=run.resolve(), port=port, user=user))
    return [
        nginx,
        "-p",
        str(run.resolve()),
        "-e",
        str((run / "error.log").resolve()),
        "-c",
        str(configuration.resolve()),
    ]


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _require_free(port: int) -> None:
    if _listening(port):
        sys.exit(f"bench: port {port} is taken: give another with --port")


def _wait_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _listening(port):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit("bench: the web server did not start; what it said is above")
        time.sleep(0.02)
