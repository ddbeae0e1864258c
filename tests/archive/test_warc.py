"""WARC records, proved by warcio as an independent reader."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.recordloader import ArcWarcRecord

from crawler.archive.inspection import inspect
from crawler.archive.members import compress
from crawler.archive.warc import http_head, response_record, warc_date, warcinfo
from crawler.fetched import Response
from tests.archive.making import response


def file_of(*responses: Response) -> bytes:
    info = compress(warcinfo("w-0001.warc.gz", {"isPartOf": "c1", "robots": "classic"}, 1.0))
    return info + b"".join(compress(response_record(each, "c1")) for each in responses)


def read_one(each: Response) -> tuple[ArcWarcRecord, bytes]:
    """The response as warcio sees it, and the content it makes of the body (decoded)."""
    last = None
    for record in ArchiveIterator(io.BytesIO(file_of(each)), check_digests="raise"):
        last = record, record.content_stream().read()
    assert last is not None
    return last


BODIES = {
    "plain": response(),
    "empty": response(stored=b"", headers=((b"Content-Length", b"0"),)),
    "looks chunked": response(stored=b"5\r\nabcdefghijk", headers=((b"Transfer-Encoding", b"chunked"),)),
    "gzip coded": response(
        stored=gzip.compress(b"x" * 9000), body=b"x" * 9000, headers=((b"Content-Encoding", b"gzip"),)
    ),
    "not modified": response(
        stored=b"", status=304, reason="Not Modified", headers=((b"ETag", b'"a"'), (b"Content-Length", b"5000"))
    ),
    "cut at the limit": response(stored=b"abc", truncated="length", headers=((b"Content-Length", b"5000"),)),
    "ended early": response(stored=b"abc", truncated="disconnect", headers=((b"transfer-encoding", b"chunked"),)),
    "ends like a record": response(stored=b"abc\r\n\r\nWARC/1.1\r\n\r\n"),
    "no header fields": response(headers=()),
}


@pytest.mark.case("G01")
@pytest.mark.parametrize("each", BODIES.values(), ids=BODIES.keys())
def test_an_independent_reader_gets_the_body_back_and_agrees_with_the_digests(each: Response) -> None:
    record, content = read_one(each)
    assert record.rec_type == "response"
    assert content == each.body
    assert record.rec_headers.get_header("WARC-Target-URI") == each.url
    assert record.http_headers.get_statuscode() == str(each.status)
    assert record.rec_headers.get_header("WARC-Truncated") == (each.truncated or None)


@pytest.mark.parametrize("each", BODIES.values(), ids=BODIES.keys())
def test_our_inspection_finds_nothing_wrong_with_it(each: Response) -> None:
    found = inspect(response_record(each, "c1"))
    assert found == ("response", each.url, "")


def test_the_readers_own_check_command_is_content(tmp_path: Path) -> None:
    path = tmp_path / "w-0001.warc.gz"
    path.write_bytes(file_of(*BODIES.values()))
    command = "import sys; from warcio.cli import main; main(['check', '-v', sys.argv[1]])"
    checked = subprocess.run([sys.executable, "-c", command, str(path)], capture_output=True, text=True, check=True)
    assert checked.stdout.count("digest pass") == len(BODIES) + 1


def test_a_file_begins_with_its_description() -> None:
    record = next(iter(ArchiveIterator(io.BytesIO(file_of(response())))))
    assert record.rec_type == "warcinfo"
    assert record.rec_headers.get_header("WARC-Filename") == "w-0001.warc.gz"
    described = record.content_stream().read().decode()
    assert "isPartOf: c1\r\n" in described
    assert "robots: classic\r\n" in described
    assert "format: WARC File Format 1.1\r\n" in described
    assert described.startswith("software: crawler/")


def test_each_record_is_one_gzip_member() -> None:
    member = compress(response_record(response(), "c1"))
    assert gzip.decompress(member).endswith(b"\r\n\r\n")
    assert compress(gzip.decompress(member)) == member


@pytest.mark.case("G01")
def test_transfer_encoding_is_renamed_because_the_body_is_stored_without_it() -> None:
    head = http_head(response(headers=((b"Transfer-Encoding", b"gzip, chunked"), (b"X-B", b"1"))))
    assert head == b"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: gzip, chunked\r\nX-B: 1\r\n\r\n"


def test_a_content_length_that_the_stored_body_has_not_is_renamed() -> None:
    head = http_head(response(stored=b"abc", headers=((b"content-length", b"3"), (b"Content-Length", b"5000"))))
    assert head == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nX-Crawler-Content-Length: 5000\r\n\r\n"


@pytest.mark.case("G04")
def test_header_values_and_reason_survive_byte_for_byte() -> None:
    received = "Art\u00edculo \U0001f577".encode() + b" caf\xe9"
    head = http_head(
        response(status=404, reason=received.decode("latin-1"), headers=((b"X-a", b"caf\xe9\xff"), (b"x-A", b"")))
    )
    assert head == b"HTTP/1.1 404 " + received + b"\r\nX-a: caf\xe9\xff\r\nx-A: \r\n\r\n"


@pytest.mark.case("G04")
def test_a_line_break_in_a_header_forges_no_line() -> None:
    head = http_head(response(reason="A\r\nX-Forged: 1", headers=((b"X-A\n", b"1\r\nX-Forged: 1\x00"),)))
    assert head == b"HTTP/1.1 200 A  X-Forged: 1\r\nX-A : 1  X-Forged: 1 \r\n\r\n"


@pytest.mark.case("G04")
def test_a_line_break_in_a_url_forges_no_line() -> None:
    record, _ = read_one(response(url="http://a.test/\r\nWARC-Type: metadata\x00\u00e9 \udc80"))
    assert record.rec_type == "response"
    uri = record.rec_headers.get_header("WARC-Target-URI")
    assert uri == "http://a.test/%0D%0AWARC-Type:%20metadata%00%C3%A9%20%ED%B2%80"


def test_the_address_is_kept_when_known() -> None:
    assert read_one(response(ip="192.0.2.7"))[0].rec_headers.get_header("WARC-IP-Address") == "192.0.2.7"
    assert read_one(response())[0].rec_headers.get_header("WARC-IP-Address") is None


@pytest.mark.case("G05")
def test_a_capture_has_one_id_and_another_capture_another() -> None:
    def identity(each: Response, crawl: str) -> str | None:
        return next(line for line in response_record(each, crawl).decode().split("\r\n") if "Record-ID" in line)

    captures = [
        identity(response(), "c1"),
        identity(response(), "c2"),
        identity(response(2), "c1"),
        identity(response(fetched_at=9.0), "c1"),
    ]
    assert len(set(captures)) == len(captures)
    assert identity(response(), "c1") == captures[0]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_790_000_000.25, "2026-09-21T14:13:20.250000Z"),
        (1_790_000_000.9999999, "2026-09-21T14:13:21.000000Z"),
    ],
)
def test_dates_have_microseconds(at: float, text: str) -> None:
    assert warc_date(at) == text


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ((b"WARC/1.1", b"WARC/9.9"), "is no WARC 1.1 record"),
        ((b"<title>Page 1", b"<title>Page 2"), "does not have the content of its WARC-Block-Digest"),
        (
            (b"WARC-Payload-Digest: sha1:", b"WARC-Payload-Digest: sha1:A"),
            "does not have the content of its WARC-Payload-Digest",
        ),
        ((b"</title>\r\n\r\n", b"\r\n\r\n"), "is not as long as its Content-Length"),
    ],
)
def test_inspection_names_what_is_wrong(change: tuple[bytes, bytes], flaw: str) -> None:
    good = response_record(response(), "c1")
    bad = good.replace(*change, 1)
    assert bad != good
    assert inspect(bad).flaw.startswith(flaw)
