"""The store: what the archive needs from the place where it lies, cut at intents.

Rules for every method: it may be repeated after StoreUnavailable, and happening twice does no harm. Nothing but the
errors of `crawler.errors` escapes. Many workers use one store at the same time, each with segments of its own.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

from crawler.errors import UsageError

FORMS = "file:///dir, a folder's path, or s3://bucket/prefix"


class Piece(NamedTuple):
    """Bytes for a file, which continue at `offset` what was written to it before."""

    offset: int
    data: bytes


class Segment(Protocol):
    """A pair of files that one worker writes. Neither exists before the first write that has bytes for it."""

    async def write(self, records: Piece, rows: Piece) -> None:
        """Durable when it returns; records are durable before the rows that point at them. Empty data: nothing to do.

        Where the store appends, a repeated call may bring more than the failed one, at the same offsets.
        Errors: StoreUnavailable; StoreError when another worker has a segment of this name.
        """
        ...

    async def finish(self) -> None:
        """Nothing more will come: give the files their final names."""
        ...


class StoredFile(NamedTuple):
    """A file to read: `name` as asked for, `path` of a local copy (or the file itself), `live` while it may grow."""

    name: str
    path: Path
    live: bool


ReadRange = Callable[[str, int, int], Awaitable[bytes]]
"""Reads a file, named relative to the store, from an offset on: so many bytes, or fewer at its end. A WARC file is
found under its final name also while it is open. StoreError: there is no such file, or it may not be read."""


@runtime_checkable
class Store(Protocol):
    """A directory or a bucket. `appends`: a segment takes many writes; else it takes one, and each costs money."""

    @property
    def address(self) -> str:
        """What opens this store again, from anywhere."""
        ...

    @property
    def appends(self) -> bool: ...

    async def check(self) -> None:
        """Make sure that the store can be used; a folder is created when absent. StoreError in one line when not."""
        ...

    def segment(self, folder: str, name: str) -> Segment:
        """A segment to be written below the crawl's folder. Touches nothing yet."""
        ...

    async def take_over(self, folder: str) -> int:
        """Make the segments of killed workers whole and give them their final names; says how many.

        Those of live workers are left alone. Safe beside others doing the same, and after being killed half-way.
        """
        ...

    async def files(self, folder: str, kind: str) -> list[str]:
        """Files of a kind (`folder.WARC`, `folder.PAGES`), relative to the crawl's folder, by final name, sorted."""
        ...

    def read(self, folder: str, names: Sequence[str]) -> AsyncIterator[StoredFile]:
        """The files in the order asked for; each path is good until the next one is taken. StoreError: one is gone."""
        ...

    def ranges(self) -> AbstractAsyncContextManager[ReadRange]:
        """To read parts of files, many times: connections stay open as long as the context."""
        ...

    def replace(self, name: str) -> AbstractAsyncContextManager[Path]:
        """A local path to write to; what is there at the end replaces `name` at once and entirely. Dropped on error."""
        ...

    def existing(self, name: str) -> AbstractAsyncContextManager[Path | None]:
        """A local path to read `name` from, good inside the context; None when there is no such file."""
        ...

    async def publish(self, folder: str) -> None:
        """Put a crawl's merged file, which is there, into the table of query engines, over an earlier one.

        Only in a bucket: a folder has no such table, and nothing to do.
        """
        ...

    async def drop(self, folder: str) -> None:
        """Remove a crawl's folder, the files beside it that carry its name, and its file of the table. Nothing there:
        nothing to do."""
        ...


def reaches(home: str, address: str) -> bool:
    """Whether a process of the stack whose bucket is `home` may write to a store: of buckets only into that one, and to
    no folder. Where `home` is no bucket there is no stack."""
    return not home.startswith("s3://") or f"{address}/".startswith(f"{home}/")


def open_store(address: str) -> Store:
    """From a `--store` address to a store; touches nothing. UsageError for an address of no known form."""
    scheme, separator, _ = address.partition("://")
    if not address:
        raise UsageError(f"--store is empty: use {FORMS}")
    if not separator and not re.match(r"(file|s3):", address):
        return _directory(Path(address).absolute(), str(Path(address).absolute()))
    parts = urlsplit(address)
    if scheme == "file":
        if parts.netloc not in ("", "localhost") or len(parts.path) < 2:
            raise UsageError(f"--store {address!r} is no absolute path: write file:///dir")
        return _directory(Path(unquote(parts.path)), address)
    if scheme == "s3":
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc):
            raise UsageError(f"--store {address!r} names no bucket: write s3://bucket/prefix")
        return _s3(parts.netloc, address.removeprefix(f"s3://{parts.netloc}").strip("/"), address)
    raise UsageError(f"--store {address!r} is of no known form: use {FORMS}")


def _directory(path: Path, address: str) -> Store:
    from crawler.archive.directory import DirectoryStore

    return DirectoryStore(path, address)


def _s3(bucket: str, prefix: str, address: str) -> Store:
    try:
        from crawler.archive.s3 import S3Store
    except ModuleNotFoundError as error:
        raise UsageError(f"--store s3://… needs the AWS client ({error.name}): pip install 'crawler[aws]'") from None
    return S3Store(bucket, prefix, address)
