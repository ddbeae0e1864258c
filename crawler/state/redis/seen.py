"""What this process has lately found in the visited set."""

from __future__ import annotations

_REMEMBERED = 1 << 16


class Seen:
    """Pages that are known, with the parents that added them.

    Most links of a site are its menus: they are answered from here. What is in the set stays in it with its parent
    (or, in a filter, without it), under a crawl's number that is never used again, so this cannot be wrong; only what
    the server has answered may be put in. Bounded: the older half of what is remembered goes when the newer is full.
    """

    def __init__(self) -> None:
        self._new: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}

    def get(self, page: bytes) -> bytes | None:
        """The page's parent; None when the page is not remembered."""
        parent = self._new.get(page)
        if parent is None and (parent := self._old.get(page)) is not None:
            self.put(page, parent)
        return parent

    def put(self, page: bytes, parent: bytes) -> None:
        """Remember a page (crawl's number and digest) and its parent's digest."""
        if len(self._new) >= _REMEMBERED:
            self._old, self._new = self._new, {}
        self._new[page] = parent
