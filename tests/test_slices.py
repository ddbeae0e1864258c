"""Large pages in slices: nothing is lost, nothing is made up, and the tree stays small."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler import slices as module
from crawler.parse import parse
from crawler.slices import slices

PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "<a href=/x>",
                "</a>",
                "<p>",
                "text ",
                "<",
                "< ",
                "</",
                "<!--",
                "-->",
                "<script>",
                "</script>",
                "<style>",
            ),
            *("<template>", "</template>", "</SCRIPT >", "<textarea", "</textarea>", "<title>", "<svg/>", "\n", "&lt;"),
        ]
    ),
    max_size=60,
).map("".join)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE", 20)


@given(PIECES, st.integers(1, 100))
@settings(derandomize=True, deadline=None, database=None)
def test_slices_are_the_page_cut_where_tags_begin(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", size)
        pieces = list(slices(text))
    assert "".join(pieces) == text
    assert all(piece.startswith("<") and len(piece) >= size for piece in pieces[1:-1])


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "whole",
    [
        "<!-- <a href=/no> -->",
        "<script>'<a href=/no>' </scrip <a href=/no></script>",
        "<TEXTAREA><a href=/no></TextArea>",
        "<template><p><a href=/no></a></p></template>",
        "<style><a href=/no></style>",
        "<div a=b data-html='<a href=/no> <p> <a href=/no>'>",
        '<img alt = "<a href=/no> <p> <a href=/no>">',
        "<script><a href=/no>",
    ],
)
def test_what_is_no_markup_is_never_cut_open(whole: str) -> None:
    page = "<!doctype html><title>t</title><a href=/1>1</a>" + whole * 3 + "<p>text text text text</p><a href=/2>2</a>"
    found = parse(page.encode(), "text/html", "http://h.example/", [], "bot")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", 1 << 20)
        at_once = parse(page.encode(), "text/html", "http://h.example/", [], "bot")
    assert found == at_once
    assert len(list(slices(page))) > 1


@pytest.mark.usefixtures("short")
def test_what_counts_once_counts_where_it_comes_first() -> None:
    page = (
        b"<html lang=de><head><title>first</title><base href=/b/><link rel=canonical href=c></head><body>"
        + b"<p>text text text text text</p>" * 5
        + b"<html lang=fr><title>second</title><base href=/z/><a href=x>x</a><meta name=robots content=noindex>"
    )
    found = parse(page, "text/html", "http://h.example/a/", [], "bot")
    assert (found.title, found.lang, found.canonical_url) == ("first", "de", "http://h.example/b/c")
    assert [link.url for link in found.links] == ["http://h.example/b/x"]
    assert found.noindex


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("markup", ["<p>", "<p a b c d>", "<a href=x>"])
def test_the_tree_of_ten_megabytes_of_tags_takes_a_few(markup: str) -> None:
    """In a process of its own, whose memory has never been larger than what is measured."""
    program = r"""if True:
        import re, sys
        from crawler.parse import parse
        def peak():
            return int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]) * 1024
        body = b"<title>t</title>" + sys.argv[1].encode() * (10_000_000 // len(sys.argv[1]))
        parse(body[:1000], "text/html", "http://h.example/", [], "bot")
        before = peak()
        assert parse(body, "text/html", "http://h.example/", [], "bot").title == "t"
        print(peak() - before)
    """
    run = subprocess.run([sys.executable, "-c", program, markup], capture_output=True, text=True, check=True)
    assert 0 < int(run.stdout) < 200_000_000
