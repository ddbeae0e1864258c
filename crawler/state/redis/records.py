"""Values as the scripts keep and answer them: crawl records, pages, leases."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from crawler.config import CrawlSettings
from crawler.errors import StateMismatch
from crawler.model import (
    HOST_DOWN,
    MAX_PAGES,
    MAX_PAGES_PER_HOST,
    MAX_TIME,
    Beat,
    Counts,
    CrawlRecord,
    Failure,
    Lease,
    PageState,
    Phase,
)
from crawler.state.redis import gates
from crawler.state.redis.clock import Clock

SUMS = ("discovered", "pending", "leased", "done", "skipped", "dead", "bytes", "hosts")

PENDING, LEASED, DONE, SKIPPED, DEAD, DELAYED = range(6)
"""`phase` of a page. Delayed pages count as pending."""

SEED = bytes(16)
"""In place of the digest of a parent."""

_LIMITS = ("", MAX_PAGES, MAX_PAGES_PER_HOST, MAX_TIME, HOST_DOWN)
"""`limit` of a lease."""

_PHASES = (Phase.PENDING, Phase.LEASED, Phase.DONE, Phase.SKIPPED, Phase.DEAD, Phase.PENDING)

FIELDS = ("name", "started_at", "settings", "store", "completed_at", "updated_at", "amended_at", "paused")
"""Of a crawl's hash: what makes its record."""

_PAGE = struct.Struct("<BHHIIdd12s16s")  # then gate and reason, each behind its length, then the URL
_LENGTH = struct.Struct("<I")
_LEASE = struct.Struct("<HB16sdd")  # then health, URL of the parent and page, each behind its length
_SUMS = struct.Struct("<8d")
_LINE = struct.Struct("<16s")  # then page and failures, each behind its length
_PRIORITY_BITS = 47

_settings = msgspec.json.Decoder(CrawlSettings)
_claimed = msgspec.msgpack.Decoder(tuple[float, list[tuple[str, str, float]]])
_failures = msgspec.msgpack.Decoder(tuple[Failure, ...])
_beats = msgspec.msgpack.Decoder(list[tuple[str, float, float, int]])


class StoredPage(NamedTuple):
    """A page as it is kept."""

    phase: int
    failures: int
    receives: int
    fence: int
    depth: int
    place: float
    found_at: float
    holder: bytes
    parent: bytes
    gate: str
    reason: str
    url: str

    @classmethod
    def of(cls, value: bytes) -> StoredPage:
        gate, at = _text(value, _PAGE.size)
        reason, at = _text(value, at)
        return cls._make((*_PAGE.unpack_from(value), gate, reason, value[at:].decode()))

    @property
    def priority(self) -> int:
        return int(self.place) >> _PRIORITY_BITS


def words(text: str) -> str:
    """A text as MessagePack takes it: a lone surrogate, which a server can cause, has no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def owner(worker: str) -> bytes:
    """Eight bytes by which pages remember who holds them."""
    return hashlib.blake2s(worker.encode("utf-8", "replace"), digest_size=8).digest()


# ---------------------------------------------------------------- crawls


def limits(settings: CrawlSettings) -> tuple[object, ...]:
    """Fields and values of a crawl's hash that the scripts go by."""
    return (
        "settings",
        msgspec.json.encode(settings).decode(),
        "interval",
        settings.interval,
        "lease",
        settings.lease_seconds,
        "max_pages",
        settings.max_pages or "",
        "max_pages_per_host",
        settings.max_pages_per_host or "",
        "max_time",
        settings.max_time or "",
        "in_flight_per_host",
        settings.in_flight_per_host,
    )


def crawl_record(values: Sequence[bytes | None]) -> CrawlRecord:
    """A record from the values of FIELDS. Raises StateMismatch for settings that this version cannot read."""
    name, started_at, settings, store, completed_at, updated_at, amended_at, paused = values
    try:
        decoded = _settings.decode(settings or b"")
    except msgspec.DecodeError as error:
        raise StateMismatch(
            f"the settings of a crawl were written by another version of the crawler: {error}"
        ) from None
    return CrawlRecord(
        id=(name or b"").decode(),
        started_at=float(started_at or 0),
        settings=decoded,
        store=(store or b"").decode(),
        completed_at=None if completed_at is None else float(completed_at),
        updated_at=float(updated_at or 0),
        amended_at=float(amended_at or 0),
        paused=paused is not None,
    )


