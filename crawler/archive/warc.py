"""Writing WARC 1.1 (ISO 28500:2017): a warcinfo record, then responses and revisits, each a gzip member of its own
(annex D).

There are no request records: every request of a crawl is the same but for its target, which the response names (and
for cookies, which are secrets); the user agent, the only header of interest, is in the warcinfo. Leaving them out saves
a fifth of the records' cost.

Digests are SHA-1 in Base32, what the readers of the field compare by. Both are over bytes as stored: the payload is
the body without transfer coding but with its content coding (WARC 1.1 6.3.2).
"""

from __future__ import annotations

import re
import time
import uuid
from base64 import b32encode
from collections.abc import Mapping
from hashlib import sha1

from crawler import __version__
from crawler.fetched import Reference, Response

IDENTICAL_PAYLOAD_DIGEST = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
SERVER_NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"

_UNFIT = re.compile(r"[^\x21-\x7e]")
_BREAKS = re.compile(rb"[\r\n\x00]")


def warcinfo(file_name: str, fields: Mapping[str, str], at: float) -> bytes:
    """The record a file begins with; `file_name` is the name it will have once closed."""
    described = {"software": f"crawler/{__version__}", "format": "WARC File Format 1.1", **fields}
    block = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in described.items()).encode()
    head = (
        "WARC/1.1\r\n"
        "WARC-Type: warcinfo\r\n"
        f"WARC-Record-ID: <urn:uuid:{uuid.uuid4()}>\r\n"
        f"WARC-Date: {warc_date(at)}\r\n"
        f"WARC-Filename: {target_uri(file_name)}\r\n"
        f"WARC-Block-Digest: {sha1_digest(block)}\r\n"
        "Content-Type: application/warc-fields\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode("ascii") + block + b"\r\n\r\n"


def response_record(response: Response, crawl: str) -> bytes:
    """A response record. Its id is the same for the same capture: crawl, URL and time of the answer make it."""
    fields = {"WARC-Truncated": target_uri(response.truncated)} if response.truncated else {}
    return _record("response", response, crawl, response.stored, sha1_digest(response.stored), fields)


def revisit_record(response: Response, crawl: str, reference: Reference) -> bytes:
    """A revisit record (WARC 1.1 6.7): an answer whose payload is that of an earlier record. It has the answer's
    header fields and no payload; its payload digest is the earlier record's."""
    not_modified = response.status == 304
    fields = {
        "WARC-Profile": SERVER_NOT_MODIFIED if not_modified else IDENTICAL_PAYLOAD_DIGEST,
        "WARC-Refers-To": reference.record_id,
        "WARC-Refers-To-Target-URI": reference.uri,
        "WARC-Refers-To-Date": reference.date,
    }
    if not not_modified:
        # What was received was left out on purpose (WARC 1.1 6.7.2).
        fields["WARC-Truncated"] = "length"
    return _record("revisit", response, crawl, b"", reference.payload_digest, fields)


def _record(
    kind: str, response: Response, crawl: str, payload: bytes, payload_digest: str, fields: Mapping[str, str]
) -> bytes:
    http = http_head(response)
    uri = target_uri(response.url)
    block_digest = sha1(http, usedforsecurity=False)
    block_digest.update(payload)
    optional = f"WARC-IP-Address: {target_uri(response.ip)}\r\n" if response.ip else ""
    optional += "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    head = (
        "WARC/1.1\r\n"
        f"WARC-Type: {kind}\r\n"
        f"WARC-Record-ID: <urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{uri} {response.fetched_at!r} {crawl}')}>\r\n"
        f"WARC-Date: {warc_date(response.fetched_at)}\r\n"
        f"WARC-Target-URI: {uri}\r\n"
        f"{optional}"
        f"WARC-Block-Digest: sha1:{b32encode(block_digest.digest()).decode()}\r\n"
        f"WARC-Payload-Digest: {payload_digest}\r\n"
        "Content-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(http) + len(payload)}\r\n\r\n"
    )
    return b"".join((head.encode("ascii"), http, payload, b"\r\n\r\n"))


def http_head(response: Response) -> bytes:
    """Status line and header fields as received, up to and with the empty line.

    Two framing fields would lie about the stored body, and readers that believe them drop bytes: Transfer-Encoding,
    because the body is stored without it, and a Content-Length that is not the stored length (a body cut at the
    limit, or an answer without body). They get the prefix `X-Crawler-`. CR, LF and NUL inside a value become spaces
    (RFC 9110 5.5). The reason phrase is its bytes as Latin-1 text.
    """
    reason = _BREAKS.sub(b" ", response.reason.encode("latin-1", "replace"))
    pieces = [b"%b %d %b\r\n" % (response.version.encode("ascii"), response.status, reason)]
    for name, value in response.headers:
        lower = name.lower()
        if lower == b"transfer-encoding" or (
            lower == b"content-length" and value.strip() != b"%d" % len(response.stored)
        ):
            name = b"X-Crawler-" + name
        pieces.append(b"%b: %b\r\n" % (_BREAKS.sub(b" ", name), _BREAKS.sub(b" ", value)))
    pieces.append(b"\r\n")
    return b"".join(pieces)


def target_uri(text: str) -> str:
    """A value for a WARC header line: what is not printable ASCII is percent-encoded, so that no line can be forged."""
    return _UNFIT.sub(_percent, text)


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _one_line(text: str) -> str:
    return " ".join(text.split()).encode("utf-8", "replace").decode()


def warc_date(at: float) -> str:
    """Unix seconds as WARC-Date, to the microsecond (WARC 1.1 5.4)."""
    micros = round(at * 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(micros // 1_000_000)) + f".{micros % 1_000_000:06}Z"


def sha1_digest(data: bytes) -> str:
    """A digest as WARC headers carry it."""
    return "sha1:" + b32encode(sha1(data, usedforsecurity=False).digest()).decode()
