"""Which page seen before a page is a near duplicate of, by their similarity hashes. Bounded memory.

Two hashes that differ in three bits at most agree in one of their four blocks of 16 bits (Manku et al. 2007, 3): only
what agrees in one is compared.
"""

from __future__ import annotations

from array import array
from zlib import crc32

from crawler.simhash import NEAR, distance

REMEMBERED = 200_000
"""Pages remembered, the latest ones: some 50 MB with their URLs when there are so many."""

BLOCKS = 4

HEADS = 1 << 16
"""Chains of one block that pages are spread over, by host and block."""

STEPS = 200
"""Pages of one chain that are compared, the latest ones. Further ones are missed: links are then followed once more."""


class NearDuplicates:
    """Pages with their hashes; each is compared with those of its host alone.

    Pages have running numbers and lie in a ring. A chain leads from each page to the one before it with the same block;
    a number that has left the ring ends it.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self.pages = self.links = 0
        """How many near duplicates were left out, and how many links of theirs."""
        self._size = remembered
        self._next = 1
        self._urls: list[str] = []
        self._hosts = array("I")
        self._hashes = array("q")
        self._heads = [array("Q", bytes(8 * HEADS)) for _ in range(BLOCKS)]
        self._before = [array("Q") for _ in range(BLOCKS)]

    def leave_out(self, links: int) -> None:
        """Count a near duplicate whose links are not followed."""
        self.pages += 1
        self.links += links

    def find(self, host: str, simhash: int) -> str | None:
        """The URL of a page of the host whose hash differs in few bits, the latest one."""
        name, size, last = crc32(host.encode()), self._size, self._next - 1
        found = 0
        for block, head in enumerate(_heads(name, simhash)):
            number, before = self._heads[block][head], self._before[block]
            steps = STEPS
            while number > max(last - size, found) and steps:
                at = number % size
                if self._hosts[at] == name and distance(self._hashes[at], simhash) <= NEAR:
                    found = number
                number = before[at]
                steps -= 1
        return self._urls[found % size] if found else None

    def add(self, host: str, simhash: int, url: str) -> None:
        """Remember a page; the oldest one goes when there are too many."""
        name, at = crc32(host.encode()), self._next % self._size
        while len(self._urls) <= at:  # grows with the first round
            self._urls.append("")
            self._hosts.append(0)
            self._hashes.append(0)
            for before in self._before:
                before.append(0)
        self._urls[at], self._hosts[at], self._hashes[at] = url, name, simhash
        for block, head in enumerate(_heads(name, simhash)):
            self._before[block][at] = self._heads[block][head]
            self._heads[block][head] = self._next
        self._next += 1


def _heads(host: int, simhash: int) -> list[int]:
    """Where the chains of a hash begin, a block each."""
    return [(simhash >> 16 * block ^ host) % HEADS for block in range(BLOCKS)]