def counts(sums: bytes, reasons: Sequence[bytes]) -> Counts:
    """What `counts.lua` answered: the sums; names, each a phase and a reason, and how many pages."""
    found: dict[int, dict[str, int]] = {SKIPPED: {}, DEAD: {}}
    for name, number in zip(reasons[::2], reasons[1::2], strict=True):
        found[int(name[:1])][name[1:].decode("utf-8", "replace")] = int(number)
    values = dict(zip(SUMS, map(int, _SUMS.unpack(sums)), strict=True))
    return Counts(**values, exact=True, skips=found[SKIPPED], deaths=found[DEAD])


# ---------------------------------------------------------------- pages


def leases(reply: Sequence[bytes], clock: Clock) -> list[Lease]:
    """What `claim.lua` answered, in the worker's time."""
    now, crawls = _claimed.decode(reply[0])
    clock.learn(now)
    found, at, blob = [], 0, reply[1]
    while at < len(blob):
        index, limit, digest, start, interval = _LEASE.unpack_from(blob, at)
        told, at = _piece(blob, at + _LEASE.size)
        parent_url, at = _text(blob, at)
        value, at = _piece(blob, at)
        name, number, lasts = crawls[index - 1]
        page = StoredPage.of(value)
        found.append(
            Lease(
                crawl=name,
                url=page.url,
                digest=digest,
                gate=page.gate,
                depth=page.depth,
                priority=page.priority,
                parent_url=parent_url,
                discovered_at=page.found_at,
                token=f"{number}.{page.fence}",
                attempt=page.failures + 1,
                receives=page.receives,
                start_at=clock.to_local(start),
                expires_at=clock.to_local(now + lasts),
                limit=_LIMITS[limit],
                interval=interval,
                health=gates.health(told, clock),
            )
        )
    return found


def token(lease: Lease) -> tuple[str, int]:
    """Number of the crawl and fence, from a lease's token."""
    number, _, fence = lease.token.partition(".")
    return number, int(fence)


def phases(phase: Phase | None) -> list[int]:
    """How pages of a phase (None: of any) are marked."""
    return [mark for mark, each in enumerate(_PHASES) if phase is None or each is phase]


def page_states(blob: bytes) -> Iterator[PageState]:
    """The lines that `ledger.lua` answered."""
    at = 0
    while at < len(blob):
        (digest,) = _LINE.unpack_from(blob, at)
        value, at = _piece(blob, at + _LINE.size)
        history, at = _piece(blob, at)
        page = StoredPage.of(value)
        failures = _failures.decode(history) if history else ()
        yield PageState(
            digest=digest,
            url=page.url,
            phase=_PHASES[page.phase],
            reason=page.reason,
            error=failures[-1].error if page.phase == DEAD and failures else "",
            gate=page.gate,
            depth=page.depth,
            attempts=page.failures,
            discovered_at=page.found_at,
            parent=None if page.parent == SEED else page.parent,
            failures=failures,
        )


def beats(reply: bytes, clock: Clock) -> list[Beat]:
    """Workers by name."""
    return [
        Beat(worker=name, at=clock.to_local(at), rate=rate, held=held)
        for name, at, rate, held in sorted(_beats.decode(reply))
    ]


def _piece(blob: bytes, at: int) -> tuple[bytes, int]:
    """A value behind its length, and where the next one begins."""
    (length,) = _LENGTH.unpack_from(blob, at)
    at += _LENGTH.size
    return blob[at : at + length], at + length


def _text(blob: bytes, at: int) -> tuple[str, int]:
    value, at = _piece(blob, at)
    return value.decode("utf-8", "replace"), at
