"""What a crawl will take, before there is a stack: requests by operation, units, seconds. Derived from how the state on
AWS works, step by step, with the times and the sizes of batches that its modules name. What happens by chance (how full
a poll comes back, who gets which page) is measured: those figures are the second group below, as

    python -m bench.run cost        # --hosts --size --links --rate --workers, for other crawls

shows them: it prints what a crawl took beside what this says.

The model is of the whole crawl, its beginning and end included. Not in it: failures and retries, Crawl-delays, hosts
that are slow to answer, limits, what a fleet takes while it waits for nothing.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from crawler.cost.usage import Unit, Usage
from crawler.cost.walk import MESSAGES, STATEMENTS, Walk, walk

BEAT, FRESH, PAYS, COUNTED = 10.0, 20.0, 60.0, 60.0
"""Seconds between a worker's signs of life, looks at its crawls' settings, payments, and counts of the fleet."""

FLUSH, REST = 30.0, 20.0
"""Seconds between flushes, and between looks at a lane that is empty, the fleet's all together."""

SOON, FAR = 20.0, 600.0
"""Seconds of a paced host's turns for which pages are sent at once, and for which they are queued at all."""

CHUNK = 100
"""Pages of a host that are further behind and wait in one item."""

# Measured.

BACKLOG = 0.1
"""Write units of a page that waits so: written, and emptied later. python -m bench.run starving-aws"""

CLAIM, CLAIMS = 8.0, 1.1
"""Pages that a claim hands out on paced hosts, which come off the queue up to ten at a time, and how many claims of a
worker a second bring any: where more pages come than those, each brings more."""

FEW = 6.0
"""Pages of a paced host that come one by one, as they are found, and not together."""

BUSY_CLAIM = 40.0
"""Pages that a claim hands out at most, and where hosts are not paced: what there is room for."""

IDLE_CLAIMS = 0.08
"""Claims that find nothing, a second of a worker on paced hosts."""

POLLED = 0.33
"""Long polls that bring pages of paced hosts, a second of a worker; to keep what one brings takes a request. No more
than one a claim."""

ASIDE = 0.1
"""Of the claims on paced hosts, those that meet a page whose turn another worker has taken, and send it again. A worker
that is alone meets none."""

SHARED_TURNS = 2.9
"""Turns beyond the first that a write takes at a paced host's gate, shared by the workers: what comes off the queue
together for a host is spread over them."""

LOOKS, CROWDED, MANY = 0.36, 0.8, 100.0
"""Of the requests at paced hosts, those that wait for their turn for so long that the gate is looked at again: of a
worker that is alone; how many more where there are others; and pages of a host from about which on it is so."""

UNSEEN = 0.5
"""Of the gates that a claim meets, those that the worker has not seen within the last second."""

BUSY_BATCH = 14
"""Pages whose endings a worker writes together, where it has as many pages as it can fetch."""

GATHERING = 0.07
"""Seconds from one batch of endings to the next in a worker on paced hosts: `crawler.settle.GATHER` and the writing."""

PACED_ENDS, BUSY_ENDS = 0.8, 1.8
"""Flushes of a worker because nothing else was to do: at its beginning and at its end."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What is crawled: `pages` in all, on `hosts` of equal size, each page with so many links to pages of the crawl.

    `stored` are the bytes of a page as kept. `listed` is the share of a host's pages that its sitemap lists; 0: it has
    none.
    """

    pages: int
    hosts: int
    links: int = 60
    rate: float = 1.0
    stored: float = 10_000.0
    listed: float = 0.0


def model(site: Site, workers: int, seconds: float) -> Usage:
    """Requests and units of a crawl that so many workers finish in so many seconds."""
    pace = site.pages / workers / max(seconds, 1.0)
    batch = 1 + pace * GATHERING if site.rate else BUSY_BATCH
    steps = _Steps()
    _start(steps, workers)
    _alive(steps, workers, seconds)
    _hosts(steps, site, workers)
    walked = walk(site.pages, site.hosts, site.links, workers, batch, SOON * site.rate, site.listed)
    _discovery(steps, walked, site)
    _claims(steps, site, workers, seconds)
    _endings(steps, site, workers, seconds)
    return steps.usage()


class _Steps:
    """Requests and units that add up, not rounded."""

    def __init__(self) -> None:
        self.requests: defaultdict[str, float] = defaultdict(float)
        self.units: defaultdict[str, float] = defaultdict(float)

    def sqs(self, operation: str, requests: float) -> None:
        self.requests[f"sqs.{operation}"] += requests
        self.units[Unit.SQS] += requests
        if operation == "SendMessageBatch":
            self.units[Unit.FAIR] += requests

    def read(self, requests: float, keys: float, halves: int = 2) -> None:
        """Reads of small items: strongly consistent ones take two halves of a unit."""
        self.requests["dynamodb.BatchGetItem"] += requests
        self.units[Unit.HALF_READS] += halves * keys

    def write(self, operation: str, requests: float, units: float | None = None) -> None:
        self.requests[f"dynamodb.{operation}"] += requests
        self.units[Unit.WRITES] += requests if units is None else units

    def put(self, requests: float, size: float) -> None:
        self.requests["s3.PutObject"] += requests
        self.units[Unit.PUTS] += requests
        self.units[Unit.STORED] += size

    def list(self, requests: float) -> None:
        self.requests["s3.ListObjectsV2"] += requests
        self.units[Unit.PUTS] += requests

    def usage(self) -> Usage:
        return Usage(
            *({name: round(count) for name, count in counts.items()} for counts in (self.requests, self.units))
        )


