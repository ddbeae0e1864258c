"""The page row: one line of ndjson for a URL answered, skipped or dead, and the schema that Parquet gets.

Column order is the schema's; columns are only ever added at the end, nullable.
"""

from __future__ import annotations

import time
from copy import copy

import msgspec

from crawler import urls
from crawler.model import Lease, Verdict
from crawler.url_key import Keys

SCHEMA_VERSION = 1


class PageRow(msgspec.Struct, kw_only=True, gc=False):
    """One answer. Times are Unix seconds; `bytes` is the length of the decoded body kept.

    `warc_file` is relative to the crawl's folder; `warc_offset` and `warc_length` delimit one gzip member of it. Where
    that is a revisit record, `original_file` (relative to the store), `original_offset` and `original_length` say where
    the record lies that has the body. `extra` is a JSON object.

    `simhash` is the similarity hash of the text (see `crawler/simhash.py`); links of a page with `near_duplicate_of`,
    the URL of a page whose text is almost the same, were found but not followed. Both need --skip-near-duplicates.
    """

    crawl_id: str
    url: str
    url_key: str
    host: str
    depth: int
    parent_url: str | None = None
    discovered_at: float | None = None
    outcome: str
    reason: str | None = None
    status: int | None = None
    fetched_at: float | None = None
    elapsed_ms: int | None = None
    attempts: int = 0
    redirect_to: str | None = None
    content_type: str | None = None
    charset: str | None = None
    bytes: int | None = None
    truncated: bool | None = None
    digest: str | None = None
    duplicate_of: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    title: str | None = None
    lang: str | None = None
    canonical_url: str | None = None
    noindex: bool | None = None
    links_found: int | None = None
    links_new: int | None = None
    warc_file: str | None = None
    warc_offset: int | None = None
    warc_length: int | None = None
    error: str | None = None
    extra: str | None = None
    original_file: str | None = None
    original_offset: int | None = None
    original_length: int | None = None
    simhash: int | None = None
    near_duplicate_of: str | None = None


def ended(lease: Lease, verdict: Verdict, keys: Keys) -> PageRow:
    """The row of a page that has just ended, as far as it needs no answer of its server."""
    return PageRow(
        crawl_id=lease.crawl,
        url=lease.url,
        url_key=keys.key(lease.url),
        host=urls.hostname(lease.url),
        depth=lease.depth,
        parent_url=lease.parent_url or None,
        discovered_at=lease.discovered_at,
        outcome=verdict.ending,
        reason=verdict.reason or None,
        fetched_at=time.time(),
        attempts=lease.attempt,
        error=verdict.error or None,
    )


_encoder = msgspec.json.Encoder()


def encode(row: PageRow) -> bytes:
    """A row as a line of ndjson in UTF-8. Lone surrogates and U+0000, which Parquet readers refuse, become
    U+FFFD."""
    try:
        line = _encoder.encode(row)
    except UnicodeEncodeError:
        line = _encoder.encode(_cleaned(row))
    # Also true for a backslash before "u0000" in the text: cleaning that row costs a little and changes nothing.
    if b"\\u0000" in line:
        line = _encoder.encode(_cleaned(row))
    return line + b"\n"


def _cleaned(row: PageRow) -> PageRow:
    cleaned = copy(row)
    for name in PageRow.__struct_fields__:
        value = getattr(row, name)
        if isinstance(value, str):
            setattr(cleaned, name, value.translate(_UNFIT))
    return cleaned


_UNFIT = {0: "\ufffd"} | dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
