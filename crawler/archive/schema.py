"""The schema that Parquet gets: declared, so that a column of nulls has its type in every file.

Columns are only ever added at the end, nullable. Imports pyarrow: no worker comes here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pyarrow as pa
import pyarrow.parquet as pq

from crawler.archive.rows import SCHEMA_VERSION, PageRow
from crawler.errors import StoreError

BATCH = 10_000
"""Rows read at a time."""

_TIME = pa.timestamp("us", tz="UTC")

_FIELDS: dict[str, pa.DataType] = {
    "crawl_id": pa.string(),
    "url": pa.string(),
    "url_key": pa.string(),
    "host": pa.string(),
    "depth": pa.int32(),
    "parent_url": pa.string(),
    "discovered_at": _TIME,
    "outcome": pa.string(),
    "reason": pa.string(),
    "status": pa.int32(),
    "fetched_at": _TIME,
    "elapsed_ms": pa.int64(),
    "attempts": pa.int32(),
    "redirect_to": pa.string(),
    "content_type": pa.string(),
    "charset": pa.string(),
    "bytes": pa.int64(),
    "truncated": pa.bool_(),
    "digest": pa.string(),
    "duplicate_of": pa.string(),
    "etag": pa.string(),
    "last_modified": pa.string(),
    "title": pa.string(),
    "lang": pa.string(),
    "canonical_url": pa.string(),
    "noindex": pa.bool_(),
    "links_found": pa.int32(),
    "links_new": pa.int32(),
    "warc_file": pa.string(),
    "warc_offset": pa.int64(),
    "warc_length": pa.int64(),
    "error": pa.string(),
    "extra": pa.string(),
    "original_file": pa.string(),
    "original_offset": pa.int64(),
    "original_length": pa.int64(),
    "simhash": pa.int64(),
    "near_duplicate_of": pa.string(),
}

SCHEMA = pa.schema(_FIELDS, metadata={"crawler.schema_version": str(SCHEMA_VERSION)})


class ParquetFile:
    """Writes rows to a Parquet file, a batch a row group; complete when the context ends without an error."""

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="snappy")

    def __enter__(self) -> Self:
        return self

    def write(self, rows: Sequence[PageRow]) -> None:
        self._writer.write_table(pa.table([_column(name, kind, rows) for name, kind in _FIELDS.items()], schema=SCHEMA))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()


def _column(name: str, kind: pa.DataType, rows: Sequence[PageRow]) -> pa.Array[Any]:
    values = [getattr(row, name) for row in rows]
    if kind == _TIME:
        values = [None if value is None else round(value * 1_000_000) for value in values]
    column: pa.Array[Any] = pa.array(values, kind)
    return column


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Columns of each row of a merged file, in batches of bounded memory. StoreError when it is no such file."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH, columns=list(columns)):
                lacking = dict.fromkeys(set(columns) - set(batch.schema.names))
                for row in batch.to_pylist():
                    yield row | lacking
    except (pa.ArrowException, OSError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from None


def url_keys(path: Path) -> Iterator[str]:
    """The url_key of each row of a merged file, in batches of bounded memory."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["url_key"]):
            yield from cast("list[str]", batch.column(0).to_pylist())
