"""Content codings as servers really send them."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from crawler.decode import ACCEPT_ENCODING, MOST_FRAMES, STEP, Decoder

LIMIT = 10_000_000
PAGE = b"<!doctype html><title>t</title>" + b"".join(b"<p>paragraph %d</p>" % n for n in range(3000))


def deflate(data: bytes) -> bytes:
    return zlib.compress(data)


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", deflate),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstd),
]
each_coding = pytest.mark.parametrize(
    ("name", "encode"), CODINGS, ids=["gzip", "x-gzip", "zlib", "raw-deflate", "br", "zstd"]
)


def decode(coding: str | None, wire: bytes, limit: int = LIMIT, size: int = 1 << 30) -> tuple[bytes, Decoder]:
    decoder = Decoder(coding, limit)
    pieces = [decoder.feed(wire[at : at + size]) for at in range(0, len(wire), size)]
    return b"".join(pieces) + decoder.finish(), decoder


def judged(decoder: Decoder) -> tuple[bool, str]:
    return decoder.decoded, decoder.truncated


@pytest.mark.case("C03")
@each_coding
@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 30])
def test_a_body_is_decoded_however_it_is_cut_into_chunks(
    name: str, encode: Callable[[bytes], bytes], size: int
) -> None:
    body, decoder = decode(name, encode(PAGE), size=size)
    assert body == PAGE
    assert judged(decoder) == (True, "")


@each_coding
@pytest.mark.parametrize("page", [b"", b"x", b"ok\n", os.urandom(100_000), bytes(300_000)])
def test_bodies_of_all_sorts_survive(name: str, encode: Callable[[bytes], bytes], page: bytes) -> None:
    body, decoder = decode(name, encode(page))
    assert body == page
    assert judged(decoder) == (True, "")


@pytest.mark.case("C02", "C03")
@pytest.mark.parametrize("name", [None, "", "identity", "none", " Identity ", *ACCEPT_ENCODING.split(", ")])
def test_an_empty_body_is_fine_whatever_its_label(name: str | None) -> None:
    body, decoder = decode(name, b"")
    assert body == b""
    assert judged(decoder) == (True, "")


@pytest.mark.case("C02")
@pytest.mark.parametrize("name", ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize(
    "text", [b"<!doctype html><html><body>Not found</body></html>" * 5, b"<p>", b"no", "<p>Größe</p>".encode()]
)
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_a_plain_body_labelled_as_compressed_is_taken_as_it_is(name: str, text: bytes, size: int) -> None:
    body, decoder = decode(name, text, size=size)
    assert body == text
    assert judged(decoder) == (True, "")


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_noise_labelled_as_compressed_is_not_called_decoded(name: str) -> None:
    noise = {"gzip": b"\x1f\x8b\x08\x00", "br": b"", "zstd": b"\x28\xb5\x2f\xfd"}[name] + b"\xff\x00\x01\x02" * 100
    body, decoder = decode(name, noise)
    assert body == b""
    assert judged(decoder) == (False, "disconnect")


@pytest.mark.case("C02")
@each_coding
@pytest.mark.parametrize("missing", [1, 4, 12, 400])
@pytest.mark.parametrize("size", [100, 1 << 30])
def test_a_stream_cut_short_keeps_what_came_and_says_so(
    name: str, encode: Callable[[bytes], bytes], missing: int, size: int
) -> None:
    wire = encode(PAGE)[:-missing]
    body, decoder = decode(name, wire, size=size)
    assert PAGE.startswith(body)
    assert judged(decoder) == (True, "disconnect")


@pytest.mark.case("C02", "C03")
@pytest.mark.parametrize(("name", "encode"), CODINGS[:2] + CODINGS[5:])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_all_members_are_read(name: str, encode: Callable[[bytes], bytes], size: int) -> None:
    body, decoder = decode(name, encode(b"one ") + encode(b"") + encode(b"two"), size=size)
    assert body == b"one two"
    assert judged(decoder) == (True, "")


def test_skippable_zstd_frames_are_skipped() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"notes"
    body, decoder = decode("zstd", skippable + zstd(b"one") + skippable)
    assert body == b"one"
    assert judged(decoder) == (True, "")


@pytest.mark.case("C02")
@each_coding
@pytest.mark.parametrize("junk", [b"<!-- x -->", b"\0" * 600, b"\n", b"\x1f\x8b junk", b"\x28\xb5\x2f\xfd\xff\xff"])
@pytest.mark.parametrize("size", [1, 50, 1 << 30])
def test_junk_behind_the_end_is_ignored(name: str, encode: Callable[[bytes], bytes], junk: bytes, size: int) -> None:
    body, decoder = decode(name, encode(PAGE) + junk, size=size)
    assert body == PAGE
    assert decoder.decoded


def test_a_wrong_checksum_is_no_damage() -> None:
    named = b"\x1f\x8b\x08\x1a" + bytes(6) + b"name\0comment\0\0\0" + raw_deflate(PAGE) + b"\1\2\3\4" + bytes(4)
    for coding, wire in [
        ("gzip", gzip.compress(PAGE)[:-8] + b"\1\2\3\4" + len(PAGE).to_bytes(4, "little")),
        ("gzip", named),
        ("deflate", deflate(PAGE)[:-4] + b"\1\2\3\4"),
    ]:
        body, decoder = decode(coding, wire)
        assert body == PAGE
        assert judged(decoder) == (True, "")


@each_coding
def test_a_body_broken_in_the_middle_keeps_its_beginning(name: str, encode: Callable[[bytes], bytes]) -> None:
    page = bytes(random.Random(1).choices(b"abcdefghijklmnop <>", k=400_000))
    wire = bytearray(encode(page))
    middle = len(wire) // 2
    wire[middle : middle + 200] = b"\xff" * 200
    body, decoder = decode(name, bytes(wire))
    kept = next((at for at, (got, sent) in enumerate(zip(body, page, strict=False)) if got != sent), len(body))
    assert kept > 100_000
    # A decoder may go on for a while before the break shows.
    assert len(body) - kept < 400_000
    assert judged(decoder)[0]
    assert decoder.truncated == "disconnect" or len(body) >= 390_000


@pytest.mark.case("C03")
def test_stacked_codings_are_undone_from_right_to_left() -> None:
    body, decoder = decode("gzip, br", brotli.compress(gzip.compress(PAGE)))
    assert body == PAGE
    body, decoder = decode("GZIP,  x-gzip , identity", gzip.compress(gzip.compress(PAGE)), size=10)
    assert body == PAGE
    assert judged(decoder) == (True, "")
    body, decoder = decode("deflate, gzip", gzip.compress(deflate(PAGE)[:-50]))
    assert PAGE.startswith(body)
    assert judged(decoder) == (True, "disconnect")


@pytest.mark.case("C03")
@pytest.mark.parametrize("name", ["compress", "utf-8", "gzip, sdch", "exi", ", ".join(["gzip"] * 40)])
def test_an_unknown_coding_leaves_the_body_alone(name: str) -> None:
    wire = gzip.compress(PAGE)
    body, decoder = decode(name, wire)
    assert body == wire
    assert judged(decoder) == (False, "")


@pytest.mark.parametrize("name", [None, "compress"])
def test_a_body_of_exactly_the_limit_is_whole_and_one_byte_more_is_cut(name: str | None) -> None:
    body, decoder = decode(name, b"x" * 1000, limit=1000, size=300)
    assert (body, decoder.truncated, decoder.full) == (b"x" * 1000, "", False)
    body, decoder = decode(name, b"x" * 1001, limit=1000, size=300)
    assert (body, decoder.truncated, decoder.full) == (b"x" * 1000, "length", True)
    assert decoder.feed(b"more") == b""


@each_coding
def test_the_limit_is_on_decoded_bytes(name: str, encode: Callable[[bytes], bytes]) -> None:
    body, decoder = decode(name, encode(PAGE), limit=len(PAGE))
    assert (body, decoder.truncated) == (PAGE, "")
    body, decoder = decode(name, encode(PAGE), limit=len(PAGE) - 1)
    assert (body, decoder.truncated, decoder.full) == (PAGE[:-1], "length", True)


@pytest.mark.case("C04")
@each_coding
def test_a_bomb_stops_at_the_limit(name: str, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(bytes(40_000_000))
    tracemalloc.start()
    try:
        body, decoder = decode(name, bomb, limit=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) == 1_000_000
    assert decoder.truncated == "length"
    assert peak < 12_000_000


def test_a_bomb_between_two_codings_stops_as_well() -> None:
    """Empty members without end: nothing comes out of the second coding, however much the first one makes."""
    wire = gzip.compress(gzip.compress(b"") * 200_000)
    body, decoder = decode("gzip, gzip", wire, limit=STEP)
    assert body == b""
    assert decoder.truncated == "length"


@pytest.mark.parametrize("name", ["gzip", "zstd", "gzip, gzip"])
def test_frames_without_end_stop_at_a_number(name: str) -> None:
    """Empty ones come to no byte, however many there are, and each costs time."""
    empty = zstd(b"") if name == "zstd" else gzip.compress(b"")
    for frames, whole in ((MOST_FRAMES, True), (MOST_FRAMES + 1, False)):
        wire = empty * (frames - 1) + (zstd(b"end") if name == "zstd" else gzip.compress(b"end"))
        body, decoder = decode(name, gzip.compress(wire) if "," in name else wire)
        assert body == (b"end" if whole else b"")
        assert judged(decoder) == (True, "" if whole else "length")
        assert decoder.full is not whole


@pytest.mark.parametrize("head", [b"\x1f\x8b", b"\x1f\x8b\x00", b"\x1f\x8b\xff\xff", b"\x78", b"\x28\xb5\x2f\xfd"])
@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "gzip, br, gzip"])
def test_a_body_of_a_few_bytes_is_no_fault(name: str, head: bytes) -> None:
    for end in range(len(head) + 1):
        _, decoder = decode(name, head[:end])
        assert decoder.truncated in ("", "disconnect")
