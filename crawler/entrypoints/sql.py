"""`crawler sql`: a saved query, or one's own, over the merged file of a crawl."""

from __future__ import annotations

import asyncio
import csv
import re
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawler.archive.folder import parquet_name
from crawler.archive.stores import open_store
from crawler.entrypoints.commands import named, opened
from crawler.entrypoints.places import store_address
from crawler.entrypoints.show import out, shorten
from crawler.errors import UsageError
from crawler.sql.queries import SavedQuery, saved_queries

if TYPE_CHECKING:
    from crawler.sql.local import Pages, Result

SHOWN = 100
"""Rows of a table for people."""

CELL = 80
"""Characters of a cell of that table."""

NARROW = 12
"""Columns of so many characters are not folded, and wider ones not to less."""

BATCH = 1000

WIDTH = 90
"""Characters of a line of the list of saved queries."""

_UNSEEN = re.compile(r"[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What a terminal might obey or hide, and JSON does not escape by itself: control characters beyond ASCII, and those
that change the direction of text."""


class Form(Enum):
    """How rows are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def catalogue(*, as_json: bool) -> str:
    """The saved queries, for people or a JSON object a line."""
    queries = saved_queries()
    if as_json:
        return "\n".join(msgspec.json.encode(query).decode() for query in queries)
    return "\n".join(
        f"{query.name}\n{textwrap.indent(textwrap.fill(query.description, WIDTH), '    ')}" for query in queries
    )


def query_text(asked: str) -> str:
    """The text of the query meant: a saved one by its name, or what was given. UsageError when there is none."""
    if re.fullmatch(r"[\w-]+", asked) is None:
        return asked
    known: dict[str, SavedQuery] = {query.name: query for query in saved_queries()}
    if asked not in known:
        raise UsageError(f"there is no saved query {asked!r} (there are: {', '.join(known)}); or write SELECT …")
    return known[asked].text


async def sql(address: str, store: str | None, crawl: str | None, query: str, form: Form) -> None:
    """Run a query over a crawl's merged file and print its rows. UsageError when there is no such file yet."""
    try:
        from crawler.sql.local import Pages
    except ModuleNotFoundError as error:
        raise UsageError(f"crawler sql needs DuckDB ({error.name}): pip install 'crawler[sql]'") from None
    async with opened(address) as state:
        record = await named(state, crawl)
        archive = open_store(store_address(store, record, state))
    async with archive.existing(parquet_name(record)) as file:
        if file is None:
            raise UsageError(f"crawl {record.id} is not merged yet: run `crawler merge` first")
        with Pages(file, time.strftime("%Y-%m-%d", time.gmtime(record.started_at))) as pages:
            _write(await _run(pages, query, record.id), form)


async def _run(pages: Pages, query: str, crawl: str) -> Result:
    """Run the query in a thread, so that Ctrl-C ends it."""
    try:
        return await asyncio.to_thread(pages.run, query, crawl)
    except asyncio.CancelledError:
        pages.interrupt()
        raise


def _write(result: Result, form: Form) -> None:
    if form is Form.TABLE:
        rows = result.fetch(SHOWN + 1)
        _table(result.columns, rows[:SHOWN])
        if not rows:
            out("no rows")
        elif len(rows) > SHOWN:
            out(f"the first {SHOWN} rows; --csv and --json have all")
    elif form is Form.JSON:
        for rows in _batches(result):
            sys.stdout.write("".join(_json_line(result.columns, row) for row in rows))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        clean = _one_line if sys.stdout.isatty() else str
        writer.writerow(map(clean, result.columns))
        for rows in _batches(result):
            writer.writerows([clean(_text(value)) for value in row] for row in rows)


def _batches(result: Result) -> Iterator[list[tuple[Any, ...]]]:
    while rows := result.fetch(BATCH):
        yield rows


def _table(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """A line a row; where a terminal is narrower than that its wide cells are folded, and what is too much even so is
    shown a line a value."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = (CELL + 2) * len(columns)
    names = [_cell(name) for name in columns]
    cells = [[_cell(_text(value)) for value in row] for row in rows]
    widths = [max(len(row[at]) for row in (names, *cells)) for at in range(len(names))]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    if sum(min(width, NARROW) + 2 for width in widths) <= console.width:
        for at, name in enumerate(names):
            numbers = all(isinstance(row[at], int | float | None) for row in rows)
            table.add_column(
                name, no_wrap=widths[at] <= NARROW, overflow="fold", justify="right" if numbers else "left"
            )
        for row in cells:
            table.add_row(*row)
    else:
        table.show_header = False
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for row in cells:
            for pair in zip(names, row, strict=True):
                table.add_row(*pair)
            table.add_row()
    with console.capture() as printed:
        console.print(table)
    out("\n".join(line.rstrip() for line in printed.get().splitlines()))


def _cell(text: str) -> Text:
    return Text(shorten(text, CELL))


def _one_line(text: str) -> str:
    return shorten(text, sys.maxsize)


def _json_line(columns: Iterable[str], row: tuple[Any, ...]) -> str:
    pairs = (f"{_encoded(name)}:{_encoded(value)}" for name, value in zip(columns, row, strict=True))
    line = "{" + ",".join(pairs) + "}\n"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", line)


def _text(value: Any) -> str:
    """A value as a cell: nothing for null; what JSON writes as a string, without its quotes."""
    if value is None or isinstance(value, str):
        return value or ""
    text = _encoded(value)
    return text[1:-1] if text.startswith('"') else text


def _encoded(value: Any) -> str:
    """A value as JSON. A time without a zone is in UTC here."""
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return msgspec.json.encode(value).decode()
