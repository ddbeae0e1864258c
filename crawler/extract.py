"""`--extract module:function`: a user's function, called for each parsed page, whose result is kept in the page's row.

It gets a `Page` and returns a flat dict of texts, numbers, booleans and None, or None for nothing. It runs in a process
of its own (see `extractor.py`), so that nothing it does can cost a page or its links.
"""

from __future__ import annotations

import importlib
import inspect
import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
from selectolax.lexbor import LexborHTMLParser

from crawler import charset
from crawler.depth import capped
from crawler.errors import NotImportable, UsageError
from crawler.fetched import Extracted

MAX_EXTRA = 64 * 1024
"""Bytes of JSON kept of one page."""

MAX_ERROR = 200
"""Characters kept of why there is nothing."""

Function = Callable[["Page"], Any]


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A page for the function, as it came and as it was parsed."""

    url: str
    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    title: str | None = None
    lang: str | None = None
    canonical_url: str | None = None
    charset: str | None = None
    links: tuple[str, ...] = ()


class Page:
    """A parsed page, as a function given by `--extract` gets it. Read-only."""

    def __init__(self, request: Request) -> None:
        self._request = request

    @property
    def url(self) -> str:
        """Where the body came from."""
        return self._request.url

    @property
    def status(self) -> int:
        """HTTP status; that of the page as it came first, where it answered 304 Not Modified."""
        return self._request.status

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Response header fields by lower-case name; those that came several times joined by ', '."""
        fields: dict[str, str] = {}
        for raw, value in self._request.headers:
            name, text = raw.decode("latin-1").lower(), value.decode("latin-1").strip()
            fields[name] = f"{fields[name]}, {text}" if name in fields else text
        return fields

    @property
    def body(self) -> bytes:
        """The body without its content coding, cut where the crawl cuts bodies."""
        return self._request.body

    @property
    def charset(self) -> str | None:
        """The encoding that the text was read in, by its WHATWG name."""
        return self._request.charset

    @cached_property
    def text(self) -> str:
        """The markup as text."""
        return charset.decode(self._request.body, self.headers.get("content-type"))[0]

    @cached_property
    def html(self) -> LexborHTMLParser:
        """The parsed document (selectolax): `page.html.css_first("h1").text()`."""
        return LexborHTMLParser(capped(self.text))

    @property
    def title(self) -> str | None:
        return self._request.title

    @property
    def lang(self) -> str | None:
        return self._request.lang

    @property
    def canonical_url(self) -> str | None:
        return self._request.canonical_url

    @property
    def links(self) -> Sequence[str]:
        """Absolute URLs of the links that may be followed, each once, in document order."""
        return self._request.links


def load(spec: str) -> Function:
    """The function that `module:function` names. Raises UsageError, in one line, when there is none; NotImportable when
    the module is to blame.

    Importing runs the user's code: only for the process that may go with it.
    """
    module, _, path = spec.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
            raise NotImportable(
                f"--extract {spec}: there is no module {error.name!r} in this folder nor among what is installed"
            ) from error
        raise NotImportable(f"--extract {spec}: importing {module} failed with {one_line(error)}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(f"--extract {spec}: module {module!r} has no {path!r}")
        found = getattr(found, name)
    if not callable(found):
        raise UsageError(f"--extract {spec}: that is no function but of type {type(found).__name__}")
    if inspect.iscoroutinefunction(found) or inspect.isgeneratorfunction(found):
        raise UsageError(f"--extract {spec}: an ordinary function is needed, neither async nor a generator")
    function: Function = found
    return function


def extracted(function: Function, request: Request, *, trace: bool = False) -> Extracted:
    """Call the function for one page; its result as JSON, or why there is none. `trace`: tracebacks on standard error.

    Raises MemoryError alone.
    """
    try:
        return Extracted(extra=_flat_json(function(Page(request))))
    except MemoryError:
        raise
    except _RefusedError as error:
        return Extracted(error=str(error))
    except BaseException as error:  # also SystemExit
        if trace:
            traceback.print_exc()
        return Extracted(error=one_line(error))


class _RefusedError(Exception):
    """What a function returned cannot be kept."""


def _flat_json(result: object) -> str | None:
    if result is None:
        return None
    if not isinstance(result, dict):
        raise _RefusedError(f"a dict is expected, not {_kind(result)}")
    text = msgspec.json.encode({_name(name): _value(name, value) for name, value in result.items()}).decode()
    if len(text.encode()) > MAX_EXTRA:
        raise _RefusedError(f"the result has {len(text.encode()):,} bytes of JSON; {MAX_EXTRA:,} are kept at most")
    return text


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise _RefusedError(f"names have to be texts, not {_kind(name)}")
    return _storable(name)


def _value(name: str, value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _storable(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    what = "a number that JSON or a 64-bit column does not have" if isinstance(value, int | float) else _kind(value)
    raise _RefusedError(f"{name[:50]!r} is {what}; texts, numbers, booleans and None can be kept")


def _kind(value: object) -> str:
    return f"of type {type(value).__name__[:50]}"


def _storable(text: str) -> str:
    """Text without what no reader of Parquet takes: lone surrogates and U+0000."""
    return str(text).encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def one_line(error: BaseException) -> str:
    """Type and message of an exception, short, without anything that commands a terminal."""
    try:
        message = str(error)[: 10 * MAX_ERROR]
    except Exception:
        message = ""
    line = " ".join(f"{type(error).__name__}: {message}".split()).rstrip(":")
    return "".join(c if c.isprintable() else "?" for c in line)[:MAX_ERROR]
