"""Sessions with real processes: who sends which cookie, and where a secret never shows."""

from __future__ import annotations

import gzip
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests import command
from tests.redis_server import RedisServer

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--quiet")
SECRET = "s3cret-of-the-test"


class Club:
    """A site whose pages answer 403 to who does not send the cookie that its page /login sets.

    `requests` are the path and the Cookie field of each request, in order.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None]] = []
        club = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                cookie = self.headers["Cookie"]
                club.requests.append((self.path, cookie))
                status, headers, body = club.answer(self.path, cookie)
                self.send_response(status)
                for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def answer(self, path: str, cookie: str | None) -> tuple[int, dict[str, str], bytes]:
        if path == "/robots.txt":
            return 404, {}, b""
        if path == "/login":
            links = "".join(f'<a href="/members/{number}">m</a>' for number in range(5))
            return 200, {"Set-Cookie": f"sid={SECRET}; Path=/; HttpOnly; Max-Age=3600"}, links.encode()
        return (200, {}, b"<p>welcome</p>") if f"sid={SECRET}" in (cookie or "") else (403, {}, b"<p>who are you</p>")

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def club() -> Iterator[Club]:
    site = Club()
    yield site
    site.close()


@pytest.fixture(params=["sqlite", "redis"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state.sqlite")
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.address()


def cookies_file(folder: Path, *lines: str) -> str:
    file = folder / "cookies.txt"
    file.write_text("\n".join(["# Netscape HTTP Cookie File", *lines, ""]))
    return str(file)


def statuses(folder: Path) -> dict[str, int]:
    """Status of each URL's answer, by path without its first slash."""
    return {row["url"].split("/", 3)[3]: row["status"] for row in command.rows(folder)}


def test_a_cookie_set_for_one_worker_process_is_sent_by_another(club: Club, state: str, tmp_path: Path) -> None:
    place = ("--state", state, "--store", str(tmp_path / "store"))
    seeded = command.run("seed", club.url("/login"), *place, *MINE, "--max-depth", "0", "--sessions", "--ignore-robots")
    assert seeded.returncode == 0, seeded.stderr
    assert command.run("work", *place, "--until-complete", "--name", "one").returncode == 0
    assert command.run("seed", club.url("/members/area"), *place, "--quiet").returncode == 0
    assert command.run("work", *place, "--until-complete", "--name", "two").returncode == 0
    assert club.requests == [("/login", None), ("/members/area", f"sid={SECRET}")]


def test_a_fleet_of_two_goes_where_only_the_logged_in_may(club: Club, tmp_path: Path) -> None:
    result = command.run("crawl", club.url("/login"), "--out", str(tmp_path), *MINE, "--sessions", "--processes", "2")
    assert result.returncode == 0, result.stderr
    assert statuses(tmp_path) == {"login": 200, **{f"members/{number}": 200 for number in range(5)}}
    assert [cookie for path, cookie in club.requests if path == "/robots.txt"] == [None]


def test_without_sessions_no_page_is_asked_for_with_a_cookie(club: Club, tmp_path: Path) -> None:
    result = command.run("crawl", club.url("/login"), "--out", str(tmp_path), *MINE)
    assert result.returncode == 0, result.stderr
    assert len(club.requests) == 7
    assert {cookie for _, cookie in club.requests} == {None}
    assert statuses(tmp_path) == {"login": 200, **{f"members/{number}": 403 for number in range(5)}}


@pytest.mark.parametrize("kind", ["crawl", "seed"])
def test_a_file_of_cookies_opens_a_page_that_is_forbidden_without(club: Club, kind: str, tmp_path: Path) -> None:
    file = cookies_file(
        tmp_path,
        f"#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t4102444800\tsid\t{SECRET}",
        "127.0.0.1\tFALSE\t/\tFALSE\t1600000000\told\t1",
    )
    out = tmp_path / "out"
    given = ("--cookies", file, "--rate", "0", "--allow-private")
    if kind == "crawl":
        result = command.run("crawl", club.url("/members/1"), "--out", str(out), *given)
    else:
        place = ("--state", str(out / "state.sqlite"), "--store", str(out))
        out.mkdir()
        result = command.run("seed", club.url("/members/1"), *place, *given)
        assert command.run("work", *place, "--until-complete").returncode == 0
        assert command.run("merge", *place).returncode == 0
    assert result.returncode == 0, result.stderr
    assert "1 cookies for 1 sites, 1 left out because they have expired" in result.stderr
    assert club.requests[-1] == ("/members/1", f"sid={SECRET}")
    assert statuses(out) == {"members/1": 200}


def test_the_value_of_a_cookie_shows_nowhere_but_in_the_state(club: Club, tmp_path: Path) -> None:
    file = cookies_file(tmp_path, f"127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\t{SECRET}")
    out = tmp_path / "out"
    result = command.run(
        "crawl", club.url("/members/1"), "--out", str(out), "--cookies", file, "--rate", "0", "--allow-private", "-vv"
    )
    assert result.returncode == 0, result.stderr
    texts = [result.stdout, result.stderr, str(command.rows(out))]
    for name in ("status", "verify", "dead"):
        more = ("list",) if name == "dead" else ()
        again = command.run(name, *more, "--state", str(out), "-vv")
        texts += [again.stdout, again.stderr]
    texts += [gzip.decompress(path.read_bytes()).decode("latin-1") for path in out.rglob("*.gz")]
    assert len(texts) > 9
    assert not [text for text in texts if SECRET in text]


def test_a_crawl_begun_afresh_has_forgotten_its_cookies(club: Club, tmp_path: Path) -> None:
    again = ("crawl", club.url("/login"), "--out", str(tmp_path), *MINE, "--sessions", "--max-depth", "0")
    assert command.run(*again).returncode == 0
    assert command.run(*again, "--fresh", "--yes").returncode == 0
    assert [request for request in club.requests if request[0] == "/login"] == [("/login", None)] * 2


def test_what_is_written_to_the_crawls_record_is_that_there_are_sessions(club: Club, tmp_path: Path) -> None:
    file = cookies_file(tmp_path, f"127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\t{SECRET}")
    state = tmp_path / "state.sqlite"
    result = command.run(
        "seed", club.url("/members/1"), "--state", str(state), "--store", str(tmp_path), "--cookies", file
    )
    assert result.returncode == 0, result.stderr
    with sqlite3.connect(state) as db:
        ((settings,),) = db.execute("SELECT settings FROM crawl").fetchall()
    db.close()
    assert msgspec.json.decode(settings)["sessions"] is True
    assert SECRET.encode() not in settings


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file or directory"),
        (f"127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\t{SECRET}\tx\n", "line 1: 8 fields instead of 7"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_and_nothing_is_made(
    content: str | None, complaint: str, club: Club, tmp_path: Path
) -> None:
    file = tmp_path / "cookies.txt"
    if content is not None:
        file.write_text(content)
    out = tmp_path / "out"
    result = command.run("crawl", club.url("/"), "--out", str(out), *MINE, "--cookies", str(file))
    assert result.returncode == 2
    assert f"--cookies {file}" in result.stderr
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert SECRET not in result.stderr
    assert not out.exists()
    assert club.requests == []
