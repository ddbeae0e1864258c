"""One SQLite file: opening it, a transaction a call on a thread of its own, and its errors in our words.

Durability: `synchronous=NORMAL` in WAL mode. A killed process loses nothing that was committed. A power cut may roll
the file back to an earlier transaction, never to a mixture: a page's children are committed before the page is
settled, so pages settled since then are fetched once more, and none is lost. What cannot be found again by fetching
(a crawl's record, its seeds) is written with `durable=True`, which syncs the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from crawler.errors import StateError, StateMismatch, StateMissing, StateUnavailable, UsageError

T = TypeVar("T")

APPLICATION_ID = 0x43726177  # "Craw", in the file's header beside the schema version
SCHEMA_VERSION = 3
OLDEST_VERSION = 2  # that `_upgrade` brings up to date
BUSY_SECONDS = 60.0
CACHE_KIB = 64 * 1024  # holds the digests of a million pages
LOG_PAGES = 8000  # of 4 KiB before the log is copied into the file: new digests are scattered, so copy many at a time

MEMORY = ":memory:"


class Database:
    """A connection and the one thread that uses it, so that waiting for another process never blocks the event loop."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        self._closed = False

    @classmethod
    async def open(cls, path: str, *, create: bool) -> Database:
        """Open the state at `path`; `create` permits to make it. StateMissing, StateMismatch, StateUnavailable."""
        database = cls(path)
        try:
            await asyncio.wrap_future(database._thread.submit(database._open, create))
        except BaseException:
            await database.close()
            raise
        return database

    @property
    def folder(self) -> str:
        """Where the file lies; "" for a database in memory."""
        return "" if self._path == MEMORY else str(Path(self._path).absolute().parent)

    def submit(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> Future[T]:
        """Run `work` in one write transaction, behind the calls before it. Raises StateUnavailable once closed."""
        if self._closed:
            raise StateUnavailable(f"the crawl state {self._path} was closed")
        return self._thread.submit(self._write, work, durable)

    async def write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        """`submit`, and wait for the result."""
        return await asyncio.wrap_future(self.submit(work, durable=durable))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which only reads; it waits for no writer."""
        if self._closed:
            raise StateUnavailable(f"the crawl state {self._path} was closed")
        return await asyncio.wrap_future(self._thread.submit(self._read, work))

    async def close(self) -> None:
        """Finish the calls under way, make everything durable, let go of the file. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        last = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        await asyncio.wrap_future(last)

    # ------------------------------------------------------------ on the thread

    def _open(self, create: bool) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection = _connect(self._path, create)
                return
            except sqlite3.Error as error:
                # Several processes that open a new file at once can be told "locked" without the busy handler
                # having been asked (switching to WAL needs the file alone).
                if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() > deadline:
                    raise _translated(error, self._path) from error
                time.sleep(0.01)
            except OSError as error:
                raise StateUnavailable(f"cannot make the crawl state {self._path}: {error.strerror}") from error

    def _write(self, work: Callable[[sqlite3.Connection], T], durable: bool) -> T:
        db = self._open_connection()
        try:
            if durable:
                db.execute("PRAGMA synchronous=FULL")
            try:
                # The write lock is taken first: a transaction that began as a reader could not wait for it.
                db.execute("BEGIN IMMEDIATE")
                result = work(db)
                db.execute("COMMIT")
                return result
            finally:
                if db.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                if durable:
                    db.execute("PRAGMA synchronous=NORMAL")
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise _translated(error, self._path) from error

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._open_connection())
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise _translated(error, self._path) from error

    def _close(self) -> None:
        if self._connection is None:
            return
        try:
            self._connection.execute("PRAGMA wal_checkpoint(FULL)")
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        finally:
            self._connection.close()
            self._connection = None

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StateUnavailable(f"the crawl state {self._path} was closed")
        return self._connection


@contextlib.contextmanager
def snapshot(db: sqlite3.Connection) -> Iterator[None]:
    """Let what is read inside be of one moment. Holds up no writer."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        db.execute("ROLLBACK")


def _connect(path: str, create: bool) -> sqlite3.Connection:
    if path != MEMORY:
        if create:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        elif not Path(path).exists():
            raise StateMissing(f"there is no crawl state at {path}")
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256)
    try:
        if not _is_ours(db, path):
            if not create:
                raise StateMismatch(f"{path} is not a crawl state: it is empty")
            _make(db, path)
        _upgrade(db)
        _use_wal(db, path)
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    except BaseException:
        db.close()
        raise
    return db


def _is_ours(db: sqlite3.Connection, path: str) -> bool:
    """True for a state of a version that can be read, False for an empty file; otherwise StateMismatch. Changes
    nothing."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if (application, version, tables) == (0, 0, 0):
        return False
    if application != APPLICATION_ID:
        raise StateMismatch(f"{path} is not a crawl state: it is another program's database")
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise StateMismatch(
            f"{path} is a crawl state of version {version}, this crawler reads version {SCHEMA_VERSION}: "
            "use the crawler that made it, or start over in another folder"
        )
    return True


def _make(db: sqlite3.Connection, path: str) -> None:
    _use_wal(db, path)
    db.execute("BEGIN IMMEDIATE")
    if _is_ours(db, path):  # another process was first
        db.execute("ROLLBACK")
        return
    for statement in files(__package__).joinpath("schema.sql").read_text("utf-8").split(";\n"):
        db.execute(statement)
    db.execute(f"PRAGMA application_id={APPLICATION_ID}")
    db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    db.execute("COMMIT")


def _upgrade(db: sqlite3.Connection) -> None:
    """Bring a state of an older version up to date. Workers of that version that have it open may go on: what is added
    has defaults, and they do not look at it."""
    if db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,):
        return
    db.execute("BEGIN IMMEDIATE")
    if db.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):  # else another process was first
        db.execute("ALTER TABLE crawl ADD COLUMN paused INTEGER NOT NULL DEFAULT 0")
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    db.execute("COMMIT")


def _use_wal(db: sqlite3.Connection, path: str) -> None:
    if path == MEMORY or db.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        return
    if db.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
        raise StateUnavailable(f"the file system of {path} cannot share a database: keep the state on a local disk")


def _code(error: sqlite3.Error) -> int:
    """The primary result code: extended codes carry it in their low byte."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _translated(error: sqlite3.Error | UnicodeEncodeError, path: str) -> StateError | UsageError:
    if isinstance(error, UnicodeEncodeError):  # a crawl, host or worker named by bytes that were no UTF-8
        return UsageError(f"{error.object!r} is not text")
    match _code(error):
        case sqlite3.SQLITE_NOTADB:
            return StateMismatch(f"{path} is not a crawl state: it is not a database")
        case sqlite3.SQLITE_CORRUPT:
            return StateMismatch(f"the crawl state {path} is damaged ({error}): restore it, or start over")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StateUnavailable(f"the crawl state {path} was locked by another process for {BUSY_SECONDS:.0f} s")
        case sqlite3.SQLITE_FULL:
            return StateUnavailable(f"no space left for the crawl state {path}: free some, then run the same again")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StateUnavailable(
                f"cannot write the crawl state {path}: check that the folder exists and is writable"
            )
        case _:
            return StateUnavailable(f"the crawl state {path} did not answer: {error}")
