"""What tests see of a host's backlog in the table, and how they work it off."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from crawler.model import Health, done, skipped
from crawler.state.aws import backlog
from crawler.state.aws.records import Feed
from crawler.state.aws.state import AwsState
from tests.aws.places import Place

RATE = 100.0


async def prompt(state: AwsState, *hosts: str) -> None:
    for host in hosts:
        await state.diagnose(host, Health(prompt=True))


async def finish(state: AwsState, place: Place) -> Counter[str]:
    """Work until every page has ended: how often each URL was handed out."""
    urls: Counter[str] = Counter()
    end = time.monotonic() + 30
    while any(item["phase"]["S"] == "p" for item in place.items()):
        assert time.monotonic() < end
        leases = await state.claim(100)
        urls.update(lease.url for lease in leases)
        await state.settle([(lease, skipped(lease.limit) if lease.limit else done(1)) for lease in leases])
        if not leases:
            await asyncio.sleep(0.05)
    return urls


async def empty(state: AwsState, place: Place) -> None:
    """Claim until no message is left: what comes is of pages that have ended, or feeders'."""
    end = time.monotonic() + 30
    while sum(place.depth()) + sum(place.depth(place.high)):
        assert time.monotonic() < end
        assert await state.claim(100) == []
        await asyncio.sleep(0.05)


def chunks(place: Place) -> list[dict[str, Any]]:
    """Those that have pages."""
    found = [item for item in place.items(place.control) if backlog.NUMBER in item["pk"]["S"]]
    assert all(("ttl" in item) == (item["count"]["N"] == "0") for item in found)
    return [item for item in found if item["count"]["N"] != "0"]


def line(place: Place, host: str = "site.example", crawl: str = "c") -> dict[str, Any]:
    name = backlog.name(crawl, place.run(crawl), host)
    item: dict[str, Any] = place.dynamodb.get_item(TableName=place.control, Key={"pk": {"S": name}})["Item"]
    return item


def waiting(place: Place) -> int:
    """Pages in chunks."""
    return sum(int(item["count"]["N"]) for item in chunks(place))


async def feed_by_hand(state: AwsState, place: Place, crawl: str = "c", host: str = "site.example") -> None:
    """Do what the line's feeder asks for, as if its message had come; it stays where it is, as after a crash."""
    token = line(place, host, crawl)["feeder"]["S"]
    feed = Feed(feed=crawl, run=place.run(crawl), gate=host, token=token, born=time.time())
    await state._claiming._feeding.feed([(feed, "1:gone")])
