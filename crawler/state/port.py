"""The port: what the crawl loop needs from a state, cut at intents.

A backend implements `CrawlState` honestly or not at all; `tests/contract` holds one suite that runs over every one.
Reading this file should be enough to write another.

Rules for every method

- Batches in, one answer an item out, in input order. "Known" and "lost" are answers, not exceptions.
- Every method may be called again after StateUnavailable: the call may or may not have happened, and happening twice
  does no harm.
- Nothing but the errors of `crawler.errors` escapes: StateUnavailable when the state did not answer (repeat),
  StateMismatch when opening something this version does not understand (fatal).
- Many tasks of one process call one state concurrently; many processes work on one state at the same time.
- `crawl` is a crawl's id. Crawls on one state share the gates, the facts and the workers, and nothing else.

What every backend owes

- A page once added ends as done, skipped or dead, whatever is killed when. It is pending, leased or finished, and only
  a settlement finishes it.
- One gate a host for the whole state. A turn at a gate is taken atomically; turns of one gate are at least the gate's
  interval apart, and nobody saves them up: after a pause the next turn is now, not a burst. A turn that its holder
  did not use in time is void.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from crawler.config import CrawlSettings
from crawler.model import (
    Added,
    Beat,
    Counts,
    CrawlRecord,
    Health,
    HostState,
    Lease,
    Page,
    PageState,
    Phase,
    Settled,
    Verdict,
    Why,
)

WriteRows = Callable[[CrawlRecord, str, Sequence[tuple[Lease, Verdict]]], Awaitable[None]]
"""Given by whoever opens a state that may end pages by itself: makes the rows of pages that are about to end durable in
their crawl's archive, which is at the state's `home` unless the crawl has a store of its own. Errors: StoreError, in
one line; then those pages do not end."""


@runtime_checkable
class CrawlState(Protocol):
    """Frontier, visited set, host gates and ledger of the crawls at one address."""

    @property
    def home(self) -> str:
        """The store that goes with this state unless the user names another: the folder of a file, a stack's bucket;
        "" when there is none."""
        ...

    # ---------------------------------------------------------------- crawls

    async def create(self, crawl: CrawlRecord) -> CrawlRecord:
        """Write a crawl's record unless one with its id exists; return what is stored.

        A lease of None in its settings is the state's own: a backend whose queue has one fills it in. A `dedup` that
        the state has not: UsageError, and nothing is written.
        """
        ...

    async def crawls(self) -> list[CrawlRecord]:
        """All crawls on this state, oldest first."""
        ...

    async def amend(self, crawl: str, settings: CrawlSettings) -> None:
        """Replace a crawl's settings. Workers follow within half a minute.

        Unknown crawl, or another `dedup`: UsageError, and nothing is written.
        """
        ...

    async def pause(self, crawl: str) -> bool:
        """Hand out no page of a crawl until `resume`; False: it is paused already, or complete, and nothing changed.

        It keeps all that it has. Live leases go on, are extended and settled, and pages are added as ever. Claims obey
        at once, or where records are remembered within seconds; other crawls' cost no more, however much waits here.
        Durable when this returns. A crawl that becomes complete is paused no longer. Unknown crawl: UsageError.
        """
        ...

    async def resume(self, crawl: str) -> bool:
        """End a crawl's pause; False: it was not paused. What waits is claimable again, if not at once, then within a
        minute. Unknown crawl: UsageError."""
        ...

    # ---------------------------------------------------------------- visited set and frontier

    async def add(self, crawl: str, pages: Sequence[Page]) -> list[Added]:
        """Insert each page that is absent and queue it; atomic per page.

        NEW: inserted now and, when this returns, in the frontier (or, with `skip`, counted as skipped).
        KNOWN: was there; never resets a page, whatever its phase. With `dedup` bloom once in a million also for one
        that was not there.
        AGAIN: was there, and this same parent (or, for a seed, a seed) had inserted it. When the parent was
        redelivered, or the page is a seed, a page that was recorded but perhaps not queued is queued again; a page
        too many on a queue is harmless.

        The same digest may occur more than once in a call: the first counts. A page without parent is a seed: its
        `site` comes into the crawl's scope. Adding to a completed crawl opens it again.
        If the process dies here: pages of the call are either absent, or repeated by the parent's next delivery.
        """
        ...

    async def claim(self, limit: int, crawl: str | None = None) -> list[Lease]:
        """Hand out at most `limit` pages (of one crawl, or of any) whose host's gate opens soon.

        At most one live lease a page. Expired leases come back first. Best priority first, then lower depth, then
        first found; hosts in turn, so that none starves another. Each lease comes with a turn at its gate, taken in
        the same step, `start_at` at most a few seconds away; a crawl's rate of 0 means that no turn is needed unless
        the gate has an interval or is held. The interval between turns is the largest of the gate's own (`hold`), its
        health's gap and the crawl's.
        A limit that is used up (max_pages counts the crawl's pages done, max_pages_per_host those behind one gate;
        max_time counts from the record's `started_at`) hands the pages that it ends out with `limit` set, without a
        turn. So does a host whose health says that it is down. Never are more pages leased than a limit has room for.

        Unless the crawl's rate is 0, no turn is taken while in_flight_per_host requests occupy the gate (`occupy`).
        Where health does not say `prompt`, turns whose start is later than three quarters of an interval ago count
        like occupants: they may have become requests of which nobody knows yet that they take long.
        `[]` means nothing now, not the end. May wait up to a few seconds for work, never longer.
        If the process dies here: the leases expire after the crawl's `lease` seconds and come back.
        """
        ...

    async def settle(self, endings: Sequence[tuple[Lease, Verdict]]) -> list[Settled]:
        """End leases. The page's outcome, the counters and the release of the lease are durable when this returns.

        LOST: the lease is no longer the holder's (expired and handed on, or the page already finished): nothing
        changed. DONE, SKIPPED and DEAD finish a page for good. RETRY counts one attempt more; DEFER gives the
        attempt back; both make the page claimable at `at` (at once when `at` has passed) and start `receives` anew:
        at 1, or at 2 for a verdict with `again`.
        """
        ...

    async def extend(self, leases: Sequence[Lease]) -> list[Settled]:
        """Heartbeat: make live leases last the crawl's `lease` seconds from now. LOST: it is no longer ours."""
        ...

    # ---------------------------------------------------------------- the gate

    async def turn(self, crawl: str, gate: str) -> float:
        """Take one more turn at a gate (robots, redirect hop, sitemap): the time at which that request may start.

        The turn is the caller's whatever it says; a caller that cannot wait so long lets it lapse.
        """
        ...

    async def hold(
        self, gate: str, *, until: float = 0.0, why: Why = Why.BACKOFF, interval: float | None = None
    ) -> None:
        """Raise a gate: no turn before `until`, for the reason `why`; never lowers it, what closes it longer stays with
        its reason. `interval`, when given, replaces the gate's own minimum of seconds between turns, a Crawl-delay (0
        removes it). Every worker obeys from its next turn on."""
        ...

    async def diagnose(self, gate: str, health: Health) -> None:
        """Replace what is known of a host's health; the last writer wins. A longer gap counts from the gate's latest
        turn on. Every lease that is taken at the gate from now on tells it."""
        ...

    async def occupy(self, gate: str, flight: str, until: float) -> None:
        """A request to this gate's host takes long: it counts among those in flight until `until`, or until a call
        with `until` = 0 says that it has ended. `flight` (at most 100 characters) identifies it. Should the process
        die, the gate is free again at `until`."""
        ...

    async def upheld(self, lease: Lease) -> float:
        """Asked right before the request of a turn that was taken a while ago: when the request may start. The lease's
        `start_at`, or a later time when the gate was raised since; a state that takes turns at most a second ahead
        answers without a look."""
        ...

    # ---------------------------------------------------------------- what the fleet knows

    async def in_scope(self, crawl: str, sites: Sequence[str]) -> list[bool]:
        """For each site, whether a seed has brought it into the crawl's scope."""
        ...

    async def recall(self, names: Sequence[str]) -> list[bytes | None]:
        """Facts by name; None for one that is absent or expired."""
        ...

    async def remember(self, name: str, value: bytes, seconds: float, *, if_absent: bool = False) -> bool:
        """Keep a fact (at most 300 kB) for `seconds`. With `if_absent`: only when there is none that lives, and the
        answer says whether it was kept: of many callers exactly one gets True."""
        ...

    # ---------------------------------------------------------------- fleet and ledger

    async def beat(self, beat: Beat) -> None:
        """A worker's sign of life, every few seconds. `at` = 0 says goodbye: it is no longer among `workers`."""
        ...

    async def workers(self, within: float = 60.0) -> list[Beat]:
        """Latest beat of each worker that gave one within so many seconds, an hour at most, and has not said goodbye
        since: one whose beat is older than a minute fell silent."""
        ...

    async def release(self, worker: str) -> int:
        """A supervisor knows that `worker` (the name it opened the state with) is gone: make its leases claimable at
        once, count how many. A backend whose queue alone can do so answers 0 and lets them expire."""
        ...

    async def counts(self, crawl: str) -> Counts:
        """The ledger's sums; `exact` says whether they can be off. Unknown crawl: UsageError."""
        ...

    def hosts(self, crawl: str) -> AsyncIterator[HostState]:
        """Every host gate behind which the crawl has pages, in no order. May read all of the ledger; for `status`.

        Unknown crawl: UsageError.
        """
        ...

    async def complete(self, crawl: str) -> bool:
        """True exactly when nothing of the crawl is pending, leased or delayed, and then the record is marked so.

        Authoritative: a page of the crawl in flight anywhere makes it False. May cost more than `counts`, which
        callers ask first.
        """
        ...

    def ledger(self, crawl: str, phase: Phase | None = None) -> AsyncIterator[PageState]:
        """Every page of a crawl (in one phase, or in any), in no order. May read all of it; for `verify` and `dead`.

        A crawl with `dedup` bloom lists no done or skipped page whose record has left. Unknown crawl: UsageError.
        """
        ...

    # ---------------------------------------------------------------- repair

    async def revive(self, crawl: str, pages: Sequence[tuple[bytes, float]]) -> list[bool]:
        """Make dead pages, by digest, claimable from a given time on, with all their attempts again.

        False: the page is not dead (any more), and nothing changed; so repeating is harmless. Opens a completed crawl
        again.
        """
        ...

    async def sweep(self, crawl: str) -> int:
        """Queue again what is recorded but neither queued, leased, delayed nor finished; answers how many.

        It should always answer 0: such a page is the trace of a crash that nothing else has mended yet. A backend in
        which record and queue are one can show nothing else. Errors: StoreError, as below.
        """
        ...

    async def drain_dead_letters(self) -> int:
        """End the pages that the queue itself gave up, since their workers died each time, as dead; answers how many.

        A backend whose pages come back without end has none: the loop gives those up. Nor has a state that was opened
        by somebody who writes no rows: a page that has ended has one. Pages whose rows cannot be written stay as they
        are: StoreError, once the others have ended.
        """
        ...

    async def purge(self, crawl: str) -> None:
        """Drop all that is known of a crawl: record, pages, scope. Gates and facts stay, they belong to all crawls.

        Leases of it are LOST from now on. Large crawls are dropped in steps: if the process dies here, repeat. An
        unknown crawl: nothing to do.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and files. Leases stay; settle them first."""
        ...
