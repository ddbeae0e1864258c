"""A user's function in its own process: what it gets, what it may return, and that nothing it does costs a page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from crawler.config import crawl_settings
from crawler.errors import NotImportable, UsageError
from crawler.extract import MAX_ERROR, MAX_EXTRA
from crawler.extractor import Extractor, check_function
from crawler.fetched import Extracted, Link, ParsedPage, Response

HEADERS = ((b"Content-Type", b"text/html; charset=iso-8859-1"), (b"X-Kind", b"a"), (b"x-kind", b"b"))
PARSED = ParsedPage(
    title="T",
    lang="de",
    canonical_url="https://example.com/c",
    charset="windows-1252",
    links=(Link("https://example.com/1", b"1"), Link("https://example.com/2", b"2")),
)

Make = Callable[..., Awaitable[Extractor]]


def page(body: bytes = b"<h1>Caf\xe9</h1><a href=1>x</a>", url: str = "https://example.com/") -> Response:
    return Response(
        url=url,
        status=200,
        reason="OK",
        version="HTTP/1.1",
        headers=HEADERS,
        stored=body,
        body=body,
        fetched_at=0.0,
        elapsed=0.0,
    )


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Makes a started extractor of a function `f` in a module of this text, in the current folder."""
    monkeypatch.chdir(tmp_path)
    made: list[Extractor] = []

    async def of(code: str, timeout: float = 30.0) -> Extractor:
        (tmp_path / "users_module.py").write_text(code)
        extractor = Extractor("users_module:f", timeout)
        made.append(extractor)
        await extractor.start()
        return extractor

    yield of
    for extractor in made:
        await extractor.close()


def extra(answer: Extracted) -> Any:
    assert answer.error == ""
    assert answer.extra is not None
    return msgspec.json.decode(answer.extra)


async def test_the_page_is_what_was_fetched_and_parsed(make: Make) -> None:
    extractor = await make("""
def f(page):
    return {
        "url": page.url, "status": page.status, "type": page.headers["content-type"], "kind": page.headers["x-kind"],
        "text": page.text, "body": len(page.body), "charset": page.charset, "h1": page.html.css_first("h1").text(),
        "title": page.title, "lang": page.lang, "canonical": page.canonical_url, "links": " ".join(page.links),
    }
""")
    assert extra(await extractor.extract(page(), PARSED)) == {
        "url": "https://example.com/",
        "status": 200,
        "type": "text/html; charset=iso-8859-1",
        "kind": "a, b",
        "text": "<h1>Café</h1><a href=1>x</a>",
        "body": 28,
        "charset": "windows-1252",
        "h1": "Café",
        "title": "T",
        "lang": "de",
        "canonical": "https://example.com/c",
        "links": "https://example.com/1 https://example.com/2",
    }


async def test_texts_numbers_booleans_and_none_are_kept_as_they_are(make: Make) -> None:
    extractor = await make("def f(page): return {'a': 'é', 'b': 1, 'c': 1.5, 'd': True, 'e': None, 'f': -2**63}")
    answer = await extractor.extract(page(), PARSED)
    assert answer.extra == '{"a":"é","b":1,"c":1.5,"d":true,"e":null,"f":-9223372036854775808}'


async def test_none_is_nothing_and_no_fault(make: Make) -> None:
    extractor = await make("def f(page): return None")
    assert await extractor.extract(page(), PARSED) == Extracted()


