"""A page's failed attempts: a short list in its row, written when one fails, so that no other page pays for it."""

from __future__ import annotations

import sqlite3

import msgspec

from crawler.errors import StateMismatch
from crawler.model import ERROR_LENGTH, HISTORY, Failure

_failures = msgspec.json.Decoder(tuple[Failure, ...])


def append(db: sqlite3.Connection, page: int, failure: Failure) -> None:
    """Count one more failed attempt of a page and keep it among the latest."""
    (blob,) = db.execute("SELECT history FROM page WHERE id = ?", (page,)).fetchone()
    kept = (*decoded(blob), Failure(failure.at, text(failure.reason), text(failure.error)[:ERROR_LENGTH]))[-HISTORY:]
    db.execute("UPDATE page SET failures = failures + 1, history = ? WHERE id = ?", (msgspec.json.encode(kept), page))


def decoded(blob: bytes | None) -> tuple[Failure, ...]:
    """The failures in a row's `history`, oldest first."""
    if blob is None:
        return ()
    try:
        return _failures.decode(blob)
    except msgspec.DecodeError as error:
        raise StateMismatch(f"a page's history was written by another version of the crawler: {error}") from None


def text(words: str) -> str:
    """Words as UTF-8 can hold them: a lone surrogate, which a server can cause, becomes "?"."""
    return words.encode("utf-8", "replace").decode("utf-8")
