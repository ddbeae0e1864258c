"""The demo site is what its truth says: a crawler made of the standard library alone finds exactly that."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import pytest

from crawler.demo.content import Site
from crawler.demo.plan import resource
from tests.local_site import DemoSite, demo_site_process


class Links(HTMLParser):
    """The links of a page that a polite crawler follows."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__()
        self._base = url
        self._nofollow = False
        self._found: list[str] = []
        self.feed(text)
        self.urls = [] if self._nofollow else [urldefrag(urljoin(self._base, href.strip())).url for href in self._found]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "base":
            self._base = given["href"]
        elif tag == "meta" and given.get("name") == "robots":
            self._nofollow = "nofollow" in given["content"]
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self._found.append(given["content"].partition("url=")[2])
        elif tag == "iframe":
            self._found.append(given["src"])
        elif (tag in ("a", "area") and "nofollow" not in given.get("rel", "")) or given.get("rel") == "next":
            self._found.append(given["href"])


class StandardLibraryCrawler:
    """Fetches, breadth first and once each, all that robots.txt and the links allow on the seeds' hosts."""

    def __init__(self, site: DemoSite) -> None:
        self._site = site
        self._hosts = {urlsplit(seed).hostname for seed in site.seeds}
        self.seen = set(site.seeds)
        self.answers: Counter[int] = Counter()
        self._connection = HTTPConnection("127.0.0.1", urlsplit(site.seeds[0]).port or 0)

    def run(self) -> None:
        queue = list(self._site.seeds)
        for url in queue:
            new = [link for link in self._links(url) if self._admits(link)]
            for link in new:
                if self._site.canonical(link) not in self.seen:
                    self.seen.add(self._site.canonical(link))
                    queue.append(link)
        self._connection.close()

    def _admits(self, url: str) -> bool:
        parts = urlsplit(url)
        disallowed = parts.path.startswith("/private/") or "print=" in parts.query
        allowed = not disallowed or parts.path.startswith("/private/press/")
        return parts.scheme == "http" and parts.hostname in self._hosts and allowed

    def _links(self, url: str) -> list[str]:
        answer, body = get(self._connection, url)
        self.answers[answer.status] += 1
        if answer.status == 301:
            return [urljoin(url, answer.headers["Location"])]
        if answer.status != 200 or not answer.headers["Content-Type"].startswith("text/html"):
            return []
        if answer.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return Links(url, body.decode("utf-8" if b'charset="utf-8"' in body else "iso-8859-1")).urls


def get(connection: HTTPConnection, url: str) -> tuple[HTTPResponse, bytes]:
    parts = urlsplit(url)
    query = quote(parts.query, safe="=&%", encoding="iso-8859-1")
    target = quote(parts.path, safe="/%") + (f"?{query}" if query else "")
    connection.request("GET", target, headers={"Host": parts.netloc})
    answer = connection.getresponse()
    return answer, answer.read()


def test_a_polite_crawler_of_the_seeds_fetches_exactly_what_the_truth_says(demo_site: DemoSite) -> None:
    crawler = StandardLibraryCrawler(demo_site)
    crawler.run()

    truth = demo_site.truth
    assert demo_site.fetched() == Counter(truth.fetched)
    assert crawler.answers == {
        200: len(truth.pages) + len(truth.files),
        301: len(truth.redirects),
        404: len(truth.missing),
    }
    assert len(truth.pages) == 300


def test_every_kind_of_url_is_there_on_each_host_and_no_url_is_of_two_kinds() -> None:
    truth = Site(8080).truth
    assert not truth.fetched & truth.forbidden
    for host in ("a.localhost", "b.localhost", "c.localhost"):
        part = truth.on(host)
        assert all((part.pages, part.files, part.redirects, part.missing, part.private, part.nofollow, part.hidden))
        assert part.flaky < part.pages
    assert truth.outside


def test_each_page_has_twenty_to_forty_links() -> None:
    site = Site(8080)
    for url in site.truth.pages:
        parts = urlsplit(url)
        answer = site.answer(parts.hostname or "", parts.path + f"?{parts.query}")
        body = gzip.decompress(answer.body) if answer.coding else answer.body
        assert 20 <= body.count(b"<a ") <= 40, url


def test_two_processes_make_the_same_site() -> None:
    program = (
        "import hashlib; from crawler.demo.content import Site; site = Site(8080)\n"
        "answers = [site.answer(p.host, p.target) for p in site._places]\n"
        "print(hashlib.sha256(repr(answers).encode()).hexdigest())"
    )
    digests = {
        subprocess.check_output([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": hash_seed})
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_spellings_of_one_url_are_one_resource() -> None:
    assert resource("/view?lang=en&utm_source=x&id=3") == resource("/view?id=3&lang=en") == "/view?id=3&lang=en"
    assert resource("/news/?utm_campaign=q3") == "/news/"


def test_robots_txt_is_served_on_each_host_and_logged(demo_site: DemoSite) -> None:
    connection = HTTPConnection("127.0.0.1", urlsplit(demo_site.seeds[0]).port or 0)
    for seed in demo_site.seeds:
        answer, body = get(connection, seed + "robots.txt")
        assert (answer.status, b"Disallow: /private/" in body) == (200, True)
    connection.close()

    assert [request.host for request in demo_site.requests()] == ["a.localhost", "b.localhost", "c.localhost"]
    assert demo_site.fetched() == Counter()
    demo_site.clear()
    assert demo_site.requests() == []


def test_flaky_pages_answer_503_as_often_as_asked_whatever_the_spelling(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, pages=150, retry_503=2) as site:
        flaky = min(site.truth.flaky)
        connection = HTTPConnection("127.0.0.1", urlsplit(flaky).port or 0)
        mark = "&" if "?" in flaky else "?"
        statuses = [get(connection, url)[0].status for url in (flaky, flaky + mark + "utm_source=x", flaky)]
        connection.close()
        assert statuses == [503, 503, 200]
        assert site.fetched() == {flaky: 1}


def test_an_answer_is_delayed_when_asked(tmp_path: Path) -> None:
    with demo_site_process(tmp_path, pages=150, delay_ms=50) as site:
        connection = HTTPConnection("127.0.0.1", urlsplit(site.seeds[0]).port or 0)
        assert [get(connection, site.seeds[0])[0].status for _ in range(2)] == [200, 200]
        connection.close()
        first, second = site.requests()
        assert second.at - first.at >= 0.05


@pytest.mark.parametrize("how", ["sigterm", "stdin closes"])
def test_the_server_stops_cleanly(how: str) -> None:
    command = [sys.executable, "-m", "crawler.demo.site", "--pages", "150"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"serving 150 pages on http://a.localhost:")
        if how == "sigterm":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == b""
