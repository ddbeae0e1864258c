"""SQL over one merged file, by DuckDB. Imports duckdb and pyarrow: only `crawler sql` comes here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from crawler.archive.schema import SCHEMA
from crawler.errors import UsageError

_SHUT = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
"""A query sees no file, no network, no extension and no object of this process: it is given rows, and nothing else."""

_IN_UTC = pa.schema(
    [pa.field(each.name, pa.timestamp("us") if pa.types.is_timestamp(each.type) else each.type) for each in SCHEMA]
)
"""Times without a zone, as Athena has them; a column that an older file lacks is null."""


class Result(NamedTuple):
    """Column names, no two alike, and a cursor over the rows, which are computed as they are fetched."""

    columns: list[str]
    cursor: duckdb.DuckDBPyConnection

    def fetch(self, most: int) -> list[tuple[Any, ...]]:
        """The next rows, [] after the last. UsageError, in one line, for a query that fails at one of them."""
        with _failures():
            return self.cursor.fetchmany(most)


class Pages:
    """The table `pages` of one crawl: the columns of its merged file, and `day`, by which Athena partitions.

    What does not fit into memory is spilled into a folder of its own, which goes with it.
    """

    def __init__(self, file: Path, day: str) -> None:
        self._file, self._day = file, day
        self._spill = tempfile.TemporaryDirectory(prefix="crawler-sql-")
        self._connection = duckdb.connect(config={**_SHUT, "temp_directory": self._spill.name})

    def __enter__(self) -> Self:
        # The rows come through Arrow, column by column as a query needs them, so that DuckDB itself opens no file.
        self._connection.register("merged", ds.dataset(self._file, schema=_IN_UTC, format="parquet"))
        self._connection.execute(f"CREATE VIEW pages AS SELECT *, '{self._day}' AS day FROM merged")  # noqa: S608 - a date
        self._connection.execute("SET lock_configuration = true")
        return self

    def run(self, query: str, crawl: str) -> Result:
        """Run one SELECT; `?` in it stands for the crawl's id.

        UsageError, in one line, for what is no such query, or fails.
        """
        with _failures():
            statements = self._connection.extract_statements(query)
            if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
                raise UsageError("give one query that reads, such as SELECT host, count(*) FROM pages GROUP BY host")
            parameters = [crawl] * len(statements[0].named_parameters)
            cursor = self._connection.execute(statements[0], parameters)
            return Result(_distinct([column[0] for column in cursor.description or ()]), cursor)

    def interrupt(self) -> None:
        """Let a `run` in another thread fail now."""
        self._connection.interrupt()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()
        self._spill.cleanup()


@contextmanager
def _failures() -> Iterator[None]:
    """Say what DuckDB has against a query, without its picture of the place in it."""
    try:
        yield
    except duckdb.Error as error:
        line = " ".join(str(error).partition("\n\nLINE ")[0].split())
        raise UsageError(f"the query failed: {line}") from None


def _distinct(names: list[str]) -> list[str]:
    """The names, a second `url` as `url_2`: a JSON object has each name once."""
    distinct: dict[str, None] = {}
    for name in names:
        number, unique = 1, name
        while unique in distinct:
            number += 1
            unique = f"{name}_{number}"
        distinct[unique] = None
    return list(distinct)
