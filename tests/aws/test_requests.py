"""What a page costs in requests: each is billed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from crawler.model import Added, Page, Parent, done
from crawler.state.aws.state import AwsState
from tests.aws.conftest import Open
from tests.aws.places import page

PAGES = 1_000
LINKS = 60
ROOM = 64


async def crawl(state: AwsState, site: list[Page], links: list[list[int]]) -> Counter[bytes]:
    """Work on the site as the loop does: claim what there is room for, add the links of a batch, settle it."""
    number = {page.digest: index for index, page in enumerate(site)}
    seen: set[bytes] = set()
    fetched: Counter[bytes] = Counter()
    idle = 0
    while idle < 2:
        leases = await state.claim(ROOM)
        idle = 0 if leases else idle + 1
        fetched.update(lease.digest for lease in leases)
        found: dict[bytes, Page] = {}
        for lease in leases:
            parent = Parent(lease.digest, lease.url)
            for target in links[number[lease.digest]]:
                link = site[target]
                if link.digest not in seen and link.digest not in found:
                    found[link.digest] = Page(link.url, link.digest, link.gate, lease.depth + 1, parent=parent)
        if found:
            answers = await state.add("c", list(found.values()))
            assert set(answers) <= {Added.NEW, Added.KNOWN, Added.AGAIN}
            seen.update(found)
        if leases:
            await state.settle([(lease, done(1)) for lease in leases])
    return fetched


async def test_a_page_costs_less_than_a_request(opening: Open) -> None:
    choose = random.Random(7)
    site = [page(f"https://h{number % 20}.example/{number}") for number in range(PAGES)]
    links = [choose.sample(range(PAGES), LINKS) for _ in site]
    one, two = await opening("one"), await opening("two")
    await one.add("c", site[:1])
    before = one.requests + two.requests
    fetched = sum(await asyncio.gather(crawl(one, site, links), crawl(two, site, links)), Counter())
    used = one.requests + two.requests - before
    assert len(fetched) == PAGES
    assert set(fetched.values()) == {1}
    per_page = {operation: count / PAGES for operation, count in sorted(used.items())}
    print({operation: round(count, 3) for operation, count in per_page.items()}, round(sum(per_page.values()), 3))
    assert sum(per_page.values()) <= 0.9
    assert await one.complete("c")
    assert (await one.counts("c")).discovered == PAGES
