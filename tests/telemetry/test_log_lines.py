"""Log lines stay few however often something is said, and show nothing that a URL may hold in secret."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from crawler.telemetry.log_lines import A_MINUTE, MINUTE, Discreet, Sparing, discreet
from tests.command import clean_environment


class Kept(logging.Handler):
    """Keeps the lines that a process would write."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.now = 1000.0
        self.sparing = Sparing(lambda: self.now)
        self.addFilter(self.sparing)
        self.setFormatter(Discreet("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> tuple[Kept, logging.Logger]:
    handler, log = Kept(), logging.getLogger(f"test.{request.node.name}")
    log.propagate = False
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    return handler, log


def test_lines_of_one_kind_are_few_a_minute_and_the_next_says_how_many_there_were(
    kept: tuple[Kept, logging.Logger],
) -> None:
    handler, log = kept

    def fault(number: int) -> None:
        log.warning("page %d failed", number)

    for number in range(10_000):
        fault(number)
    assert handler.lines == [f"page {number} failed" for number in range(A_MINUTE)]
    handler.now += MINUTE
    for number in range(A_MINUTE + 1):
        fault(number)
    assert handler.lines[A_MINUTE:] == [
        f"page 0 failed ({10_000 - A_MINUTE} more since the last such line)",
        *(f"page {number} failed" for number in range(1, A_MINUTE)),
    ]
    assert handler.sparing.rest() == [f"1 more lines like: page {A_MINUTE} failed"]


def test_one_kind_does_not_keep_another_back(kept: tuple[Kept, logging.Logger]) -> None:
    handler, log = kept
    for _ in range(A_MINUTE * 3):
        log.warning("this")
        log.warning("that")
    assert handler.lines.count("this") == handler.lines.count("that") == A_MINUTE
    assert len(handler.sparing.rest()) == 2


def test_of_many_tracebacks_one_is_shown(kept: tuple[Kept, logging.Logger]) -> None:
    handler, log = kept
    for number in range(3):
        try:
            raise ValueError(number)
        except ValueError:
            log.exception("a fault at page %d", number)
    assert "Traceback" in handler.lines[0]
    assert handler.lines[1:] == ["a fault at page 1", "a fault at page 2"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://h.example/a/b?token=s3cret&x=1 failed", "GET https://h.example/a/b?… failed"),
        ("'http://user:s3cret@h.example:8080/a'", "'http://h.example:8080/a'"),
        ("'http://user:s3@s3cret@h.example:8080/a'", "'http://h.example:8080/a'"),
        ("http://h.example/@someone?s3cret", "http://h.example/@someone?…"),
        ("at redis://:s3cret@127.0.0.1:6379/0 there", "at redis://127.0.0.1:6379/0 there"),
        ("url='https://h/?a=s3cret', next", "url='https://h/?…', next"),
        ("HTTPS://H/?s3cret#part", "HTTPS://H/?…#part"),
        ("a mail to someone@example.com, and why? no URL", "a mail to someone@example.com, and why? no URL"),
        ("aws:?queue=jobs&table=pages", "aws:?queue=jobs&table=pages"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_urls_are_shown_without_user_and_query(text: str, shown: str) -> None:
    assert discreet(text) == shown
    assert discreet(shown) == shown


def test_a_traceback_shows_no_secret_either(kept: tuple[Kept, logging.Logger]) -> None:
    handler, log = kept
    try:
        raise ValueError("https://h/?key=s3cret")
    except ValueError:
        log.exception("at http://me:s3cret@h/")
    (line,) = handler.lines
    assert "s3cret" not in line
    assert "https://h/?…" in line


def test_a_command_writes_few_lines_and_counts_the_rest() -> None:
    program = (
        "import logging\n"
        "from crawler.entrypoints.shell import run\n"
        "async def work():\n"
        "    for number in range(10_000):\n"
        "        logging.getLogger('crawler').warning('no answer from http://h/?page=%d', number)\n"
        "run(work(), {'quiet': False, 'verbose': 0})\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True, timeout=20, check=True
    )
    lines = result.stderr.splitlines()
    assert lines[:A_MINUTE] == ["crawler: no answer from http://h/?…"] * A_MINUTE
    assert lines[A_MINUTE:] == [f"crawler: {10_000 - A_MINUTE} more lines like: no answer from http://h/?…"]
