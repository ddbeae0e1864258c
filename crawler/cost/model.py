"""What a crawl will take, before there is a stack: requests by operation, units, seconds. Derived from how the state on
AWS works, step by step, with the times and the sizes of batches that its modules name. What happens by chance (how full
a poll comes back, who gets which page) is measured: those figures are the second group below, as

    python -m bench.run cost        # --hosts --size --links --rate --workers, for other crawls

shows them: it prints what a crawl took beside what this says.

The model is of the whole crawl, its beginning and end included. Not in it: failures and retries, Crawl-delays, hosts
that are slow to answer, limits, what a fleet takes while it waits for nothing.
"""

from __future__ import annotations

import functools
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

HORIZON = 12.0
"""Seconds ahead for which turns are taken at a paced host's gate, not before the first of them is half as far away."""

# Measured.

BACKLOG = 0.1
"""Write units of a page that waits so: written, and emptied later. python -m bench.run starving-aws"""

FULL_CLAIM = 45.0
"""Pages that a claim hands out where there are many: what there is room for."""

BUSY_EMPTY, DRY = 11, 1.5
"""Receives that find nothing where hosts are not paced: of a worker, at its beginning and at its end; and each time
that all pages have been handed out before others were found."""

ASKED, ASKED_NEWS, MOST_ASKED = 0.2, 1.5, 3.0
"""Receives that bring less than a batch on paced hosts: a second of a worker, and each time that pages were found, of
these not more than so many a second of a worker."""

POLLED = 0.6
"""Long polls that bring pages of paced hosts, a second of a worker; to keep what one brings takes a request."""

IN_HAND = 10.0
"""Seconds at the end of a crawl for which all pages of paced hosts are in hand."""

LOOKED, SHARED, LOOKED_NEW = 3.6, 3.5, 0.3
"""Requests that read gates of paced hosts, a second of a worker at most, and pages a second with which it makes half
as many: the more they are the more share one; and each page of a host that is new. Besides, a claim reads them."""

GATES = 1.3
"""Gates of paced hosts that these requests read, for a page."""

NEAR, WAITED = 3.3, 0.8
"""Turns that a write takes at a paced host's gate where the next one is near, and pages come as they are found; and of
those that one might take for pages that wait, a share."""

LOST = 0.075
"""Of these writes, those that each other worker makes vain, since it was faster."""

PACED_ENDS, BUSY_ENDS = 0.8, 1.8
"""Flushes of a worker because nothing else was to do: at its beginning and at its end."""

UNSEEN = 0.5
"""Of the gates that are looked at where hosts are not paced, those that the worker has not seen within the last second.
"""


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


def model(site: Site, workers: int, seconds: float, calls: float = 0.0) -> Usage:
    """Requests and units of a crawl that so many workers finish in so many seconds from their first claims on.

    `calls`: of functions, which receive nothing themselves and flush at the end of each; 0: the workers are processes.
    """
    # While pages are found, the hosts, or the fleet, are asked as fast as they may; at the end fewer are left to be.
    pace = min(site.hosts * site.rate, site.pages / max(1.0, seconds - IN_HAND)) / workers
    walked = walk(site.pages, site.hosts, site.links, workers, pace, SOON * site.rate, site.listed)
    steps = _Steps()
    _start(steps, workers)
    _alive(steps, workers, seconds)
    _hosts(steps, site, workers)
    _discovery(steps, walked, site)
    steps.sqs("ReceiveMessage", site.pages / MESSAGES)
    if not calls:
        _waste(steps, site, workers, seconds, walked)
    if site.rate:
        _gates(steps, site, workers, seconds, pace)
        _turns(steps, site, workers)
    else:
        _busy_claims(steps, site)
    ends = workers * (PACED_ENDS if site.rate else BUSY_ENDS)
    _endings(steps, site, calls or workers * seconds / FLUSH + ends)
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
    share = site.pages / walked.pages
    steps.read(walked.looks * share, walked.asked * share, halves=1)
    steps.write("BatchExecuteStatement", walked.inserts * share, site.pages + walked.refused * share)
    steps.read(walked.rereads * share, walked.refused * share)
    steps.write("UpdateItem", walked.counts * share)
    steps.sqs("SendMessageBatch", walked.sends * share)
    if site.rate:
        # Where the host has more pages than turns in the next seconds, turns are booked at its line.
        steps.read(walked.checks * share, walked.lines * share)
        steps.write("UpdateItem", walked.booked * share)
        behind = max(0.0, site.pages - site.hosts * FAR * site.rate)
        steps.write("BatchExecuteStatement", 2 * behind / CHUNK, BACKLOG * behind)


