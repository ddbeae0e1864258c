"""What a process has lately found in the visited set."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Parent = TypeVar("Parent")

_REMEMBERED = 1 << 16


class SeenPages(Generic[Key, Parent]):
    """Pages that are known, with the parents that added them, in the backend's own words.

    Most links of a site are its menus: they are answered from here. What is in the set stays in it with its parent
    (or, in a filter, without it), and a key holds a crawl's number that is never used again, so this cannot be wrong;
    only what the backend has committed may be put in. Bounded: the older half of what is remembered goes when the
    newer is full.
    """

    def __init__(self) -> None:
        self._new: dict[Key, Parent] = {}
        self._old: dict[Key, Parent] = {}

    def get(self, page: Key) -> Parent | None:
        """The page's parent; None when the page is not remembered."""
        parent = self._new.get(page)
        if parent is None and (parent := self._old.get(page)) is not None:
            self.put(page, parent)
        return parent

    def put(self, page: Key, parent: Parent) -> None:
        """Remember a page and its parent."""
        if len(self._new) >= _REMEMBERED:
            self._old, self._new = self._new, {}
        self._new[page] = parent
