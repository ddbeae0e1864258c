"""A similarity hash of 64 bits: pages whose texts differ little have hashes that differ in few bits.

Each bit stands for one of 64 groups into which the pairs of neighbouring words fall by their hash; it is a bit of the
smallest hash of its group (b-bit min-wise hashing of Li and König 2010, with one permutation, Li et al. 2012). So a
bit changes when the pair that it was taken from is gone, or a smaller one has come: as many bits change as pairs did,
in proportion. The bits of Charikar's simhash (Manku et al. 2007) are signs of sums and change with the square root:
there a date that changes in 600 words costs two bits, one new sentence in forty five.

A hash is the same in every process and on every machine. It is a signed integer, as Parquet's int64: two of them are
compared in DuckDB by `bit_count(xor(a, b))`, in Athena by `bit_count(bitwise_xor(a, b), 64)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from selectolax.lexbor import LexborHTMLParser

NEAR = 3
"""Bits in which the hashes of near duplicates differ at most."""

BITS = 64

FEWEST = 64
"""Different pairs of words below which a text has no hash: too little to tell pages apart by."""

SAMPLE = 8 * BITS
"""Smallest hashes that are looked at of a long text, about: the smallest of almost every group is among them."""

SPACE = 1 << 32
"""The hashes of pairs are smaller than this."""

MAX_TEXT = 1_000_000
"""Characters of a text that are looked at."""

# Scripts that are written without blanks: each letter counts as a word. Thai to Myanmar, Khmer, and from the radicals
# over kana and Han to the full width forms, with the planes of rare Han.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\s{_UNSPACED}]+")

_INVISIBLE = "script, style, template"


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
    words = _words(text[:MAX_TEXT])
    hashes = _smallest(words, SAMPLE)
    if len(hashes) < 2 * BITS and len(words) > SAMPLE:  # the same over and over: the sample has little of the text
        hashes = _smallest(words, len(words))
    if len(hashes) < FEWEST:
        return None
    smallest = {value % BITS: value for value in sorted(hashes, reverse=True)}
    result = 0
    for group in range(BITS):
        # An empty group takes another bit of the next one's: short texts leave some empty.
        step = next(step for step in range(BITS) if (group + step) % BITS in smallest)
        bit = smallest[(group + step) % BITS] >> (6 + step % 12) & 1
        result |= bit << group
    return result - (1 << BITS) if result >> (BITS - 1) else result


def distance(one: int, other: int) -> int:
    """In how many bits two hashes differ."""
    return ((one ^ other) & ((1 << BITS) - 1)).bit_count()


def _words(text: str) -> Sequence[bytes]:
    """What stands between blanks; letters of scripts that have none one by one, where much of the text is in them."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > 1.4 * len(text):
        data = " ".join(_WORD.findall(text)).encode("utf-8", "surrogatepass")
    return data.split()


def _smallest(words: Sequence[bytes], about: int) -> set[int]:
    """The smallest hashes of pairs of neighbouring words, about so many of them; all when there are fewer.

    The CRC of a word that begins with that of another is the CRC of both.
    """
    pairs = map(crc32, words[1:], map(crc32, words))
    if len(words) <= about:
        return set(pairs)
    limit = SPACE * about // len(words)
    return {value for value in pairs if value < limit}