def _waste(steps: _Steps, site: Site, workers: int, seconds: float, walked: Walk) -> None:
    """Receives that are not full, and what keeps the pages of a long poll."""
    share = site.pages / walked.pages
    if site.rate:
        news = walked.counts * share
        coming = workers * max(0.0, seconds - IN_HAND)
        steps.sqs("ReceiveMessage", min(ASKED_NEWS * news, MOST_ASKED * workers * seconds) + ASKED * coming)
        steps.sqs("ChangeMessageVisibilityBatch", min(site.pages / MESSAGES, POLLED * coming))
    else:
        steps.sqs("ReceiveMessage", BUSY_EMPTY * workers + DRY * walked.short * share)
    # Lanes that are empty are looked at now and then.
    steps.sqs("ReceiveMessage", 2 * (workers + seconds / REST))


def _busy_claims(steps: _Steps, site: Site) -> None:
    """Read the records of pages, and their hosts' gates."""
    claims = site.pages / FULL_CLAIM
    gates = site.hosts * (1 - (1 - 1 / site.hosts) ** (site.pages / claims))
    steps.read(claims, site.pages + claims * gates * UNSEEN)


def _gates(steps: _Steps, site: Site, workers: int, seconds: float, pace: float) -> None:
    """Read records and gates of paced hosts; before a turn's request look at its gate again."""
    claims = site.pages / FULL_CLAIM
    new = site.hosts * min(site.pages / site.hosts, _unknown(workers))
    looks = LOOKED * workers * seconds * pace / (pace + SHARED)
    steps.read(claims + looks + LOOKED_NEW * new, site.pages * (1 + GATES))


def _turns(steps: _Steps, site: Site, workers: int) -> None:
    """Writes at the gates of paced hosts. A host's turns are taken one by one until it is known to answer promptly,
    then for the pages that have come, then for those that wait, here and with the other workers."""
    size = site.pages / site.hosts
    new = min(size, _unknown(workers))
    near = min(size - new, HORIZON / 2 * site.rate)
    most = max(1.0, WAITED * min(MESSAGES, HORIZON * 2 / 3 * site.rate))
    writes = new + near / NEAR + (size - new - near) / most
    steps.write("UpdateItem", site.hosts * writes / (1 - min(0.5, LOST * (workers - 1))))


def _unknown(workers: int) -> float:
    """Answers of a host after which it is known to answer promptly: each goes to any of the workers, and one of these
    must have had three of them."""
    fleet = min(workers, 50)  # of more, hosts that are so large as to tell are rare

    @functools.cache
    def more(none: int, one: int) -> float:
        """Of workers so many have had none, so many one, the others two."""
        further = 1.0
        if none:
            further += none / fleet * more(none - 1, one + 1)
        if one:
            further += one / fleet * more(none, one - 1)
        return further

    return more(fleet, 0)


def _endings(steps: _Steps, site: Site, flushes: float) -> None:
    """Store, finish, count, delete: at each flush."""
    steps.put(2 * flushes, site.pages * site.stored)
    steps.write("BatchExecuteStatement", site.pages / STATEMENTS + flushes / 2, site.pages)
    steps.write("UpdateItem", flushes)
    steps.sqs("DeleteMessageBatch", site.pages / MESSAGES + flushes / 2)
