"""A similarity hash of 64 bits: pages whose texts differ little have hashes that differ in few bits.

Each bit stands for one of 64 groups into which the pairs of neighbouring words fall by their hash; it is a bit of the
smallest hash of its group (b-bit min-wise hashing of Li and König 2010, with one permutation, Li et al. 2012). So a
bit changes when the pair that it was taken from is gone, or a smaller one has come: as many bits change as pairs did,
in proportion. The bits of Charikar's simhash (Manku et al. 2007) are signs of sums and change with the square root:
one sentence of forty there changes as much as a tenth of the page does here.

A hash is the same in every process and on every machine. It is a signed integer, as Parquet's int64: two of them are
compared in DuckDB by `bit_count(xor(a, b))`, in Athena by `bit_count(bitwise_xor(a, b), 64)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from operator import xor

from selectolax.lexbor import LexborHTMLParser

NEAR = 3
"""Bits in which the hashes of near duplicates differ at most."""

BITS = 64

FEWEST = 64
"""Different pairs of words below which a text has no hash: too little to tell pages apart by."""

SAMPLE = 16 * BITS
"""Smallest hashes that are looked at of a long text, about; the smallest of each group is among them, or almost."""

MAX_TEXT = 1_000_000
"""Characters of a text that are looked at."""

MEMO, MAX_WORD = 50_000, 40
"""Words whose hashes are remembered, and the length up to which a word is: some 15 MB."""

# Scripts that are written without blanks: each letter counts as a word. Thai to Myanmar, Khmer, and from the radicals
# over kana and Han to the full width forms, with the planes of rare Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")

_INVISIBLE = "script, style, template"


class _Hashes(dict[str, int]):
    """64-bit hashes of words, made when they are asked for. Bounded."""

    def __init__(self, person: bytes) -> None:
        super().__init__()
        self._person = person

    def __missing__(self, word: str) -> int:
        data = word.encode("utf-8", "surrogatepass")
        value = int.from_bytes(blake2b(data, digest_size=8, person=self._person).digest(), "big")
        if len(word) <= MAX_WORD:
            if len(self) >= MEMO:
                self.clear()
            self[word] = value
        return value


# Two functions, because the order of the words of a pair counts.
_left: Callable[[str], int] = _Hashes(b"left").__getitem__
_right: Callable[[str], int] = _Hashes(b"right").__getitem__


def visible_text(tree: LexborHTMLParser) -> str:
    """The text of a document's body without what is never shown. Removes that from the tree."""
    body = tree.body
    if body is None:
        return ""
    for node in body.css(_INVISIBLE):
        node.decompose()
    return body.text(separator=" ")


def simhash(text: str) -> int | None:
    """The hash of a text; None when there is too little of it."""
    found = _words(text[:MAX_TEXT])
    hashes = _smallest(found, SAMPLE)
    if len(hashes) < 4 * BITS and len(found) > SAMPLE:  # the same over and over: the sample has little of the text
        hashes = _smallest(found, len(found))
    if len(hashes) < FEWEST:
        return None
    smallest = {value % BITS: value for value in sorted(hashes, reverse=True)}
    result = 0
    for group in range(BITS):
        # An empty group takes another bit of the next one's: short texts leave some empty.
        step = next(step for step in range(BITS) if (group + step) % BITS in smallest)
        bit = smallest[(group + step) % BITS] >> (6 + step % 32) & 1
        result |= bit << group
    return result - (1 << BITS) if result >> (BITS - 1) else result


def distance(one: int, other: int) -> int:
    """In how many bits two hashes differ."""
    return ((one ^ other) & ((1 << BITS) - 1)).bit_count()


def _words(text: str) -> Sequence[str]:
    """What stands between blanks; letters of scripts that have none one by one, where much of the text is in them."""
    if text.isascii() or len(text.encode("utf-8", "surrogatepass")) < 1.4 * len(text):
        return text.split()
    return _WORD.findall(text)


def _smallest(words: Sequence[str], about: int) -> set[int]:
    """The smallest hashes of pairs of neighbouring words, about so many of them; all when there are fewer."""
    pairs = map(xor, map(_left, words), map(_right, words[1:]))
    if len(words) <= about:
        return set(pairs)
    limit = (1 << BITS) * about // len(words)
    return {value for value in pairs if value < limit}
