"""Sitemaps with real processes: what is only listed there is crawled, once, whatever is killed when."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import command
from tests.redis_server import RedisServer

pytestmark = pytest.mark.e2e

MINE = ("--rate", "0", "--allow-private", "--quiet")

Answer = bytes | tuple[int, dict[str, str], bytes] | None


class Site:
    """A site whose answers a function makes from the path; None is a 404. `paths` are those asked for, in order."""

    def __init__(self, answer: Callable[[Site, str], Answer]) -> None:
        self.paths: list[str] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.paths.append(self.path)
                answered = answer(site, self.path)
                if not isinstance(answered, tuple):
                    answered = (404, {}, b"") if answered is None else (200, {}, answered)
                status, headers, body = answered
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

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def serving(answer: Callable[[Site, str], Answer]) -> Iterator[Site]:
    site = Site(answer)
    try:
        yield site
    finally:
        site.close()


def urlset(*urls: str) -> bytes:
    entries = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return (
        f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
    )


def index(*urls: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in urls)
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


def hidden(pages: int) -> Callable[[Site, str], Answer]:
    """A home page without links; an index of two sitemaps, one of them packed, lists the others."""

    def answer(site: Site, path: str) -> Answer:
        half = pages // 2
        match path:
            case "/robots.txt":
                return b"User-agent: *\nDisallow: /secret/\nSitemap: /index.xml\n"
            case "/index.xml":
                return index(site.url("/one.xml"), "/two.xml.gz")
            case "/one.xml":
                return urlset(*(site.url(f"/page/{n}") for n in range(half)), site.url("/secret/1"))
            case "/two.xml.gz":
                return gzip.compress(
                    urlset(*(site.url(f"/page/{n}") for n in range(half, pages)), "http://127.0.0.9/elsewhere")
                )
            case "/":
                return b"<p>home</p>"
            case _ if path.startswith("/page/"):
                return f"<p>page {path}</p>".encode()
        return None

    return answer


def outcomes(folder: Path) -> dict[str, tuple[str, int, str | None]]:
    """Outcome, depth and reason of each row, by path."""
    return {
        "/" + row["url"].split("/", 3)[3]: (row["outcome"], row["depth"], row["reason"]) for row in command.rows(folder)
    }


def verified(folder: Path) -> None:
    result = command.run("verify", "--state", str(folder))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(params=["sqlite", "redis"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "state.sqlite")
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.address()


def test_pages_that_only_a_sitemap_lists_are_crawled(state: str, tmp_path: Path) -> None:
    with serving(hidden(40)) as site:
        place = ("--state", state, "--store", str(tmp_path))
        result = command.run("crawl", site.url("/"), *place, *MINE, "--processes", "2")
        assert result.returncode == 0, result.stderr
        assert site.paths[0] == "/robots.txt"
        assert set(Counter(site.paths).values()) == {1}
    assert outcomes(tmp_path) == {
        "/": ("done", 0, None),
        "/secret/1": ("skipped", 1, "robots"),
        **{f"/page/{n}": ("done", 1, None) for n in range(40)},
    }
    assert command.status("--state", state)["discovered"] == 42
    assert command.run("verify", *place).returncode == 0


def test_without_sitemaps_none_is_asked_for(tmp_path: Path) -> None:
    with serving(hidden(40)) as site:
        result = command.run("crawl", site.url("/"), "--out", str(tmp_path), *MINE, "--no-sitemaps")
        assert result.returncode == 0, result.stderr
        assert site.paths == ["/robots.txt", "/"]


def test_a_host_that_names_no_sitemap_is_asked_for_none(tmp_path: Path) -> None:
    with serving(lambda _, path: b"<p>home</p>" if path == "/" else None) as site:
        result = command.run("crawl", site.url("/"), "--out", str(tmp_path), *MINE)
        assert result.returncode == 0, result.stderr
        assert site.paths == ["/robots.txt", "/"]


def test_the_fetcher_that_reads_is_killed_and_no_page_is_lost(tmp_path: Path) -> None:
    """Three sitemaps, the second held until its reader is dead: each is asked for at most twice."""
    dead = threading.Event()
    pages = 300

    def answer(site: Site, path: str) -> Answer:
        match path:
            case "/robots.txt":
                return f"Sitemap: {site.url('/index.xml')}\n".encode()
            case "/index.xml":
                return index(*(site.url(f"/{n}.xml") for n in range(3)))
            case "/0.xml" | "/1.xml" | "/2.xml":
                if path == "/1.xml" and site.paths.count(path) == 1:
                    dead.wait(60)
                number = int(path[1])
                return urlset(*(site.url(f"/page/{n}") for n in range(number, pages, 3)))
            case "/":
                return b"<p>home</p>"
        return path.encode() if path.startswith("/page/") else None

    with serving(answer) as site:
        process = command.start(
            "crawl", site.url("/"), "--out", str(tmp_path), *MINE, "--processes", "3", "--lease", "5"
        )
        command.wait_for(lambda: "/1.xml" in site.paths)
        home = [
            worker
            for worker in command.workers_of(process)
            if any(
                c.status == psutil.CONN_ESTABLISHED and c.raddr.port == int(site.url("").rpartition(":")[2])
                for c in worker.net_connections()
            )
        ]
        for worker in home:
            worker.kill()
        dead.set()
        _, errors = process.communicate(timeout=90)
        assert process.returncode == 0, errors
        asked = Counter(path for path in site.paths if path.endswith(".xml"))
    assert home
    assert set(asked) == {"/index.xml", "/0.xml", "/1.xml", "/2.xml"}
    assert max(asked.values()) == 2
    assert asked["/0.xml"] == 1
    found = outcomes(tmp_path)
    assert found == {"/": ("done", 0, None), **{f"/page/{n}": ("done", 1, None) for n in range(pages)}}
    verified(tmp_path)


def test_a_stopped_reader_leaves_at_once_and_the_rest_is_read_later(tmp_path: Path) -> None:
    go_on = threading.Event()

    def answer(site: Site, path: str) -> Answer:
        match path:
            case "/robots.txt":
                return b"Sitemap: /0.xml\nSitemap: /1.xml\n"
            case "/0.xml":
                return urlset("/page/0")
            case "/1.xml":
                return urlset("/page/1") if go_on.is_set() else (503, {}, b"")
            case "/":
                return b"<p>home</p>"
        return path.encode() if path.startswith("/page/") else None

    with serving(answer) as site:
        arguments = ("crawl", site.url("/"), "--out", str(tmp_path), *MINE)
        process = command.start(*arguments, "--processes", "1")
        command.wait_for(lambda: "/1.xml" in site.paths)
        process.terminate()
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 130, errors
        assert command.status("--state", str(tmp_path))["leased"] == 0
        go_on.set()
        result = command.run(*arguments)
        assert result.returncode == 0, result.stderr
        assert site.paths.count("/0.xml") == 1
    assert set(outcomes(tmp_path)) == {"/", "/page/0", "/page/1"}
    verified(tmp_path)


@pytest.mark.case("E02")
def test_an_index_that_goes_on_for_ever_ends(tmp_path: Path) -> None:
    def answer(site: Site, path: str) -> Answer:
        if path == "/robots.txt":
            return b"Sitemap: /robots.txt\nSitemap: /index/1\n"
        if path.startswith("/index/"):
            number = int(path.rpartition("/")[2])
            return index(path, f"/index/{number * 2}", f"/index/{number * 2 + 1}", f"/list/{number}")
        if path.startswith("/list/"):
            return urlset(f"/page{path}")
        return b"<p>page</p>"

    with serving(answer) as site:
        result = command.run("crawl", site.url("/"), "--out", str(tmp_path), *MINE)
        assert result.returncode == 0, result.stderr
        asked = Counter(path for path in site.paths if not path.startswith("/page"))
    assert max(asked.values()) == 1
    assert sum(path.startswith("/index/") for path in asked) == 15
    assert {path for path in outcomes(tmp_path) if path.startswith("/page/list")} == {
        f"/page/list/{n}" for n in range(1, 8)
    }
    verified(tmp_path)


def test_fifty_thousand_urls_take_little_memory(tmp_path: Path) -> None:
    """The same crawl with one listed page and with 50,000, of which all but one are beyond its limit of pages."""

    def peak(pages: int) -> int:
        def answer(site: Site, path: str) -> Answer:
            match path:
                case "/robots.txt":
                    return b"Sitemap: /all.xml\n"
                case "/all.xml":
                    return urlset(*(site.url(f"/section/{n % 100}/a-page-with-a-long-name-{n}") for n in range(pages)))
            return b"<p>page</p>"

        with serving(answer) as site:
            out = tmp_path / str(pages)
            out.mkdir()
            place = ("--state", str(out / "state.sqlite"), "--store", str(out))
            seeded = command.run(
                "seed", site.url("/"), *place, "--allow-private", "--rate", "0.5", "--contact", "x@y.z"
            )
            assert seeded.returncode == 0, seeded.stderr
            process = command.start("work", *place)
            worker, most = psutil.Process(process.pid), 0
            try:

                def all_known() -> bool:
                    nonlocal most
                    most = max(most, worker.memory_info().rss)
                    return bool("/all.xml" in site.paths and command.status(*place[:2])["discovered"] == pages + 1)

                command.wait_for(all_known)
            finally:
                process.terminate()
                process.communicate(timeout=30)
        return most

    assert peak(50_000) - peak(1) < 80 * 1024 * 1024


def test_a_seed_may_be_a_sitemap_or_a_feed(tmp_path: Path) -> None:
    def answer(site: Site, path: str) -> Answer:
        match path:
            case "/sitemap.xml":
                return 200, {"Content-Type": "application/xml"}, index("/more.xml.gz")
            case "/more.xml.gz":
                return 200, {"Content-Type": "application/gzip"}, gzip.compress(urlset("/page/1"))
            case "/feed":
                item = f"<item><link>{site.url('/page/2')}</link></item>"
                return 200, {"Content-Type": "application/rss+xml"}, f"<rss><channel>{item}</channel></rss>".encode()
        return b"<p>page</p>" if path.startswith("/page/") else None

    with serving(answer) as site:
        seeds = (site.url("/sitemap.xml"), site.url("/feed"))
        result = command.run("crawl", *seeds, "--out", str(tmp_path), *MINE)
        assert result.returncode == 0, result.stderr
    assert outcomes(tmp_path) == {
        "/sitemap.xml": ("done", 0, None),
        "/feed": ("done", 0, None),
        "/more.xml.gz": ("done", 1, None),
        "/page/1": ("done", 2, None),
        "/page/2": ("done", 1, None),
    }
    verified(tmp_path)


@pytest.mark.parametrize("kind", ["crawl", "seed"])
def test_a_sitemap_given_by_its_url(kind: str, tmp_path: Path) -> None:
    with serving(hidden(10)) as site:
        given = ("--sitemap", site.url("/index.xml"), "--allow-private", "--rate", "0", "--exclude", "/page/3")
        if kind == "crawl":
            result = command.run("crawl", "--out", str(tmp_path), *given)
        else:
            place = ("--state", str(tmp_path / "state.sqlite"), "--store", str(tmp_path))
            result = command.run("seed", *place, *given)
            assert command.run("work", *place, "--until-complete").returncode == 0
            assert command.run("merge", *place).returncode == 0
        assert result.returncode == 0, result.stderr
        assert site.paths[0] == "/robots.txt"
    assert f"{site.url('/index.xml')}: 10 URLs new, 0 known already, 2 filtered" in result.stderr
    assert {path: row[0] for path, row in outcomes(tmp_path).items()} == {
        "/secret/1": "skipped",
        **{f"/page/{n}": "done" for n in range(10) if n != 3},
    }
    verified(tmp_path)


def test_a_given_sitemap_is_read_whole_whatever_the_limit_and_may_begin_afresh(tmp_path: Path) -> None:
    with serving(hidden(10)) as site:
        given = ("crawl", "--out", str(tmp_path), *MINE, "--sitemap", site.url("/index.xml"), "--max-pages", "3")
        for more in ((), ("--fresh", "--yes")):
            result = command.run(*given, *more)
            assert result.returncode == 0, result.stderr
            assert Counter(row[0] for row in outcomes(tmp_path).values()) == {"done": 3, "skipped": 8}
    verified(tmp_path)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [("/gone.xml", "HTTP 404 Not Found"), ("/page/1", "it is no sitemap"), ("/secret/1", "robots.txt forbids it")],
)
def test_a_given_sitemap_that_cannot_be_had_is_one_line_and_nothing_is_added(
    path: str, complaint: str, tmp_path: Path
) -> None:
    with serving(hidden(10)) as site:
        given = ("--sitemap", site.url("/one.xml"), "--sitemap", site.url(path))
        result = command.run("crawl", site.url("/"), "--out", str(tmp_path), *MINE, *given)
        assert result.returncode == 2
        assert result.stderr == f"crawler: --sitemap {site.url(path)}: {complaint}\n"
        assert site.paths.count("/") == 0
    assert command.status("--state", str(tmp_path))["discovered"] == 0
