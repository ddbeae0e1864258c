"""Reading back one response record: what a revisit refers to, and the body that has not changed.

Only what `warc.response_record` wrote is read; a record that is anything else, or damaged, counts as none.
"""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec
from isal import isal_zlib

from crawler.archive.inspection import fields_of, inspect
from crawler.archive.members import DAMAGED, GZIP
from crawler.archive.validators import Known
from crawler.archive.warc import target_uri
from crawler.decode import Decoder
from crawler.fetched import Reference


class Original(msgspec.Struct, frozen=True, gc=False):
    """A response record: what refers to it, its header fields as stored, its body as stored and decoded."""

    reference: Reference
    headers: tuple[tuple[bytes, bytes], ...]
    stored: bytes
    body: bytes
    decoded: bool


def read_original(member: bytes, known: Known, url: str) -> Original | None:
    """The record in a gzip member, if it is that of `url` with the body that is `known`."""
    try:
        data = isal_zlib.decompress(member, wbits=GZIP)
    except DAMAGED:
        return None
    head, _, block = data.partition(b"\r\n\r\n")
    record, fields = inspect(data), fields_of(head)
    if record.flaw or record.kind != "response" or record.uri != target_uri(url):
        return None
    http, _, stored = block[:-4].partition(b"\r\n\r\n")
    lines = http.split(b"\r\n")
    if re.match(rb"HTTP/\d\.\d 200 ", lines[0]) is None:
        return None
    headers = tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines[1:]))
    # The size is known, so nothing unpacks to more than it is meant to.
    decoder = Decoder(", ".join(_values(headers, b"content-encoding")), known.size + 1)
    decoded = decoder.feed(stored) + decoder.finish()
    body = decoded if decoder.decoded else stored
    if sha256(body).digest() != known.digest:
        return None
    reference = Reference(
        uri=record.uri,
        date=fields.get("warc-date", ""),
        record_id=fields.get("warc-record-id", ""),
        payload_digest=fields.get("warc-payload-digest", ""),
        file=known.file,
        offset=known.offset,
        length=known.length,
    )
    return Original(reference, headers, stored, body, decoder.decoded)


def _values(headers: tuple[tuple[bytes, bytes], ...], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name.lower() == wanted]
