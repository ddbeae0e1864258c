"""Inspecting a WARC record as a stranger would: by its bytes alone."""

from __future__ import annotations

from typing import NamedTuple

from crawler.archive.warc import sha1_digest

_REFERRING = ("WARC-Profile", "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date", "WARC-Payload-Digest")
"""Without these a revisit record is of no use to a reader (WARC 1.1 6.7)."""


class Inspected(NamedTuple):
    """`kind` is WARC-Type, `uri` WARC-Target-URI ("" when absent), `flaw` what is wrong with it ("" when nothing)."""

    kind: str
    uri: str
    flaw: str = ""


def inspect(data: bytes) -> Inspected:
    """Check the frame, the length and the digests of one uncompressed record (WARC 1.1, 4 and 5)."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    version, fields = head.partition(b"\r\n")[0].decode("utf-8", "replace"), fields_of(head)
    kind, uri = fields.get("warc-type", ""), fields.get("warc-target-uri", "")
    if not separator or version != "WARC/1.1":
        return Inspected(kind, uri, "is no WARC 1.1 record")
    block = rest[:-4]
    if fields.get("content-length") != str(len(block)) or not rest.endswith(b"\r\n\r\n"):
        return Inspected(kind, uri, f"is not as long as its Content-Length of {fields.get('content-length')} says")
    if fields.get("warc-block-digest") != sha1_digest(block):
        return Inspected(kind, uri, "does not have the content of its WARC-Block-Digest")
    payload = block.partition(b"\r\n\r\n")[2]
    if kind == "response" and fields.get("warc-payload-digest") != sha1_digest(payload):
        return Inspected(kind, uri, "does not have the content of its WARC-Payload-Digest")
    if kind == "revisit" and payload:
        return Inspected(kind, uri, "refers to another record and has a payload all the same")
    if kind == "revisit" and (lacking := next((name for name in _REFERRING if not fields.get(name.lower())), None)):
        return Inspected(kind, uri, f"refers to another record and has no {lacking}")
    return Inspected(kind, uri)


def fields_of(head: bytes) -> dict[str, str]:
    """The WARC header fields of a record by their lower-case name; `head` begins with the version line."""
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
