"""The measuring server does what a trial counts on."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from tests.command import wait_for
from tests.pace.server import Behaviour
from tests.pace.site import MeasuredSite, measured_site


def connect(site: MeasuredSite) -> socket.socket:
    return socket.create_connection(("127.0.0.1", site.port), timeout=10)


def ask(site: MeasuredSite, host: str, target: str = "/", connection: socket.socket | None = None) -> str:
    """The whole answer to a request."""
    with connection or connect(site) as open_connection:
        open_connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}:{site.port}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += open_connection.recv(65536)
        return answer.decode()


def test_each_request_is_noted_with_its_time_at_its_host(tmp_path: Path) -> None:
    with measured_site(tmp_path) as site:
        began = time.monotonic()
        assert ask(site, "A.localhost", "/one").startswith("HTTP/1.1 200 ")
        ask(site, "b.localhost", "/two")
        ended = time.monotonic()
    one, two = site.requests()
    assert (one.host, one.status, one.target, two.host) == ("a.localhost", 200, "/one", "b.localhost")
    assert began <= one.arrived <= one.left <= two.arrived <= two.left <= ended


def test_a_request_is_noted_when_its_first_byte_comes(tmp_path: Path) -> None:
    with measured_site(tmp_path) as site, connect(site) as connection:
        connection.sendall(b"GET /slow")
        ask(site, "b.localhost")  # it reads connections in turn: now it has the first bytes
        sent = time.monotonic()
        connection.sendall(b" HTTP/1.1\r\nHost: a.localhost\r\n\r\n")
        assert connection.recv(65536)
    slow = next(request for request in site.requests() if request.target == "/slow")
    assert slow.arrived < sent < slow.left


def test_an_answer_takes_as_long_as_its_host_is_said_to(tmp_path: Path) -> None:
    with measured_site(tmp_path, {"slow.localhost": Behaviour(delay=0.2)}) as site:
        ask(site, "slow.localhost")
    (request,) = site.requests()
    assert request.left - request.arrived >= 0.2


def test_a_host_becomes_slow_after_its_prompt_answers(tmp_path: Path) -> None:
    with measured_site(tmp_path, {"slow.localhost": Behaviour(delay=600.0, prompt=1)}) as site:
        ask(site, "slow.localhost")
        with connect(site) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: slow.localhost\r\n\r\n")
            ask(site, "other.localhost")  # by now it has read the other request
    assert [request.status for request in site.requests()] == [200, 0, 200]


def test_a_silent_host_s_request_ends_when_its_client_goes(tmp_path: Path) -> None:
    with measured_site(tmp_path, {"silent.localhost": Behaviour(silent=True)}) as site:
        with connect(site) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: silent.localhost\r\n\r\n")
            ask(site, "other.localhost")
            assert [request.host for request in site.requests()] == ["other.localhost"]
        ended = wait_for(lambda: [r for r in site.requests() if r.host == "silent.localhost"])
    assert [request.status for request in ended] == [0]


def test_what_is_open_at_the_end_is_noted_without_an_answer(tmp_path: Path) -> None:
    with measured_site(tmp_path, {"silent.localhost": Behaviour(silent=True)}) as site, connect(site) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: silent.localhost\r\n\r\n")
        ask(site, "other.localhost")  # by now it has read the other request
    assert [(request.host, request.status) for request in site.requests()] == [
        ("silent.localhost", 0),
        ("other.localhost", 200),
    ]


def test_a_busy_host_answers_again_when_its_time_is_over(tmp_path: Path) -> None:
    busy = Behaviour(busy_after=1, busy_status=503, retry_after=1)
    with measured_site(tmp_path, {"busy.localhost": busy}) as site:
        answers = [ask(site, "busy.localhost") for _ in range(3)]
        wait_for(lambda: ask(site, "busy.localhost").startswith("HTTP/1.1 200 "))
    assert [answer.split()[1] for answer in answers] == ["200", "503", "503"]
    assert "Retry-After: 1\r\n" in answers[1]
    refused, *later = [request.arrived for request in site.requests()][1:]
    assert later[-1] - refused >= 1


def test_robots_txt_says_the_crawl_delay_and_pages_link_on(tmp_path: Path) -> None:
    with measured_site(tmp_path, {"a.localhost": Behaviour(crawl_delay=0.5, links=2)}) as site:
        assert "Crawl-delay: 0.5\n" in ask(site, "a.localhost", "/robots.txt")
        assert 'href="/x/0"' in ask(site, "a.localhost", "/x")
        assert "Crawl-delay" not in ask(site, "b.localhost", "/robots.txt")
