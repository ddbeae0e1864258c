"""What lies in a message and in an item: pure conversions between them and the words of the field.

Times are whole microseconds in items, so that conditions compare them exactly; the control table's `ttl` is in seconds,
and only for cleaning.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import uuid
from typing import Annotated, Any, Literal

import msgspec

from crawler.model import ERROR_LENGTH, HISTORY, Failure, Page, Phase, Priority, Verdict

Item = dict[str, Any]
"""A DynamoDB item in its typed form: `{"name": {"S": "value"}}`."""

MAX_URL = 100_000
"""Longest URL in a message, in bytes: with its parent's and all else it stays below SQS's 262,144 bytes a request."""


class Feed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The message that moves pages of a host from the backlog to the queue: `feed` names the crawl. It is to be obeyed
    while the line has its `token`; sent at `born` (Unix seconds)."""

    feed: str
    run: str
    gate: str
    token: str
    born: float

    @classmethod
    def new(cls, crawl: str, run: str, gate: str, now: float) -> Feed:
        return cls(feed=crawl, run=run, gate=gate, token=uuid.uuid4().hex[:12], born=now)


REASON_LENGTH = 60
"""Characters kept of a reason."""

PHASES = {"p": Phase.PENDING, "d": Phase.DONE, "s": Phase.SKIPPED, "x": Phase.DEAD}
LETTERS = {phase: letter for letter, phase in PHASES.items()}


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One page on a queue, complete enough to be fetched without a read. `digest` is in hex, `found` Unix seconds.

    `run` tells crawls of one name apart: a name may be used again after a purge. `lost` counts how often an earlier
    copy of this message was handed out and not settled. `not_before` is for waits longer than a queue can delay.
    """

    crawl: str
    run: str
    url: str
    digest: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
    gate: str
    depth: int
    priority: int
    parent: str
    found: float
    lost: int = 0
    not_before: float = 0.0

    @property
    def pk(self) -> str:
        return f"{self.crawl}#{self.run}#{self.digest}"

    def page(self) -> Page:
        """The page as it is recorded when its record is missing."""
        return Page(self.url, bytes.fromhex(self.digest), self.gate, self.depth, self.priority)


CRAWL_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""A crawl that a plain seed may name: it becomes part of keys and of file names."""


class Seed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A plain message: a seed from anywhere. Other members are ignored."""

    url: str
    crawl: Annotated[str, msgspec.Meta(pattern=CRAWL_ID)] | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    priority: Literal["high", "normal", "low"] = "normal"


_message = msgspec.json.Decoder(Message)
_feed = msgspec.json.Decoder(Feed)
_seed = msgspec.json.Decoder(Seed)


def encode(message: Message | Feed) -> str:
    """Make a message's body: JSON in ASCII, so that it holds no character that SQS refuses."""
    return json.dumps(msgspec.to_builtins(message), separators=(",", ":"), ensure_ascii=True)


def decode(body: str) -> Message | Feed | Seed | None:
    """Read a body: one of ours, a seed as JSON, or a bare URL. None for what is none of them."""
    text = body.strip()
    if not text.startswith("{"):
        return Seed(url=text) if text and not re.search(r"\s", text) else None
    raw = text.encode("utf-8", "replace")
    decoders: tuple[msgspec.json.Decoder[Any], ...] = (_message, _feed, _seed)
    for decoder in decoders:
        with contextlib.suppress(msgspec.DecodeError):
            return decoder.decode(raw)  # type: ignore[no-any-return]
    return None


def message(crawl: str, run: str, page: Page, found: float) -> Message:
    """The message of a page that is new."""
    return Message(
        crawl=crawl,
        run=run,
        url=page.url,
        digest=page.digest.hex(),
        gate=page.gate,
        depth=page.depth,
        priority=page.priority,
        parent=page.parent.url if page.parent and len(page.parent.url) <= MAX_URL else "",
        found=found,
    )


def lane(priority: int) -> int:
    """Number of the lane that carries a priority: 0 for what is before normal, 1 for normal, 2 for what is behind."""
    return 1 + (priority > Priority.NORMAL) - (priority < Priority.NORMAL)


BY_REASON = (Phase.SKIPPED, Phase.DEAD)
"""A crawl's item counts pages that ended so by reason too, an attribute a reason."""

OTHER = "other"
"""Counts what has a reason that is no word of ours: a crawl's item must not grow with what comes in."""


def counter(ended: Phase, reason: str) -> str:
    """Name of the counter of pages that ended so for a reason."""
    word = clipped(reason, REASON_LENGTH)
    return f"{ended}#{word if re.fullmatch('[a-z0-9]+(-[a-z0-9]+)*', word) else OTHER}"


def group(gate: str) -> str:
    """A MessageGroupId for a gate: 1 to 128 printable ASCII characters (SQS, SendMessage)."""
    if 0 < len(gate) <= 128 and all("!" <= character <= "~" for character in gate):
        return gate
    return hashlib.sha256(gate.encode("utf-8", "replace")).hexdigest()


def page_key(crawl: str, run: str, digest: bytes) -> str:
    """Key of a page's record: writes spread over partitions, and a long URL never breaks a key."""
    return f"{crawl}#{run}#{digest.hex()}"


def failed(history: tuple[Failure, ...], at: float, verdict: Verdict) -> tuple[Failure, ...]:
    """A page's history with one more failed attempt, cut to what is kept."""
    return (*history, Failure(at, clipped(verdict.reason, REASON_LENGTH), clipped(verdict.error, ERROR_LENGTH)))[
        -HISTORY:
    ]


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def s(text: str) -> Item:
    """A string attribute; what UTF-8 cannot hold becomes a question mark."""
    return {"S": text.encode("utf-8", "replace").decode()}


def n(number: int) -> Item:
    return {"N": str(number)}


def text(item: Item, name: str) -> str:
    return str(item[name]["S"]) if name in item else ""


def number(item: Item, name: str) -> int:
    return int(item[name]["N"]) if name in item else 0


def clipped(line: str, length: int) -> str:
    """One line for an item, as UTF-8 can hold it: items are billed by the kilobyte."""
    return " ".join(line.split())[:length].encode("utf-8", "replace").decode()
