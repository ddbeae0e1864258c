"""Crawl records and the ledger's sums."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch, UsageError
from crawler.model import Counts, CrawlRecord

PENDING, LEASED, DONE, SKIPPED, DEAD, DELAYED = range(6)
"""`page.phase`. Delayed pages count as pending."""

SUMS = ("discovered", "pending", "leased", "done", "skipped", "dead", "bytes", "hosts")

SUM_OF = {PENDING: "pending", DELAYED: "pending", LEASED: "leased", DONE: "done", SKIPPED: "skipped", DEAD: "dead"}
"""Which of the sums a page counts in, by phase."""

Reasons = Counter[tuple[int, int, str]]
"""Pages by crawl, phase (SKIPPED or DEAD) and reason."""

_RECORD = "SELECT name, started_at, settings, store, completed_at, updated_at, amended_at, paused FROM crawl"
_ADD_UP = f"UPDATE crawl SET updated_at = ?, {', '.join(f'{name} = {name} + ?' for name in SUMS)} WHERE id = ?"  # noqa: S608
_settings = msgspec.json.Decoder(CrawlSettings)


@dataclass(slots=True)
class Crawl:
    """What the frontier needs of a crawl's row."""

    id: int
    name: str
    started_at: float
    settings: CrawlSettings
    done: int
    leased: int
    paused: bool

    def used_up(self, now: float) -> str:
        """The crawl limit that is used up, "" for none."""
        if self.settings.max_time is not None and now >= self.started_at + self.settings.max_time:
            return "max-time"
        if self.settings.max_pages is not None and self.done >= self.settings.max_pages:
            return "max-pages"
        return ""


def _decoded(settings: bytes) -> CrawlSettings:
    try:
        return _settings.decode(settings)
    except msgspec.DecodeError as error:
        raise StateMismatch(
            f"the settings of a crawl were written by another version of the crawler: {error}"
        ) from None


def find(db: sqlite3.Connection, name: str) -> Crawl:
    """The crawl called `name`. Raises UsageError when there is none, or only what a purge left of it."""
    row = db.execute(
        "SELECT purged, id, name, started_at, settings, done, leased, paused FROM crawl WHERE name = ?", (name,)
    ).fetchone()
    if row is None:
        raise UsageError(f"there is no crawl {name!r} on this state")
    if row[0]:
        raise UsageError(f"crawl {name!r} is being purged: if that was interrupted, purge it again")
    return _crawl(*row[1:])


class Settings(dict[int, CrawlSettings]):
    """The settings of crawls by row, each read once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        super().__init__()
        self._db = db

    def __missing__(self, crawl: int) -> CrawlSettings:
        (settings,) = self._db.execute("SELECT settings FROM crawl WHERE id = ?", (crawl,)).fetchone()
        self[crawl] = _decoded(settings)
        return self[crawl]


def with_pending(db: sqlite3.Connection) -> list[Crawl]:
    """The crawls that have pages to claim now or later."""
    query = "SELECT id, name, started_at, settings, done, leased, paused FROM crawl WHERE pending > 0"
    return [_crawl(*row) for row in db.execute(query).fetchall()]


def _crawl(id: int, name: str, started_at: float, settings: bytes, done: int, leased: int, paused: int) -> Crawl:
    return Crawl(id, name, started_at, _decoded(settings), done, leased, bool(paused))


def add_up(db: sqlite3.Connection, crawl: int, now: float, changes: Counter[str]) -> None:
    """Add `changes` to a crawl's sums, in the transaction that made them."""
    db.execute(_ADD_UP, (now, *(changes[name] for name in SUMS), crawl))


def add_up_reasons(db: sqlite3.Connection, changes: Reasons) -> None:
    """Add `changes` to the sums by reason, in the transaction that made them."""
    db.executemany(
        "INSERT INTO reason (crawl, phase, name, pages) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET pages = pages + excluded.pages",
        [(*key, pages) for key, pages in changes.items()],
    )


def reopen(db: sqlite3.Connection, crawl: int) -> None:
    """A crawl with pages to fetch is not complete."""
    db.execute("UPDATE crawl SET completed_at = NULL WHERE id = ? AND completed_at IS NOT NULL", (crawl,))


def create(db: sqlite3.Connection, record: CrawlRecord) -> CrawlRecord:
    db.execute(
        "INSERT INTO crawl (name, started_at, settings, store, completed_at, updated_at, amended_at, paused)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO NOTHING",
        (
            record.id,
            record.started_at,
            msgspec.json.encode(record.settings),
            record.store,
            record.completed_at,
            record.updated_at,
            record.amended_at,
            record.paused,
        ),
    )
    return _record(db.execute(_RECORD + " WHERE name = ?", (record.id,)).fetchone())


def every(db: sqlite3.Connection) -> list[CrawlRecord]:
    return [_record(row) for row in db.execute(_RECORD + " ORDER BY started_at, id").fetchall()]


def amend(db: sqlite3.Connection, now: float, name: str, settings: CrawlSettings) -> None:
    find(db, name)
    db.execute(
        "UPDATE crawl SET settings = ?1, updated_at = ?2, amended_at = ?2 WHERE name = ?3",
        (msgspec.json.encode(settings), now, name),
    )


def pause(db: sqlite3.Connection, now: float, name: str, paused: bool) -> bool:
    """Pause a crawl that is not complete, or end its pause; whether that changed anything."""
    changed = db.execute(
        "UPDATE crawl SET paused = ?1, updated_at = ?2 WHERE id = ?3 AND paused <> ?1 AND completed_at IS NULL",
        (paused, now, find(db, name).id),
    )
    return changed.rowcount == 1


def counts(db: sqlite3.Connection, name: str) -> Counts:
    row = db.execute(f"SELECT id, {', '.join(SUMS)} FROM crawl WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is None:
        raise UsageError(f"there is no crawl {name!r} on this state")
    reasons: dict[int, dict[str, int]] = {SKIPPED: {}, DEAD: {}}
    query = "SELECT phase, name, pages FROM reason WHERE crawl = ? AND pages > 0"
    for phase, reason, pages in db.execute(query, row[:1]).fetchall():
        reasons[phase][reason] = pages
    sums = dict(zip(SUMS, row[1:], strict=True))
    return Counts(**sums, exact=True, skips=reasons[SKIPPED], deaths=reasons[DEAD])


def complete(db: sqlite3.Connection, now: float, name: str) -> bool:
    """Mark a crawl that has nothing outstanding. The sums are exact, so they decide."""
    if counts(db, name).outstanding:
        return False
    db.execute(
        "UPDATE crawl SET completed_at = ?1, updated_at = ?1, paused = 0 WHERE name = ?2 AND completed_at IS NULL",
        (now, name),
    )
    return True


def _record(row: tuple[str, float, bytes, str, float | None, float, float, int]) -> CrawlRecord:
    name, started_at, settings, store, completed_at, updated_at, amended_at, paused = row
    return CrawlRecord(
        id=name,
        started_at=started_at,
        settings=_decoded(settings),
        store=store,
        completed_at=completed_at,
        updated_at=updated_at,
        amended_at=amended_at,
        paused=bool(paused),
    )
