"""Which pages this process holds leases of: so that a second message of one is recognised, and limits count it."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Held:
    """Live leases by pk. Expired ones are dropped as they are met."""

    def __init__(self) -> None:
        self._leases: dict[str, _Lease] = {}
        self._by_crawl: Counter[str] = Counter()
        self._by_gate: Counter[tuple[str, str]] = Counter()

    def __contains__(self, pk: str) -> bool:
        return pk in self._leases

    def add(self, pk: str, gate: str, message: str, expires_at: float) -> None:
        """Hold a page behind a gate by the message of this id."""
        self.drop(pk)
        self._by_crawl[_crawl(pk)] += 1
        self._by_gate[_crawl(pk), gate] += 1
        self._leases[pk] = _Lease(gate, message, expires_at)

    def extend(self, pk: str, expires_at: float) -> None:
        if pk in self._leases:
            self._leases[pk].expires_at = expires_at

    def drop(self, pk: str) -> None:
        lease = self._leases.pop(pk, None)
        if lease is not None:
            _less(self._by_crawl, _crawl(pk))
            _less(self._by_gate, (_crawl(pk), lease.gate))

    def clear(self) -> None:
        """Hold nothing any more."""
        self._leases.clear()
        self._by_crawl.clear()
        self._by_gate.clear()

    def message(self, pk: str, now: float) -> str:
        """Id of the message by which a live lease came, "" when there is none."""
        lease = self._leases.get(pk)
        if lease is not None and lease.expires_at <= now:
            self.drop(pk)
            return ""
        return lease.message if lease is not None else ""

    def count(self, crawl: str) -> int:
        """Pages of a crawl held, some perhaps expired."""
        return self._by_crawl[crawl]

    def count_behind(self, crawl: str, gate: str) -> int:
        """Those of them behind one gate."""
        return self._by_gate[crawl, gate]


class _Lease(msgspec.Struct, gc=False):
    gate: str
    message: str
    expires_at: float


def _less(counter: Counter[T], name: T) -> None:
    counter[name] -= 1
    if not counter[name]:
        del counter[name]


def _crawl(pk: str) -> str:
    return pk.rpartition("#")[0]