def _start(steps: _Steps, workers: int) -> None:
    """The command that seeds and the workers open the state: names of the queues, the lease, a look at both tables.
    Workers know the stack's parts; the command asks for them."""
    steps.requests["cloudformation.DescribeStacks"] += 1
    steps.sqs("GetQueueUrl", 3 * (workers + 1))
    steps.sqs("GetQueueAttributes", workers + 1)
    steps.read(2 * (workers + 1), 2 * (workers + 1))
    # Seeds: which crawls there are, the name and the record of a new one, its counter.
    steps.read(2, 2)
    steps.write("UpdateItem", 1)
    steps.write("PutItem", 1)
    # Each worker: the archive can be read, and what it holds of this worker; the crawl's record; its name on the list.
    steps.list(3 * workers)
    steps.read(2 * workers, 2 * workers)
    steps.write("UpdateItem", workers)


def _alive(steps: _Steps, workers: int, seconds: float) -> None:
    """What a worker does by the clock; a payment at each end is one more."""
    time = workers * seconds
    steps.write("PutItem", time / BEAT + 2 * workers)
    steps.read(2 * time / FRESH, 2 * time / FRESH)
    steps.read(2 * time / COUNTED, (1 + workers) * time / COUNTED)
    steps.write("UpdateItem", time / PAYS + 2 * workers + 1)


def _hosts(steps: _Steps, site: Site, workers: int) -> None:
    """robots.txt, once for the fleet and known to each worker that meets the host; a sitemap likewise."""
    meet = workers * (1 - (1 - 1 / workers) ** (site.pages / site.hosts))
    steps.read(site.hosts * meet, 2 * site.hosts * meet)
    steps.write("PutItem", 2 * site.hosts)
    if site.listed:
        steps.read(site.hosts * (meet + 1), site.hosts * (meet + 1))
        steps.write("PutItem", site.hosts * (meet + 2))
    if site.rate:
        # A turn for robots.txt, one for the sitemap, and that the host answers promptly.
        steps.write("UpdateItem", site.hosts * (3 if site.listed else 2))


def _discovery(steps: _Steps, walked: Walk, site: Site) -> None:
    """Links: look up what a process meets first, insert what is absent, count it, send it."""
    share = site.pages / walked.new
    steps.read(walked.looks * share, walked.asked * share, halves=1)
    steps.write("BatchExecuteStatement", walked.inserts * share, site.pages)
    steps.write("UpdateItem", walked.counts * share)
    steps.sqs("SendMessageBatch", walked.sends * share)
    if site.rate:
        # Where the host has more pages than turns in the next seconds: read its line, book turns there.
        steps.read(walked.booked * share, walked.booked * share)
        steps.write("UpdateItem", walked.booked * share)
        behind = max(0.0, site.pages - site.hosts * FAR * site.rate)
        steps.write("BatchExecuteStatement", 2 * behind / CHUNK, BACKLOG * behind)


def _claims(steps: _Steps, site: Site, workers: int, seconds: float) -> None:
    """Receive, read the records and their hosts' gates, take turns; before a turn's request look at its gate again."""
    size = site.pages / site.hosts
    together, time = size / (size + FEW), workers * seconds
    claims = site.pages / BUSY_CLAIM
    if site.rate:
        claims = max(claims, min(site.pages / CLAIM, CLAIMS * time))
    # The last receive of a claim finds that there is no more; lanes that are empty are looked at now and then.
    empty = claims + 2 * (2 * workers + seconds / REST)
    steps.sqs("ReceiveMessage", site.pages / MESSAGES + empty + (IDLE_CLAIMS * time if site.rate else 0))
    if site.rate:
        steps.sqs("ChangeMessageVisibilityBatch", min(claims, POLLED * time))
        again = claims * ASIDE * (1 - 1 / workers)
        steps.sqs("SendMessageBatch", again)
        steps.sqs("DeleteMessageBatch", again)
    pages = site.pages / claims
    gates = site.hosts * (1 - (1 - 1 / site.hosts) ** pages)
    steps.read(claims, site.pages + claims * gates * UNSEEN)
    if site.rate:
        shared = 1 - 1 / workers
        steps.write("UpdateItem", site.pages / (1 + SHARED_TURNS * together / workers))
        # A look is good for a second, for all who ask.
        looks = site.pages * (LOOKS + CROWDED * shared * size / (size + MANY)) / max(1.0, site.rate)
        steps.read(looks, looks)


def _endings(steps: _Steps, site: Site, workers: int, seconds: float) -> None:
    """Store, finish, count, delete: at each flush."""
    flushes = workers * (seconds / FLUSH + (PACED_ENDS if site.rate else BUSY_ENDS))
    steps.put(2 * flushes, site.pages * site.stored)
    steps.write("BatchExecuteStatement", site.pages / STATEMENTS + flushes / 2, site.pages)
    steps.write("UpdateItem", flushes)
    steps.sqs("DeleteMessageBatch", site.pages / MESSAGES + flushes / 2)
