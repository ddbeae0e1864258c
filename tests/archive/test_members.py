"""Reading gzip members, whole and damaged."""

from __future__ import annotations

import io
import random

import pytest

from crawler.archive.members import Member, compress, members

CONTENTS = [b"first", b"", random.Random(1).randbytes(100_000), b"last"]
MEMBERS = [compress(content) for content in CONTENTS]


def read(data: bytes) -> list[Member]:
    found = list(members(io.BytesIO(data)))
    assert sum(member.length for member in found) == len(data)
    assert [member.offset for member in found] == [sum(m.length for m in found[:n]) for n in range(len(found))]
    return found


def test_whole_members_come_in_order_with_their_places() -> None:
    assert [member.data for member in read(b"".join(MEMBERS))] == CONTENTS
    assert [member.length for member in read(b"".join(MEMBERS))] == [len(member) for member in MEMBERS]
    assert read(b"") == []


@pytest.mark.case("G02")
def test_every_cut_keeps_the_whole_members_before_it() -> None:
    data = MEMBERS[0] + MEMBERS[3]
    for end in range(len(data)):
        whole = [member.data for member in read(data[:end]) if member.data is not None]
        assert whole == ([b"first"] if end >= len(MEMBERS[0]) else [])


def test_a_flipped_bit_costs_one_member_wherever_it_is() -> None:
    data = MEMBERS[0] + MEMBERS[3] + MEMBERS[0]
    start, end = len(MEMBERS[0]), len(MEMBERS[0]) + len(MEMBERS[3])
    for place in range(start, end):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        found = [member.data for member in read(bytes(damaged))]
        # Some bits are no part of the content (time, padding); those of the check sum are.
        assert found in ([b"first", None, b"first"], [b"first", b"last", b"first"])
        assert found[1] is None or place < end - 8


def test_what_follows_garbage_is_found_again() -> None:
    garbage = random.Random(2).randbytes(3_000_000) + b"\x1f\x8b\x08" + b"\x1f\x8b"
    found = read(MEMBERS[0] + garbage + MEMBERS[2])
    assert [(member.length, member.data) for member in found] == [
        (len(MEMBERS[0]), b"first"),
        (len(garbage), None),
        (len(MEMBERS[2]), CONTENTS[2]),
    ]
