"""Traps that only many pages show: kinds of URLs that bring the same bodies over and over, or multiply without end.

A worker judges by what it has seen itself, in bounded memory. A verdict is told to the fleet before it is first acted
on: should this process die between recording a link as skipped and writing its row, whoever gets the page next must
come to the same verdict, or the row would be missing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from hashlib import sha256
from time import monotonic
from typing import Generic, TypeVar

from crawler import traps
from crawler.state.port import CrawlState

DUPLICATE, PATTERN = "trap-duplicate", "trap-pattern"

TRIED, REPEATED = 50, 0.8
"""Pages of a kind before it is judged by its bodies, and the part of them seen before that is too much."""

RECENT = 100
"""Pages of a kind at which all its numbers are halved, so that the latest pages count most."""

BODIES = 64
"""Bodies remembered of a kind."""

PROBE = 100
"""One of so many links of a kind judged is followed all the same, so that a wrong verdict heals. Twice as many after
each that brought a known body, or a page with hundreds of such links would keep the crawl going."""

BUDGETS = {3: 20_000, 4: 2_000}
"""New URLs of one path with so many query parameters (or more) that a worker follows."""

VALUES = 250
"""A path on which one parameter has more different values than this has no budget: it names its pages by this
parameter. Filters that multiply have few values each."""

NAMES = 8
"""Parameters of a path whose values are told apart."""

DEEP, STEM = 4, 2
"""Paths without anything variable in them are of a kind by their first STEM segments when they have DEEP or more."""

KINDS_OF_BODY, KINDS_OF_QUERY = 2_000, 500
"""Kinds that are remembered, the latest used: 10 to 20 MB each when a crawl has so many large ones."""

KEPT = 30 * 24 * 3600.0
"""Seconds for which the fleet knows of a verdict."""


def kind_of_body(url: str) -> str:
    """The pages among which a URL's body is looked for; "" where no trap is to be feared."""
    path, query = traps.split(url)
    pattern = traps.pattern(url)
    if query or not pattern.endswith(f"{path}?"):
        return pattern
    segments = path.split("/")[1:]
    return pattern[: -len(path) - 1] + "/".join(["", *segments[:STEM], "..."]) if len(segments) >= DEEP else ""


def kind_of_query(url: str) -> tuple[str, int]:
    """The URLs with which one shares its budget, and the budget; 0 where there is none."""
    _, query = traps.split(url)
    parameters = min(query.count("&") + 1, max(BUDGETS)) if query else 0
    if parameters not in BUDGETS:
        return "", 0
    return f"{traps.pattern(url).partition('?')[0]}?{parameters}", BUDGETS[parameters]


class Bodies:
    """How many pages of a kind came, and how many of them with a body seen before."""

    __slots__ = ("_digests", "_left", "_pages", "_probe", "_repeats")

    def __init__(self) -> None:
        self._pages = self._repeats = 0
        self._digests: set[int] = set()
        self._probe = self._left = PROBE

    @property
    def bad(self) -> bool:
        return self._pages >= TRIED and self._repeats > REPEATED * self._pages

    def add(self, digest: int) -> None:
        """Take a page's body in."""
        known = digest in self._digests
        self._pages += 1
        self._repeats += known
        if known and self.bad:
            self._probe *= 2
        elif not known:
            self._probe, self._left = PROBE, min(self._left, PROBE)
        if not known and len(self._digests) < BODIES:
            self._digests.add(digest)
        if self._pages >= RECENT:
            self._pages, self._repeats = self._pages // 2, self._repeats // 2

    def probe(self) -> bool:
        """Whether the next link is to be followed in spite of the verdict."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self._probe
        return True


class Budget:
    """How many URLs of a kind were followed, and the values of its parameters while one may still name its pages."""

    __slots__ = ("_spent", "_total", "_values")

    def __init__(self, total: int) -> None:
        self._total, self._spent = total, 0
        self._values: dict[str, set[int]] | None = {}

    @property
    def bad(self) -> bool:
        return self._spent >= self._total

    def add(self, query: str) -> None:
        """Take a URL in that is followed."""
        if self._values is None:
            return
        self._spent += 1
        for piece in query.split("&"):
            name, _, value = piece.partition("=")
            if name not in self._values and len(self._values) >= NAMES:
                continue
            values = self._values.setdefault(name, set())
            values.add(hash(value))
            if len(values) > VALUES:
                self._values, self._spent = None, 0
                return
        if self.bad:
            self._values.clear()


K = TypeVar("K", Bodies, Budget)


class _Recent(Generic[K]):
    """The kinds used latest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kinds: OrderedDict[str, K] = OrderedDict()

    def get(self, name: str, make: Callable[[], K]) -> K:
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = make()
            if len(self._kinds) > self._limit:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(name)
        return kind


class TrapMemory:
    """One worker's memory of a crawl's kinds of URLs."""

    def __init__(self, state: CrawlState, crawl: str) -> None:
        self._state, self._crawl = state, crawl
        self._bodies: _Recent[Bodies] = _Recent(KINDS_OF_BODY)
        self._budgets: _Recent[Budget] = _Recent(KINDS_OF_QUERY)
        self._told: OrderedDict[str, float] = OrderedDict()  # verdict -> until when the fleet knows it (monotonic)
        self._untold: set[str] = set()

    def fetched(self, url: str, digest: str) -> None:
        """A page with links came: its URL, and the digest of its body (`sha256:` and hex)."""
        kind = kind_of_body(url)
        if kind:
            self._bodies.get(kind, Bodies).add(int(digest[7:23], 16))

    def judge(self, url: str) -> str:
        """Why a new link is not followed, "" when it is; counts it."""
        kind = kind_of_body(url)
        if kind:
            bodies = self._bodies.get(kind, Bodies)
            if bodies.bad and not bodies.probe():
                return self._verdict(DUPLICATE, kind)
        kind, total = kind_of_query(url)
        if kind:
            budget = self._budgets.get(kind, lambda: Budget(total))
            if budget.bad:
                return self._verdict(PATTERN, kind)
            budget.add(traps.split(url)[1])
        return ""

    def _verdict(self, reason: str, kind: str) -> str:
        name = self._name(reason, kind)
        if self._told.get(name, 0.0) < monotonic():
            self._untold.add(name)
        return reason

    async def tell(self) -> None:
        """Let the fleet know of the verdicts that were made since; to be called before they are acted on."""
        for name in list(self._untold):
            await self._state.remember(name, b"1", KEPT)
            self._told[name] = monotonic() + KEPT / 2
            self._untold.discard(name)
            if len(self._told) > KINDS_OF_BODY + KINDS_OF_QUERY:
                self._told.popitem(last=False)

    async def recall(self, links: Iterable[str]) -> dict[str, str]:
        """Of links that were perhaps judged before, by a worker that died: those of a kind that any worker found bad,
        with the reason. A page too many that is called skipped does no harm: what it ends as counts."""
        names: dict[str, list[tuple[str, str]]] = {}
        for url in links:
            for reason, kind in ((PATTERN, kind_of_query(url)[0]), (DUPLICATE, kind_of_body(url))):
                if kind:
                    names.setdefault(self._name(reason, kind), []).append((url, reason))
        asked = list(names)
        facts = await self._state.recall(asked) if asked else []
        return {url: reason for name, fact in zip(asked, facts, strict=True) if fact for url, reason in names[name]}

    def _name(self, reason: str, kind: str) -> str:
        return f"{reason}:{self._crawl}:{sha256(kind.encode()).hexdigest()[:32]}"
