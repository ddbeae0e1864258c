"""Which pages this process holds leases of: so that a second message of one is recognised, and limits count it."""

from __future__ import annotations

from collections import Counter


class Held:
    """Live leases by pk. Expired ones are dropped as they are met."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, float]] = {}
        self._by_crawl: Counter[str] = Counter()

    def __contains__(self, pk: str) -> bool:
        return pk in self._leases

    def add(self, pk: str, message: str, expires_at: float) -> None:
        """Hold a page by the message of this id."""
        if pk not in self._leases:
            self._by_crawl[_crawl(pk)] += 1
        self._leases[pk] = (message, expires_at)

    def extend(self, pk: str, expires_at: float) -> None:
        if pk in self._leases:
            self._leases[pk] = (self._leases[pk][0], expires_at)

    def drop(self, pk: str) -> None:
        if self._leases.pop(pk, None) is not None:
            self._by_crawl[_crawl(pk)] -= 1

    def message(self, pk: str, now: float) -> str:
        """Id of the message by which a live lease came, "" when there is none."""
        message, expires_at = self._leases.get(pk, ("", 0.0))
        if message and expires_at <= now:
            self.drop(pk)
            return ""
        return message

    def count(self, crawl: str) -> int:
        """Pages of a crawl held, some perhaps expired."""
        return self._by_crawl[crawl]


def _crawl(pk: str) -> str:
    return pk.rpartition("#")[0]