async def test_text_that_parquet_readers_refuse_is_mended(make: Make) -> None:
    extractor = await make(r"def f(page): return {'a\0': 'x\0y\ud800z'}")
    assert extra(await extractor.extract(page(), PARSED)) == {"a\ufffd": "x\ufffdy?z"}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("[1]", "a dict is expected, not of type list"),
        ("'text'", "not of type str"),
        ("{'a': {}}", "'a' is of type dict"),
        ("{'a': [1]}", "'a' is of type list"),
        ("{'a': b'x'}", "'a' is of type bytes"),
        ("{'a': float('nan')}", "'a' is a number that JSON"),
        ("{'a': float('inf')}", "'a' is a number that JSON"),
        ("{'a': 2**63}", "'a' is a number that JSON or a 64-bit column does not have"),
        ("{1: 2}", "names have to be texts, not of type int"),
        (f"{{'a': 'x' * {MAX_EXTRA}}}", f"{MAX_EXTRA + 8:,} bytes of JSON; {MAX_EXTRA:,} are kept at most"),
        ("{'a': page}", "'a' is of type Page"),
    ],
)
async def test_anything_but_a_small_flat_dict_is_refused_with_the_reason(make: Make, result: str, why: str) -> None:
    extractor = await make(f"def f(page): return {result}")
    answer = await extractor.extract(page(), PARSED)
    assert answer.extra is None
    assert answer.error.startswith("extract: ")
    assert why in answer.error


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ValueError('no\\n price \\x1b[31m here')", "extract: ValueError: no price ?[31m here"),
        ("import sys; sys.exit(3)", "extract: SystemExit: 3"),
        ("raise KeyboardInterrupt", "extract: KeyboardInterrupt"),
        ("return page.html.css_first('h9').text()", "extract: AttributeError: "),
        ("page.url = 'x'", "extract: AttributeError: "),
        ("page.headers['set-cookie']", "extract: KeyError: 'set-cookie'"),
        ("raise ValueError('x' * 10_000)", "extract: ValueError: xxx"),
        ("class E(Exception):\n  def __str__(self): raise self\n raise E", "extract: E"),
    ],
)
async def test_an_exception_is_one_short_line(
    make: Make, code: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    extractor = await make(f"def f(page):\n {code}\n")
    answer = await extractor.extract(page(), PARSED)
    assert answer.extra is None
    assert answer.error.startswith(why)
    assert len(answer.error) <= len("extract: ") + MAX_ERROR
    assert capfd.readouterr() == ("", "")


async def test_a_function_that_hangs_costs_its_page_alone(make: Make) -> None:
    extractor = await make(
        "import time\ndef f(page):\n while 'hang' in page.url: time.sleep(9)\n return {'u': page.url}", timeout=0.5
    )
    urls = ["https://a/1", "https://a/hang", "https://a/2", "https://a/3"]
    answers = await asyncio.gather(*(extractor.extract(page(url=url), PARSED) for url in urls))
    assert answers[1] == Extracted(error="extract: no result within 0.5 s")
    assert [extra(answers[n]) for n in (0, 2, 3)] == [{"u": urls[n]} for n in (0, 2, 3)]


@pytest.mark.parametrize("death", ["os._exit(0)", "os.abort()", "b'x' * 2**33", "os.closerange(3, 99)"])
async def test_a_function_that_ends_its_process_costs_its_page_alone(make: Make, death: str) -> None:
    extractor = await make(f"import os\ndef f(page):\n if 'die' in page.url: {death}\n return {{'u': page.url}}")
    urls = ["https://a/1", "https://a/die", "https://a/2"]
    answers = await asyncio.gather(*(extractor.extract(page(url=url), PARSED) for url in urls))
    assert answers[1] == Extracted(error="extract: the process that it ran in died")
    assert [extra(answers[n]) for n in (0, 2)] == [{"u": urls[n]} for n in (0, 2)]


async def test_a_function_that_breaks_the_interpreter_costs_its_page_alone(make: Make) -> None:
    code = "import builtins\ndef f(page):\n if 'break' in page.url: builtins.len = None\n return {'u': page.url}"
    extractor = await make(code)
    urls = ["https://a/1", "https://a/break", "https://a/2"]
    answers = await asyncio.gather(*(extractor.extract(page(url=url), PARSED) for url in urls))
    assert [extra(answers[n]) for n in (0, 2)] == [{"u": urls[n]} for n in (0, 2)]
    assert answers[1].extra is not None or answers[1].error.startswith("extract: ")


async def test_an_extractor_closed_while_its_child_is_replaced_leaves_nothing_behind(make: Make) -> None:
    extractor = await make("import os\ndef f(page): os._exit(1)")
    assert (await extractor.extract(page(), PARSED)).error == "extract: the process that it ran in died"
    await extractor.close()
    assert [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE] == []


async def test_a_function_may_empty_the_list_of_modules(make: Make) -> None:
    extractor = await make("""
import sys
def f(page):
    url = page.url
    for name in list(sys.modules):
        if name.startswith(("crawler", "msgspec", "json")):
            del sys.modules[name]
    sys.path.clear()
    return {"u": url}
""")
    for url in ("https://a/1", "https://a/2"):
        assert extra(await extractor.extract(page(url=url), PARSED)) == {"u": url}


async def test_what_it_prints_goes_nowhere(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    extractor = await make("""
import os, sys, warnings
print("at import"); sys.stderr.write("at import\\n")
def f(page):
    print("out", flush=True); print("err", file=sys.stderr, flush=True); os.write(2, b"raw"); warnings.warn("w")
    return {}
""")
    assert extra(await extractor.extract(page(), PARSED)) == {}
    assert capfd.readouterr() == ("", "")


async def test_a_traceback_is_printed_when_everything_is_to_be_said(
    make: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = logging.getLogger("crawler.extractor")
    logger.setLevel(logging.DEBUG)
    try:
        extractor = await make("def f(page): raise ValueError('why')")
        await extractor.extract(page(), PARSED)
    finally:
        logger.setLevel(logging.NOTSET)
    assert "Traceback" in capfd.readouterr().err


async def test_failures_are_counted_in_one_line_at_the_end(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    extractor = await make("def f(page): return {}['no'] if 'bad' in page.url else {}")
    for url in ("https://a/bad1", "https://a/2", "https://a/bad3"):
        await extractor.extract(page(url=url), PARSED)
    await extractor.close()
    (line,) = (record.getMessage() for record in caplog.records if record.name == "crawler.extractor")
    assert line.startswith("--extract users_module:f failed at 2 of 3 pages, at the first with: KeyError: 'no'")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("g = 1", "module 'users_module' has no 'f'"),
        ("f = 1", "that is no function but of type int"),
        ("async def f(page): ...", "neither async nor a generator"),
        ("def f(page): yield {}", "neither async nor a generator"),
    ],
)
async def test_a_module_without_the_function_is_wrong_usage(make: Make, code: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        await make(code)
    assert not isinstance(caught.value, NotImportable)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import not_there_at_all", "importing users_module failed with ModuleNotFoundError: No module named"),
        ("raise ValueError('a\\nb')", "importing users_module failed with ValueError: a b"),
        ("def f(:", "importing users_module failed with SyntaxError: "),
        ("import sys; sys.exit()", "importing users_module failed with SystemExit"),
        ("import os; os._exit(1)", "importing it ends the process"),
    ],
)
async def test_a_module_that_cannot_be_imported_says_why(make: Make, code: str, why: str) -> None:
    with pytest.raises(NotImportable, match=why):
        await make(code)


@pytest.mark.parametrize("spec", ["not_there:f", "json.not_there:f", "json.decoder.x:f"])
async def test_a_module_that_is_not_there_says_so(spec: str) -> None:
    with pytest.raises(NotImportable, match="there is no module '"):
        await check_function(spec)


async def test_a_function_may_lie_in_a_package_or_a_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pages.py").write_text("class Price:\n  @staticmethod\n  def of(page): return {}\n")
    await check_function("shop.pages:Price.of")


@pytest.mark.parametrize("spec", ["f", "m:", ":f", "m:f()", "m f:g", "m..n:f", "../m:f", "m:1f", "m:f:g"])
def test_what_names_no_function_is_wrong_usage(spec: str) -> None:
    with pytest.raises(UsageError, match=r"--extract .*: write module:function"):
        crawl_settings({"extract": spec})


def test_a_setting_can_be_taken_back() -> None:
    assert crawl_settings({"extract": ""}, crawl_settings({"extract": "m:f"})).extract == ""
