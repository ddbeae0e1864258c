"""The words of the field, as plain values.

Times are Unix seconds (UTC, float); sizes are bytes; a digest is the first 16 bytes of SHA-256 of a URL's key.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from crawler.config import CrawlSettings


class Priority(IntEnum):
    """Where the words for priorities stand on the scale from 0 (claimed first) to LOWEST. The steps between are for
    boosts, which move a page up or down from its seed's place and are never clamped: 5 steps each way."""

    HIGH = 5
    NORMAL = 10
    LOW = 15


LOWEST = 20
"""The end of the scale of priorities."""


class Why(StrEnum):
    """What makes a gate as slow as it is."""

    DEFAULT = "default"
    """The crawl's own rate."""
    CRAWL_DELAY = "crawl-delay"
    RETRY_AFTER = "retry-after"
    RESPONSE_TIME = "response-time"
    """The host takes long to answer."""
    BACKOFF = "backoff"
    """The host failed lately."""
    DOWN = "down"
    """The host failed so often that it was given up."""


class Health(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How a host is doing, as its answers to the fleet show: kept at its gate, told with every lease.

    gap: seconds between turns that it needs beside the crawl's interval and the Crawl-delay; `why` says for what.
    prompt: it answers well within its interval, so turns may be taken ahead of the answers.
    failures: connections that failed, and refusals: answers 429 or 503, in a row over the whole fleet; `error` is the
    latest one's line, `host` the name it was asked by (of several behind one gate).
    down_until: it was given up until then (Unix seconds): its pages are handed out with `limit` HOST_DOWN.
    """

    gap: float = 0.0
    why: Why = Why.RESPONSE_TIME
    prompt: bool = False
    failures: int = 0
    error: str = ""
    down_until: float = 0.0
    refusals: int = 0
    host: str = ""


WELL = Health()
"""Nothing is known against the host, nor for it."""

HOST_DOWN = "host-down"
"""Limit of a lease whose host was given up; the page is a dead letter for this reason."""

MAX_PAGES, MAX_PAGES_PER_HOST, MAX_TIME = "max-pages", "max-pages-per-host", "max-time"
"""Limits of leases whose crawl has used them up; the page is skipped for this reason."""


class Parent(msgspec.Struct, frozen=True, gc=False):
    """The page on which a link was found.

    `redelivered` is True when the parent's lease had been handed out before: its children may then have been
    recorded without being queued, by a worker that died between the two.
    """

    digest: bytes
    url: str
    redelivered: bool = False


class Page(msgspec.Struct, frozen=True, gc=False):
    """A URL on its way into the visited set and the frontier.

    `url` is what goes on the wire: absolute, ASCII, no fragment, no user info. `digest` identifies it.
    `gate` names the host gate that paces it. `site` is the unit of scope; a seed brings its site into scope.
    `skip`, when set, is the reason for which the page is recorded as skipped at once and never queued.
    `priority` is a place on the scale of `Priority`: the lower is claimed first.
    """

    url: str
    digest: bytes
    gate: str
    depth: int = 0
    priority: int = Priority.NORMAL
    site: str = ""
    parent: Parent | None = None
    skip: str = ""


class Added(StrEnum):
    """What `add` did with a page."""

    NEW = "new"
    KNOWN = "known"
    AGAIN = "again"
    """Known, but it was this same parent that added it: what follows from a new page may be repeated."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to work on one page until `expires_at`.

    `token` fences the settlement; it means something to its backend alone. `attempt` is 1 plus the failures so far.
    `receives` counts how often the page was handed out since it last settled; above 1, a worker died holding it
    (or gave it back as `again`).
    `start_at` is a turn already taken at the host's gate: the request must not start earlier.
    `interval` is the seconds between turns in force at the gate then (0: none is needed), `health` how the host is.
    `limit`, when set, names the limit that is used up (the page is to be skipped), or is HOST_DOWN (it is to be a
    dead letter); no turn was taken for it.
    """

    crawl: str
    url: str
    digest: bytes
    gate: str
    depth: int
    priority: int
    parent_url: str
    discovered_at: float
    token: str
    attempt: int
    receives: int
    start_at: float
    expires_at: float
    limit: str = ""
    interval: float = 0.0
    health: Health = WELL


class Ending(StrEnum):
    """How a lease ends."""

    DONE = "done"
    SKIPPED = "skipped"
    DEAD = "dead"
    RETRY = "retry"
    DEFER = "defer"


FINISHED = frozenset({Ending.DONE, Ending.SKIPPED, Ending.DEAD})


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What to write for a lease. Made by the functions below.

    `at` is when a RETRY or DEFER may be claimed again. `reason` is one word or hyphenated words, `error` one line.
    `bytes` is what the page's record added to the archive, for the counters. `again`, on a RETRY or DEFER, says that
    links of the page may be recorded already, by this holder or one that died: the next lease has `receives` 2.
    """

    ending: Ending
    at: float = 0.0
    reason: str = ""
    error: str = ""
    bytes: int = 0
    again: bool = False


def done(size: int = 0) -> Verdict:
    """An HTTP answer came and is stored."""
    return Verdict(Ending.DONE, bytes=size)


def skipped(reason: str) -> Verdict:
    """Decided not to fetch."""
    return Verdict(Ending.SKIPPED, reason=reason)


def dead(reason: str, error: str) -> Verdict:
    """Attempts used up; kept as a dead letter."""
    return Verdict(Ending.DEAD, reason=reason, error=error)


def retry(at: float, reason: str, error: str) -> Verdict:
    """A failure that counts as an attempt; again at `at`."""
    return Verdict(Ending.RETRY, at=at, reason=reason, error=error)


def defer(at: float, *, again: bool = False) -> Verdict:
    """Nobody's fault: given back with its attempt, again at `at`."""
    return Verdict(Ending.DEFER, at=at, again=again)


class Settled(StrEnum):
    """Answer of `settle` for one lease."""

    SETTLED = "settled"
    LOST = "lost"
    """The lease was no longer ours; nothing was changed."""


class Phase(StrEnum):
    """Where a page stands in the ledger."""

    PENDING = "pending"
    LEASED = "leased"
    DONE = "done"
    SKIPPED = "skipped"
    DEAD = "dead"


HISTORY = 8
"""Failures of a page that are kept, the latest ones."""

ERROR_LENGTH = 200
"""Characters kept of an error in a page's history."""


class Failure(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One failed attempt: when it ended, its reason in a word, its error in a line."""

    at: float
    reason: str
    error: str


class PageState(msgspec.Struct, frozen=True, gc=False):
    """One line of the ledger, as `CrawlState.ledger` yields it.

    `reason` and `error` are those of a skipped or dead page. `failures` are its latest failed attempts, oldest first
    (at most HISTORY); `attempts` counts those since the page was found or revived. `parent` is the digest of the page
    it was found on, None for a seed.
    """

    digest: bytes
    url: str
    phase: Phase
    reason: str = ""
    error: str = ""
    gate: str = ""
    depth: int = 0
    attempts: int = 0
    discovered_at: float = 0.0
    parent: bytes | None = None
    failures: tuple[Failure, ...] = ()


class Counts(msgspec.Struct, frozen=True):
    """The ledger's sums. `exact` promises discovered = pending + leased + done + skipped + dead.

    `pending` includes pages that wait for a later time. `bytes` is the size of the records archived. `skips` and
    `deaths` say how many pages were skipped, or are dead letters, by reason.
    """

    discovered: int = 0
    pending: int = 0
    leased: int = 0
    done: int = 0
    skipped: int = 0
    dead: int = 0
    bytes: int = 0
    hosts: int = 0
    exact: bool = True
    skips: dict[str, int] = {}
    deaths: dict[str, int] = {}

    @property
    def outstanding(self) -> int:
        """URLs that have not ended."""
        return self.pending + self.leased


class HostState(msgspec.Struct, frozen=True, gc=False):
    """One host gate as a crawl sees it.

    next_at: when its next turn is (Unix seconds, in the past when it may be taken now). interval: seconds between
    turns (0: no limit). why: what made the larger of both. pending, leased, done: the crawl's pages behind it.
    """

    gate: str
    next_at: float
    interval: float
    why: Why
    pending: int
    leased: int
    done: int
    failures: int = 0
    error: str = ""


class CrawlRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl on a state. `store` is where its archive lies, as given to `--store`; `amended_at` is when its settings
    were last replaced (0: never). While it is `paused` no page of it is handed out."""

    id: str
    started_at: float
    settings: CrawlSettings
    store: str = ""
    completed_at: float | None = None
    updated_at: float = 0.0
    amended_at: float = 0.0
    paused: bool = False


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's sign of life. `rate` is pages a second over its last seconds, `held` its live leases."""

    worker: str
    at: float
    rate: float = 0.0
    held: int = 0
